// skinny: few rows (or columns) of D, so the larger operand is read once and that is the work: every
// SM streams its share of it through shared memory, all threads of a block along k.
//
// Contract: D = alpha*A*B + beta*C for each of a batch, in float32, by any strides, at any
// alignment; m, n >= 1 and k >= 0. Each output's products are summed by fused multiply-adds in
// parts of k, and the parts in a fixed order; beta = 0 never reads C.
//
// Tile: bm x bn outputs a block. With tm = bm a thread has all rows of the tile and tn of its
// columns, and kparts threads share those; with tn = bn (where n is the small side) the same of the
// transposed product. A step takes bk = 4 * kparts along k, four a thread. Lanes of a warp are
// neighbours along n first, then along k; warps lie along k. Drawn for .bn=32, .tn=4, .kparts=32:
//
//               n0                 n0+31
//        k0     +------------------+            a step of B: 8 warps of 16 rows; in a warp 8 lanes
//               | 0  1  2  ..    7 |  warp 0    along n, 4 columns each, and 4 along k, 4 rows each
//               | 8  9  10 ..   15 |
//               | 16 ..         31 |
//        k0+16  +------------------+
//               |                  |  warp 1
//               :                  :
//
// Each warp has a ring of `stages` steps in shared memory and waits for nobody: [tm][bk of a warp]
// of A, read by all lanes along n, and four by tn of B for each lane, read by that lane alone. So
// the copies keep stages - 1 steps in flight. Where the parts of k meet: lanes fold (lib/fold.cuh),
// warps add through shared memory, blocks through the workspace (lib/splits.cuh).
//
// Grid: (tiles along n x batch, tiles along m, splits of k); for the transposed product n and m
// trade places.
// Shared memory, dynamic: 4 * max(stages * bk * (bm + bn), warps * bm * bn) bytes.
#include "lib/async.cuh"
#include "lib/epilogue.cuh"
#include "lib/fold.cuh"
#include "lib/product.cuh"
#include "lib/splits.cuh"
#include "lib/tile.cuh"
#include "lib/types.cuh"

// D^T = B^T A^T: the same product with its small side along m.
__device__ inline Product transposed(const Product& p)
{
  return {p.b, p.a, p.c, p.d, p.partial, p.arrivals,
          p.b_col, p.b_row, p.b_batch, p.a_col, p.a_row, p.a_batch,
          p.c_col, p.c_row, p.c_batch, p.d_col, p.d_row, p.d_batch,
          p.n, p.m, p.k, p.batch, p.splits, p.alpha, p.beta};
}

__host__ __device__ constexpr Access transposed(Access x)
{
  return {!x.b_along_n, !x.a_along_k, x.b_vector, x.a_vector};
}

__host__ __device__ constexpr Tile transposed(Tile t)
{
  const int bm = t.bm, tm = t.tm;
  t.bm = t.bn;
  t.tm = t.tn;
  t.bn = bm;
  t.tn = tm;
  return t;
}

// How a warp's lanes share a step: what each copies, and where it finds what it multiplies.
template <Tile T, Access X>
struct Shares {
  static constexpr int lanes_n = T.bn / T.tn;      // 32/4 = 8
  static constexpr int lanes_k = 32 / lanes_n;     // 32/8 = 4
  static constexpr int depth = 4 * lanes_k;        // k of a warp a step: 4*4 = 16
  static constexpr int warps = T.threads() / 32;   // 8*32/32 = 8
  static constexpr int a_floats = T.tm * depth;    // of a stage
  static constexpr int b_floats = 32 * 4 * T.tn;
  static constexpr int stage = a_floats + b_floats;

  // 128-bit copies: of four columns of B, or of four k.
  static constexpr bool b_columns = X.b_along_n && X.b_vector == 4 && T.tn % 4 == 0;
  static constexpr bool b_depth = !X.b_along_n && X.b_vector == 4;
  // Whether a thread's four k are neighbours: else they are lanes_k apart, so that neighbouring
  // lanes copy neighbouring floats.
  static constexpr bool runs = b_depth || (X.b_along_n && X.a_along_k && X.a_vector == 4);
  static constexpr bool a_depth = runs && X.a_along_k && X.a_vector == 4;
  static constexpr int width = b_columns ? 4 : 1;  // neighbouring columns of a thread

  static_assert(T.tm == T.bm && T.bk == 4 * T.kparts && T.stages >= 2 && 32 % lanes_n == 0 &&
                T.threads() % 32 == 0);

  __device__ static int k_of(int lane, int j)
  {
    const int lk = lane / lanes_n;
    return runs ? 4 * lk + j : lk + j * lanes_k;
  }

  __device__ static int column_of(int lane, int c)
  {
    return (c / width * lanes_n + lane % lanes_n) * width + c % width;
  }

  // The place of an output in the sums of a warp, [tm][tn][lanes_n].
  __device__ static int place_of(int row, int column)
  {
    const int c = column / (width * lanes_n) * width + column % width;
    return (row * T.tn + c) * lanes_n + column / width % lanes_n;
  }

  // Copies A's [rows][depth], which begins at `a`: `left` of k are in the matrix.
  // NOTE: offsets in a step are 32 bits wide: half the registers. skinny.py refuses larger ones.
  __device__ static void copy_a(float* ring, const Product& p, const float* a, int rows, int left,
                                int lane)
  {
    const int a_row = p.a_row, a_col = p.a_col;
    if constexpr (a_depth) {
#pragma unroll
      for (int e = lane; e < T.tm * lanes_k; e += 32) {
        const int i = e / lanes_k, k = e % lanes_k * 4;
        copy_async<16>(ring + 4 * e, a + i * a_row + k, i < rows && k < left ? 16 : 0);
      }
    } else {
#pragma unroll
      for (int e = lane; e < a_floats; e += 32) {
        const int i = X.a_along_k ? e / depth : e % T.tm;
        const int k = X.a_along_k ? e % depth : e / T.tm;
        const int place = runs ? k : k % lanes_k * 4 + k / lanes_k;
        copy_async<4>(ring + i * depth + place, a + (i * a_row + k * a_col),
                      i < rows && k < left ? 4 : 0);
      }
    }
  }

  // Copies the lane's four by tn of B, whose step begins at `b`.
  __device__ static void copy_b(float* ring, const Product& p, const float* b, int cols, int left,
                                int lane)
  {
    const int b_row = p.b_row, b_col = b_columns ? 1 : p.b_col;
    float* const mine = ring + a_floats + 4 * lane;
#pragma unroll
    for (int c = 0; c < T.tn; c += width) {
      const int column = column_of(lane, c);
      if constexpr (b_depth) {
        const int k = k_of(lane, 0);
        copy_async<16>(mine + c * 128, b + (column * b_col + k), column < cols && k < left ? 16 : 0);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int k = k_of(lane, j);
          float* const target = mine + (b_columns ? (c + j) * 128 : c * 128 + j);
          const bool inside = column < cols && k < left;
          copy_async<4 * width>(target, b + (column * b_col + k * b_row), inside ? 4 * width : 0);
        }
      }
    }
  }

  // Four steps along k of the lane's tm by tn outputs.
  __device__ static void multiply(float (&acc)[T.tm * T.tn], const float* ring, int lane)
  {
    float frag_b[4][T.tn];
#pragma unroll
    for (int x = 0; x < T.tn; ++x) {
      const float4 four = reinterpret_cast<const float4*>(ring + a_floats)[x * 32 + lane];
      const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (b_columns) frag_b[x % 4][x / 4 * 4 + e] = values[e];
        else frag_b[e][x] = values[e];
      }
    }
#pragma unroll
    for (int i = 0; i < T.tm; ++i) {
      const float4 four = reinterpret_cast<const float4*>(ring)[i * lanes_k + lane / lanes_n];
      const float frag_a[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int c = 0; c < T.tn; ++c) {
          acc[i * T.tn + c] = fmaf(frag_a[j], frag_b[j][c], acc[i * T.tn + c]);
        }
      }
    }
  }
};

template <Tile T, Access X>
__device__ void few_rows(const Product& p)
{
  // coordinates
  using S = Shares<T, X>;
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, split = blockIdx.z;
  const unsigned tiles_n = (p.n - 1u) / T.bn + 1;
  const unsigned batch = p.batch == 1 ? 0 : blockIdx.x / tiles_n;
  const int m0 = blockIdx.y * T.bm, n0 = (blockIdx.x - batch * tiles_n) * T.bn;
  const int steps = (p.k - 1) / T.bk + (p.k > 0);
  int step = static_cast<int64>(steps) * split / p.splits;
  const int last = static_cast<int64>(steps) * (split + 1) / p.splits;

  // shared memory
  extern __shared__ float4 shared[];
  float* const smem = reinterpret_cast<float*>(shared);
  float* const ring = smem + warp * T.stages * S::stage;  // [stages][A, then B]

  // prologue
  int64 k0 = static_cast<int64>(step) * T.bk + warp * S::depth;
  const float* a = p.a + batch * p.a_batch + m0 * p.a_row + k0 * p.a_col;
  const float* b = p.b + batch * p.b_batch + n0 * p.b_col + k0 * p.b_row;
  int64 left = p.k - k0;
  int slot = 0;
  int ahead = last - step;  // steps that are not yet copied
  const auto copy = [&] {
    if (ahead-- > 0) {
      const int inside = static_cast<int>(left);
      S::copy_a(ring + slot * S::stage, p, a, p.m - m0, inside, lane);
      S::copy_b(ring + slot * S::stage, p, b, p.n - n0, inside, lane);
      a += T.bk * p.a_col;
      b += T.bk * p.b_row;
      left -= T.bk;
    }
    slot = slot + 1 == T.stages ? 0 : slot + 1;
    commit_copies();
  };
#pragma unroll 1
  for (int i = 1; i < T.stages; ++i) copy();
  float acc[T.tm * T.tn] = {};

  // main loop
#pragma unroll 1
  for (; step < last; ++step) {
    wait_copies<T.stages - 2>();
    __syncwarp();  // A's part is read by lanes that did not copy it; the oldest stage is free
    const int oldest = slot + 1 == T.stages ? 0 : slot + 1;
    copy();
    S::multiply(acc, ring + oldest * S::stage, lane);
  }

  // sums over lanes, then warps, then blocks
  constexpr int outputs = T.bm * T.bn;
  constexpr int count = (outputs - 1) / T.threads() + 1;
  wait_copies<0>();
  __syncthreads();  // no warp writes its sums where another still reads its ring
  const Folded held = fold<S::lanes_n, T.tm * T.tn>(acc, lane);
#pragma unroll
  for (int i = 0; i < folded(S::lanes_n, T.tm * T.tn); ++i) {
    const int v = held.first + i;
    if (v < held.end) smem[warp * outputs + v * S::lanes_n + lane % S::lanes_n] = acc[i];
  }
  __syncthreads();  // no thread adds sums that are not written
  float value[count] = {};
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int output = tid + i * T.threads();
    if (output >= outputs) break;
    const int place = S::place_of(output / T.bn, output % T.bn);
#pragma unroll
    for (int w = 0; w < S::warps; ++w) value[i] += smem[w * outputs + place];
  }
  const int64 tile = blockIdx.x + static_cast<int64>(gridDim.x) * blockIdx.y;
  if (!sum_splits<T.threads()>(value, p, tile, split)) return;

  // epilogue
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int output = tid + i * T.threads();
    const int64 row = m0 + output / T.bn, col = n0 + output % T.bn;
    if (output >= outputs || row >= p.m || col >= p.n) continue;
    const int64 from = batch * p.c_batch + row * p.c_row + col * p.c_col;
    const float old = p.beta != 0.0f ? p.c[from] : 0.0f;
    p.d[batch * p.d_batch + row * p.d_row + col * p.d_col] = blend(p.alpha, value[i], p.beta, old);
  }
}

template <Tile T, Access X>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
skinny(const __grid_constant__ Product p)
{
  if constexpr (T.tm == T.bm) few_rows<T, X>(p);
  else few_rows<transposed(T), transposed(X)>(transposed(p));
}

// What kernels for few rows (or columns) of D share: how a block's threads divide a tile and its k,
// and how their sums meet. Neighbours along n are the lanes of a warp first, k the rest of them and
// the warps.
//
// Tile: bm x bn outputs a block. With tm = bm a thread has all rows of the tile and tn of its
// columns, and kparts threads share those. A step takes bk = 4 * kparts along k, four a thread.
// Drawn for .bn=32, .tn=4, .kparts=32:
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
// Each float of B is read by one thread alone, so it goes straight into registers: `stages` steps
// are under way in every thread from its first instruction on.
//
// Where the parts of k meet: lanes fold (lib/fold.cuh), warps add through shared memory, blocks
// through the workspace (lib/splits.cuh).
// Grid: (tiles along n x batch, tiles along m, splits of k).
#pragma once

#include "lib/epilogue.cuh"
#include "lib/fold.cuh"
#include "lib/product.cuh"
#include "lib/splits.cuh"
#include "lib/stream.cuh"
#include "lib/tile.cuh"
#include "lib/types.cuh"

// D^T = B^T A^T: the same product with its small side along m.
__device__ inline Product transposed(const Product& p)
{
  Product q = p;
  q.a = p.b, q.a_row = p.b_col, q.a_col = p.b_row, q.a_batch = p.b_batch;
  q.b = p.a, q.b_row = p.a_col, q.b_col = p.a_row, q.b_batch = p.a_batch;
  q.c_row = p.c_col, q.c_col = p.c_row;
  q.d_row = p.d_col, q.d_col = p.d_row;
  q.m = p.n, q.n = p.m;
  return q;
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

// What a block computes: its first output, and its steps along k.
struct Part {
  unsigned batch;
  int m0, n0, first, last;
};

template <Tile T>
__device__ Part part_of_block(const Product& p)
{
  const unsigned tiles_n = (p.n - 1u) / T.bn + 1;
  const unsigned batch = p.batch == 1 ? 0 : blockIdx.x / tiles_n;
  const int n0 = (blockIdx.x - batch * tiles_n) * T.bn, m0 = blockIdx.y * T.bm;
  const unsigned steps = (p.k - 1) / T.bk + (p.k > 0), split = blockIdx.z;
  const unsigned each = steps / p.splits, more = steps % p.splits;  // the first `more` have 1 more
  const int first = split * each + min(split, more);
  const int last = first + each + (split < more);
  return {batch, m0, n0, first, last};
}

// How the lanes of a warp share a step: which of B each reads.
template <Tile T, Access X>
struct Shares {
  static constexpr int lanes_n = T.bn / T.tn;     // 32/4 = 8
  static constexpr int lanes_k = 32 / lanes_n;    // 32/8 = 4
  static constexpr int depth = 4 * lanes_k;       // k of a warp a step: 4*4 = 16
  static constexpr int warps = T.threads() / 32;  // 8*32/32 = 8

  // 128-bit reads: of four columns of B, or of four k.
  static constexpr bool b_columns = X.b_along_n && X.b_vector == 4 && T.tn % 4 == 0;
  static constexpr bool b_depth = !X.b_along_n && X.b_vector == 4;
  // Whether a thread's four k are neighbours: else they are lanes_k apart, so that neighbouring
  // lanes read neighbouring floats.
  static constexpr bool runs = b_depth || (X.b_along_n && X.a_along_k && X.a_vector == 4);
  static constexpr bool a_depth = runs && X.a_along_k && X.a_vector == 4;
  static constexpr int width = b_columns ? 4 : 1;  // neighbouring columns of a thread

  static_assert(T.tm == T.bm && T.bk == 4 * T.kparts && T.stages >= 1 && 32 % lanes_n == 0 &&
                T.threads() % 32 == 0);

  // A lane's k and columns: those of its first, and how far the others are from it.
  __device__ static int first_k(int lane) { return lane / lanes_n * (runs ? 4 : 1); }
  __device__ static constexpr int next_k(int j) { return runs ? j : j * lanes_k; }
  __device__ static int first_column(int lane) { return lane % lanes_n * width; }
  __device__ static constexpr int next_column(int c)
  {
    return c / width * lanes_n * width + c % width;
  }

  // The place of an output in the sums of a warp, [tm][tn][lanes_n].
  __device__ static int place_of(int row, int column)
  {
    const int c = column / (width * lanes_n) * width + column % width;
    return (row * T.tn + c) * lanes_n + column / width % lanes_n;
  }

  // Reads the lane's four by tn of B, whose first is at `b`: `cols` and `left` of k from there on
  // are in the matrix, and zeros stand for the others.
  // NOTE: offsets in a step are 32 bits wide: half the registers. narrow.py refuses larger ones.
  __device__ static void read_b(float (&frag)[4][T.tn], const float* b, const Product& p, int cols,
                                int left)
  {
    const int b_row = X.b_along_n ? p.b_row : 1, b_col = b_columns ? 1 : p.b_col;
#pragma unroll
    for (int c = 0; c < T.tn; c += width) {
      const int column = next_column(c);
      if constexpr (b_depth) {
        const float4 four = stream4(b + column * b_col, column < cols && left > 0);
        frag[0][c] = four.x, frag[1][c] = four.y, frag[2][c] = four.z, frag[3][c] = four.w;
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float* const from = b + (column * b_col + next_k(j) * b_row);
          const bool inside = column < cols && next_k(j) < left;
          if constexpr (b_columns) {
            const float4 four = stream4(from, inside);
            frag[j][c] = four.x, frag[j][c + 1] = four.y;
            frag[j][c + 2] = four.z, frag[j][c + 3] = four.w;
          } else {
            frag[j][c] = stream1(from, inside);
          }
        }
      }
    }
  }
};

// Four steps along k of one row of a thread's outputs.
template <int count>
__device__ void multiply(float* acc, const float4& a, const float (&b)[4][count])
{
  const float frag_a[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int c = 0; c < count; ++c) acc[c] = fmaf(frag_a[j], b[j][c], acc[c]);
  }
}

// Adds the block's sums, then those of all blocks of the tile, and writes D.
// Shared memory: `smem` of warps * bm * bn sums, and of as many as threads.
template <Tile T, Access X, class Value, class Sum>
__device__ void finish(const Value (&acc)[T.tm * T.tn], const Product& p, const Part& part,
                       Sum* smem)
{
  using S = Shares<T, X>;
  constexpr int outputs = T.bm * T.bn;
  constexpr int count = (outputs - 1) / T.threads() + 1;
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  Sum sums[folded(S::lanes_n, T.tm * T.tn)];
  const Folded held = fold<S::lanes_n, Value>(acc, sums, lane);
  Sum* const mine = smem + warp * outputs + held.first * S::lanes_n + lane % S::lanes_n;
#pragma unroll
  for (int i = 0; i < folded(S::lanes_n, T.tm * T.tn); ++i) {
    if (held.first + i < held.end) mine[i * S::lanes_n] = sums[i];
  }
  __syncthreads();  // no thread adds sums that are not written
  Sum value[count] = {};
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int output = tid + i * T.threads();
    if (output >= outputs) break;
    const int place = S::place_of(output / T.bn, output % T.bn);
    value[i] = tree_sum<S::warps>([&](int w) { return smem[w * outputs + place]; });
  }
  const int64 tile = blockIdx.x + static_cast<int64>(gridDim.x) * blockIdx.y;
  if constexpr (2 * outputs <= T.threads()) {
    if (!sum_few_splits<T.threads(), outputs>(value[0], smem, p, tile, blockIdx.z)) return;
  } else {
    if (!sum_splits<T.threads()>(value, p, tile, blockIdx.z)) return;
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int output = tid + i * T.threads();
    const int64 row = part.m0 + output / T.bn, col = part.n0 + output % T.bn;
    if (output >= outputs || row >= p.m || col >= p.n) continue;
    const int64 from = part.batch * p.c_batch + row * p.c_row + col * p.c_col;
    const float old = p.beta != 0.0f ? p.c[from] : 0.0f;
    p.d[part.batch * p.d_batch + row * p.d_row + col * p.d_col] =
        blend(p.alpha, static_cast<float>(value[i]), p.beta, old);
  }
}

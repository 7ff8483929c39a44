// tiny: a batch of products so small that a block takes several, each whole in shared memory.
//
// Contract: D = alpha*A*B + beta*C for each of a batch, in float32, by any strides, at any
// alignment; m, n, k >= 1. Products are summed in the order of k, one fused multiply-add each, and
// where a thread has few outputs in runs of 32, whose sums are added in order: a long sum has a
// large error. Where it has one, they are runs of 8, added in double (lib/long_sum.cuh). beta = 0
// never reads C.
//
// Tile: bm x bn outputs a block at most, of as many whole products as fit; tm x tn a thread, which
// lie blockDim.y rows and blockDim.x columns apart. A thread's place in the block is (column, row,
// product), so nothing is divided. Drawn for m = 3, n = 4, tm = 1, tn = 2:
//
//      product 0         product 1
//      0 1 0 1           6 7 6 7
//      2 3 2 3           8 9 8 9
//      4 5 4 5           ..
//
// Staging: the tiles keep the operand's own order, so A is [m][k] or [k][m] and B [k][n] or [n][k].
// Where 128-bit accesses are legal, a thread reads its fragments by them as well: four of k of a
// line along k, four neighbours of a line along m or n. Lines along k are padded to an odd number
// of quads, so that neighbouring threads, which read neighbouring lines, meet in no bank. Where the
// products of a block lie one after another without gaps, and so do the tiles, they are one slab.
// Grid: (the batch by products of a block, 1, 1).
// Shared memory, dynamic: 4 * products * (m*k + k*n) bytes, padding added, each operand rounded up
// to 16.
#include "lib/async.cuh"
#include "lib/epilogue.cuh"
#include "lib/fragment.cuh"
#include "lib/long_sum.cuh"
#include "lib/product.cuh"
#include "lib/stream.cuh"
#include "lib/tile.cuh"
#include "lib/types.cuh"
#include "lib/vector.cuh"

// A matrix of each product as it lies in memory: `lines` of `length` neighbours (if it has any). In
// shared memory they begin `pitch` apart.
struct Slab {
  const float* first;
  int64 line_stride, unit_stride, batch;
  int lines, length, pitch;

  __device__ int size() const { return lines * pitch; }

  // Whether the matrices of `products` are one piece of memory, as they are in shared memory.
  __device__ bool packed(int products) const
  {
    return pitch == length && unit_stride == 1 && (lines == 1 || line_stride == length) &&
           (products == 1 || batch == size());
  }
};

// The floats from one line along k to the next: an odd number of quads where quads are read.
__device__ inline int pitch_along_k(int k, bool quads) { return quads ? (k / 4 | 1) * 4 : k; }

// All threads of the block copy the matrices of products `product` and the next, `width` floats an
// instruction where they are not one piece.
// NOTE: quads that move within their line of 128 bytes, as padding makes them, take registers:
// an asynchronous copy would need a pass through shared memory for each (docs/counting.md).
template <int width>
__device__ void stage(float* target, const Slab& slab, int64 product, int products)
{
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  const int tid = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const float* const source = slab.first + product * slab.batch;
  if (slab.packed(products)) {
    const int count = products * slab.size();
    const bool aligned = reinterpret_cast<unsigned long long>(source) % 16 == 0;
    const int whole = aligned ? count / 4 * 4 : 0;
    for (int i = 4 * tid; i < whole; i += 4 * threads) copy_async<16>(target + i, source + i);
    for (int i = whole + tid; i < count; i += threads) copy_async<4>(target + i, source + i);
    return;
  }
  // Digits of a number that counts units, lines and products: nothing is divided on the way.
  const int units = slab.length / width;
  int unit = tid % units, line = tid / units % slab.lines, at = tid / units / slab.lines;
  const int unit_step = threads % units, line_step = threads / units % slab.lines;
  const int step = threads / units / slab.lines;
  constexpr int ahead = 4;  // loads under way
  while (at < products) {
    float4 quad[ahead];
    float* place[ahead];
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const float* const from =
          source + at * slab.batch + line * slab.line_stride + unit * width * slab.unit_stride;
      place[i] = at < products ? target + at * slab.size() + line * slab.pitch + unit * width
                               : nullptr;
      if constexpr (width == 4) quad[i] = stream4(from, place[i]);
      else if (place[i]) copy_async<4>(place[i], from);
      unit += unit_step, line += line_step, at += step;
      if (unit >= units) unit -= units, ++line;
      if (line >= slab.lines) line -= slab.lines, ++at;
    }
    if constexpr (width == 4) {
#pragma unroll
      for (int i = 0; i < ahead; ++i) {
        if (place[i]) *reinterpret_cast<float4*>(place[i]) = quad[i];
      }
    }
  }
}

// How a thread reads its share of an operand, of `count` lines along k or of as many neighbours.
template <bool along_k, int vector, int count>
struct Reader {
  static constexpr bool runs = along_k && vector == 4;                       // four of k at a time
  static constexpr bool quads = !along_k && vector == 4 && count % 4 == 0;  // four neighbours
  static constexpr int width = quads ? 4 : 1;

  // The thread's i-th row or column; `side` threads share all.
  __device__ static int index(int thread, int i, int side)
  {
    return (thread + i / width * side) * width + i % width;
  }

  // Reads `run` of k, from `from[i]` on.
  template <int run>
  __device__ static void read(float (&frag)[run][count], const float* const (&from)[count], int kk,
                              int pitch)
  {
    if constexpr (runs) {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const float4 four = *reinterpret_cast<const float4*>(from[i] + kk);
        frag[0][i] = four.x, frag[1][i] = four.y, frag[2][i] = four.z, frag[3][i] = four.w;
      }
    } else {
#pragma unroll
      for (int k = 0; k < run; ++k) {
        const int offset = along_k ? kk + k : (kk + k) * pitch;
        if constexpr (quads) {
#pragma unroll
          for (int i = 0; i < count; i += 4) load_fragment<4>(frag[k] + i, from[i] + offset);
        } else {
#pragma unroll
          for (int i = 0; i < count; ++i) frag[k][i] = from[i][offset];
        }
      }
    }
  }
};

constexpr int few_outputs = 4;  // of a thread, which has registers for their sums twice

// How many products a thread adds one after another where sums are kept twice, and what it adds
// these runs in.
template <Tile T>
struct Runs {
  static constexpr bool in_double = fast_double && T.tm * T.tn == 1;
  static constexpr int products = in_double ? 8 : 32;
  using Sum = typename LongSum<in_double>::Type;
};

template <Tile T, Access X>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
tiny(const __grid_constant__ Product p)
{
  // coordinates
  using ReadA = Reader<X.a_along_k, X.a_vector, T.tm>;
  using ReadB = Reader<!X.b_along_n, X.b_vector, T.tn>;
  const int64 first = static_cast<int64>(blockIdx.x) * blockDim.z;
  const int products = min(static_cast<int64>(blockDim.z), p.batch - first);
  const int product = threadIdx.z;

  // shared memory
  const Slab a = X.a_along_k ? Slab{p.a, p.a_row, p.a_col, p.a_batch, p.m, p.k,
                                    pitch_along_k(p.k, X.a_vector == 4)}
                             : Slab{p.a, p.a_col, p.a_row, p.a_batch, p.k, p.m, p.m};
  const Slab b = X.b_along_n ? Slab{p.b, p.b_row, p.b_col, p.b_batch, p.k, p.n, p.n}
                             : Slab{p.b, p.b_col, p.b_row, p.b_batch, p.n, p.k,
                                    pitch_along_k(p.k, X.b_vector == 4)};
  extern __shared__ float4 shared[];
  float* const smem_a = reinterpret_cast<float*>(shared);
  float* const smem_b = smem_a + (blockDim.z * a.size() + 3) / 4 * 4;

  // prologue
  stage<X.b_vector>(smem_b, b, first, products);
  stage<X.a_vector>(smem_a, a, first, products);
  commit_copies();
  wait_copies<0>();
  __syncthreads();  // no thread reads a product that is not whole
  if (product >= products) return;

  // main loop
  constexpr int run = ReadA::runs || ReadB::runs ? 4 : 1;
  const float* from_a[T.tm];
  const float* from_b[T.tn];
#pragma unroll
  for (int i = 0; i < T.tm; ++i) {
    const int most = p.m - ReadA::width + i % ReadA::width;
    const int row = min(ReadA::index(threadIdx.y, i, blockDim.y), most);
    from_a[i] = smem_a + product * a.size() + row * (X.a_along_k ? a.pitch : 1);
  }
#pragma unroll
  for (int j = 0; j < T.tn; ++j) {
    const int most = p.n - ReadB::width + j % ReadB::width;
    const int col = min(ReadB::index(threadIdx.x, j, blockDim.x), most);
    from_b[j] = smem_b + product * b.size() + col * (X.b_along_n ? 1 : b.pitch);
  }
  const auto add_products = [&](float(&sums)[T.tm][T.tn], int kk, int end) {
#pragma unroll(4 / run)
    for (; kk < end; kk += run) {
      float frag_a[run][T.tm], frag_b[run][T.tn];
      ReadA::template read<run>(frag_a, from_a, kk, a.pitch);
      ReadB::template read<run>(frag_b, from_b, kk, b.pitch);
#pragma unroll
      for (int k = 0; k < run; ++k) outer_product(sums, frag_a[k], frag_b[k]);
    }
  };
  float acc[T.tm][T.tn] = {};
  if constexpr (T.tm * T.tn <= few_outputs) {
    typename Runs<T>::Sum total[T.tm][T.tn] = {};
#pragma unroll 1
    for (int kk = 0; kk < p.k; kk += Runs<T>::products) {
      float sums[T.tm][T.tn] = {};
      add_products(sums, kk, min(kk + Runs<T>::products, p.k));
#pragma unroll
      for (int i = 0; i < T.tm; ++i) {
#pragma unroll
        for (int j = 0; j < T.tn; ++j) total[i][j] += sums[i][j];
      }
    }
#pragma unroll
    for (int i = 0; i < T.tm; ++i) {
#pragma unroll
      for (int j = 0; j < T.tn; ++j) acc[i][j] = static_cast<float>(total[i][j]);
    }
  } else {
    add_products(acc, 0, p.k);
  }

  // epilogue
  const float* const c = p.c + (first + product) * p.c_batch;
  float* const d = p.d + (first + product) * p.d_batch;
  const bool quads = p.beta == 0.0f && p.d_col == 1 && aligned16(d, p.d_row);
#pragma unroll
  for (int i = 0; i < T.tm; ++i) {
    const int64 row = ReadA::index(threadIdx.y, i, blockDim.y);
    if (row >= p.m) continue;
#pragma unroll
    for (int j = 0; j < T.tn; j += ReadB::width) {
      const int64 col = ReadB::index(threadIdx.x, j, blockDim.x);
      if (col >= p.n) continue;
      float* const target = d + row * p.d_row + col * p.d_col;
      if (ReadB::quads && quads) {
        write4(target, p.alpha, acc[i] + j, 0.0f, 4, true);
        continue;
      }
#pragma unroll
      for (int e = 0; e < ReadB::width; ++e) {
        const float old = p.beta != 0.0f ? c[row * p.c_row + (col + e) * p.c_col] : 0.0f;
        target[e * p.d_col] = blend(p.alpha, acc[i][j + e], p.beta, old);
      }
    }
  }
}

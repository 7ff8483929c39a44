// skinny: few rows (or columns) of D, so the larger operand is read once and that is the work:
// every SM streams its share of it through registers, all threads of a block along k.
//
// Contract: D = alpha*A*B + beta*C for each of a batch, in float32, by any strides, at any
// alignment; m, n >= 1 and k >= 0. Each output's products are summed by fused multiply-adds in
// parts of k, and the parts in a fixed order, pairs of them in float and these in double
// (lib/long_sum.cuh); beta = 0 never reads C.
//
// Tile, grid: lib/narrow.cuh. Each warp has a ring of `stages` steps of A in shared memory,
// [tm][bk of a warp], which all lanes along n read, and waits for no other; B goes into registers.
// Shared memory, dynamic: 4 * stages * bk * bm + 8 * max(warps * bm * bn, threads) bytes. Sums have a
// place of their own, so that no warp waits for others to have read their rings.
#include "lib/async.cuh"
#include "lib/long_sum.cuh"
#include "lib/narrow.cuh"
#include "lib/product.cuh"
#include "lib/tile.cuh"
#include "lib/types.cuh"

// Copies A's [rows][depth], which begins at `a`: `left` of k are in the matrix.
template <Tile T, Access X>
__device__ void copy_a(float* ring, const Product& p, const float* a, int rows, int left, int lane)
{
  using S = Shares<T, X>;
  const int a_row = p.a_row, a_col = X.a_along_k ? 1 : p.a_col;
  if constexpr (S::a_depth) {
    // Copies of 16 bytes are fast where they keep their place in a line of 128 bytes, as rows of
    // that length or more do; else each needs a pass of its own (docs/counting.md).
    constexpr int width = S::depth >= 32 ? 4 : 2;
    constexpr int units = S::depth / width;
#pragma unroll
    for (int e = lane; e < T.tm * units; e += 32) {
      const int i = e / units, k = e % units * width;
      copy_async<4 * width>(ring + width * e, a + (i * a_row + k),
                            i < rows && k < left ? 4 * width : 0);
    }
  } else {
#pragma unroll
    for (int e = lane; e < T.tm * S::depth; e += 32) {
      const int i = X.a_along_k ? e / S::depth : e % T.tm;
      const int k = X.a_along_k ? e % S::depth : e / T.tm;
      const int place = S::runs ? k : k % S::lanes_k * 4 + k / S::lanes_k;
      copy_async<4>(ring + i * S::depth + place, a + (i * a_row + k * a_col),
                    i < rows && k < left ? 4 : 0);
    }
  }
}

template <Tile T, Access X>
__device__ void few_rows(const Product& p)
{
  // coordinates
  using S = Shares<T, X>;
  using Sum = typename LongSum<fast_double>::Type;
  constexpr int size = T.tm * S::depth;  // of a step of A
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Part part = part_of_block<T>(p);

  // shared memory
  extern __shared__ __align__(128) float4 shared[];  // as copies keep their place in a line
  float* const smem = reinterpret_cast<float*>(shared);
  float* const ring = smem + warp * T.stages * size;  // [stages][tm][depth]
  Sum* const sums = reinterpret_cast<Sum*>(smem + S::warps * T.stages * size);

  // prologue
  const int column = part.n0 + S::first_column(lane);
  int64 k0 = static_cast<int64>(part.first) * T.bk + warp * S::depth;
  const float* a = p.a + part.batch * p.a_batch + part.m0 * p.a_row + k0 * p.a_col;
  const float* b = p.b + part.batch * p.b_batch + column * p.b_col;
  b += (k0 + S::first_k(lane)) * p.b_row;
  int left = min(static_cast<int64>(p.k), static_cast<int64>(part.last) * T.bk) - k0;
  float frag_b[T.stages][4][T.tn];
  const auto read = [&](int stage) {
    S::read_b(frag_b[stage], b, p, p.n - column, left - S::first_k(lane));
    copy_a<T, X>(ring + stage * size, p, a, p.m - part.m0, left, lane);
    commit_copies();
    a += T.bk * p.a_col;
    b += T.bk * p.b_row;
    left -= T.bk;
  };
#pragma unroll
  for (int stage = 0; stage < T.stages; ++stage) read(stage);
  float acc[T.tm * T.tn] = {};

  // main loop
#pragma unroll 1
  for (int step = part.first; step < part.last; step += T.stages) {
#pragma unroll
    for (int stage = 0; stage < T.stages; ++stage) {
      if (step + stage >= part.last) break;
      wait_copies<T.stages - 1>();
      __syncwarp();  // A's part is read by lanes that did not copy it
      const float4* const frag_a = reinterpret_cast<const float4*>(ring + stage * size);
#pragma unroll
      for (int i = 0; i < T.tm; ++i) {
        multiply(acc + i * T.tn, frag_a[i * S::lanes_k + lane / S::lanes_n], frag_b[stage]);
      }
      __syncwarp();  // no lane copies over what another still reads
      read(stage);
    }
  }

  wait_copies<0>();
  finish<T, X>(acc, p, part, sums);
}

template <Tile T, Access X>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
skinny(const __grid_constant__ Product p)
{
  if constexpr (T.tm == T.bm) few_rows<T, X>(p);
  else few_rows<transposed(T), transposed(X)>(transposed(p));
}

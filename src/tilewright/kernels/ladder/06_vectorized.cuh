// 06_vectorized: global and shared memory are read and written four floats an instruction.
//
// Contract: C = alpha*A*B + beta*C in float32. A [m][k], B [k][n] and C [m][n] are row-major with
// leading dimensions lda >= k, ldb >= n, ldc >= n, at any alignment; m, n >= 1 and k >= 0. Products
// are summed in the order of k, one fused multiply-add each; beta = 0 never reads C. A block reads
// single floats of A and B where their rows do not all start at a multiple of 16 bytes, where four
// columns of B lie across its edge, and in the last, partial tile along k.
//
// Tile: bm x bn outputs, tm x tn a thread, as in 05. A's tile is transposed when it is staged, so
// that the tm values that a thread reads of it lie next to each other.
//
//      A, global             smem_a                  smem_b
//      k0     k0+7           m0            m0+127    n0            n0+127
//     +--------+        k0  +---------------+---+   +---------------+
//     | 4 | 4  | m0         | tm -> frag_a  |pad|   | tn -> frag_b  |  k0
//     | .   .  | ..    k0+7 +---------------+---+   +---------------+  k0+7
//     +--------+            pad = 4: the 16 lanes of a warp that store k0 .. k0+3 and the 16 that
//                           store k0+4 .. k0+7 hit different banks
//
// Shared memory: 4 * bk * (bm + pad + bn) bytes = 4 * 8 * 260 = 8320.
// Claims: load_sectors_per_request 16; load_requests_per_warp_fma 1/256; store_sectors_per_output
// 1/4; shared_store_wavefronts_per_request 1.6 = (4 stores of A, 1 each + 1 of B, 4) / 5.
// Source: kernel 6 of https://siboehm.com/articles/22/CUDA-MMM
#include "lib/block.cuh"
#include "lib/depth.cuh"
#include "lib/epilogue.cuh"
#include "lib/fragment.cuh"
#include "lib/stage4.cuh"
#include "lib/vector.cuh"

template <Tile T>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
vectorized(int m, int n, int k, float alpha, const float* a, int64 lda, const float* b, int64 ldb,
           float beta, float* c, int64 ldc)
{
  // coordinates
  const unsigned tid = threadIdx.x;
  const Block block = block_tile<T>(m, n);
  if (block.rows <= 0) return;
  const int row = tid / (T.bn / T.tn) * T.tm;
  const int col = tid % (T.bn / T.tn) * T.tn;

  // shared memory
  alignas(16) __shared__ float smem_a[T.bk][T.bm + T.pad];  // [bk][bm+pad]
  alignas(16) __shared__ float smem_b[T.bk][T.bn];          // [bk][bn]

  // prologue
  const bool vectors = vectorizable<T>(a, lda, b, ldb, n, block);
  StageA4<T> stage_a(smem_a, a, lda, block, tid);
  StageB4<T> stage_b(smem_b, b, ldb, block, tid);
  float acc[T.tm][T.tn] = {};  // [tm][tn]
  const auto step = [&](auto depth) {
    stage_a(depth);
    stage_b(depth);
    __syncthreads();  // no thread reads a tile that is not whole
#pragma unroll depth.unroll
    for (int kk = 0; kk < depth; ++kk) {
      float frag_a[T.tm], frag_b[T.tn];
      load_fragment<T.tm>(frag_a, &smem_a[kk][row]);
      load_fragment<T.tn>(frag_b, &smem_b[kk][col]);
      outer_product(acc, frag_a, frag_b);
    }
    __syncthreads();  // no thread overwrites a tile that is still read
  };

  // main loop
  if (vectors) {
    for (; k >= T.bk; k -= T.bk) step(Whole<T>{});
  }
  for (; k > 0; k -= T.bk) step(Rest{min(k, T.bk)});

  // epilogue
  const bool vectors_c = aligned16(c, ldc);
  c += (block.m0 + row) * ldc + block.n0 + col;
  for_each_row(acc, [&](int i, const float (&acc_row)[T.tn]) {
    if (row + i >= block.rows) return;
#pragma unroll
    for (int j = 0; j < T.tn; j += 4) {
      write4(c + i * ldc + j, alpha, &acc_row[j], beta, block.cols - col - j, vectors_c);
    }
  });
}

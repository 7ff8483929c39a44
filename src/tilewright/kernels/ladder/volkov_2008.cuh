// volkov_2008: sums in registers, one operand in shared memory, the other straight to a register.
//
// Contract: C = alpha*A*B + beta*C in float32. A [m][k], B [k][n] and C [m][n] are row-major with
// leading dimensions lda >= k, ldb >= n, ldc >= n, at any alignment; m, n >= 1 and k >= 0. Products
// are summed in the order of k, one fused multiply-add each; beta = 0 never reads C.
//
// Tile: bm x bn outputs, tm x 1 a thread, and bm = tm: two warps, each with 16 rows of 32 columns.
// The paper's matrices are column-major; C^T = B^T A^T makes of its 64 rows a block and 16 outputs
// along a row, one thread's, 64 columns and 16 outputs along a column, and of its A our B: so that
// each time neighbouring threads read neighbours of the operand that no other thread reads.
//
//                        k0 -> +---- n0 ---- .. ---- n0+63 ---+   each float of B goes to the
//                              |  B, a lane a column: never   |   register of one thread and
//          k0        k0+15     |  in shared memory            |   serves its tm multiply-adds
//       m0 +-----------------+ +------------------------------+
//          | smem_a,         | |      w0       |      w1      |   each float of A is read from
//          | transposed      | |  lane: tm     |              |   shared memory by all threads
//    m0+15 +-----------------+ +------------------------------+   at once
//
// Shared memory: 4 * bk * (bm + pad) bytes = 4 * 16 * 17 = 1088. By the pad of 1 the 16 floats that
// a half warp stores met 16 banks, as many as there were; of today's 32 banks one is met twice.
// Claims: load_sectors_per_request 4; load_requests_per_warp_fma 5/64 = (4 of A + 16 of B) / 256;
// store_sectors_per_output 1/8; shared_store_wavefronts_per_request 2.
// Source: V. Volkov, J. W. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra", SC 2008
#include "lib/block.cuh"
#include "lib/depth.cuh"
#include "lib/epilogue.cuh"
#include "lib/stage.cuh"

template <Tile T>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
streamed_b(int m, int n, int k, float alpha, const float* a, int64 lda, const float* b, int64 ldb,
           float beta, float* c, int64 ldc)
{
  // coordinates
  const unsigned tid = threadIdx.x;
  const Block block = block_tile<T>(m, n);
  if (block.rows <= 0) return;
  const int row = tid / T.bn * T.tm;
  const int col = tid % T.bn;

  // shared memory
  __shared__ float smem_a[T.bk][T.bm + T.pad];  // [bk][bm+pad]

  // prologue
  StageA<T, true> stage_a(smem_a, a, lda, block, tid);
  b += block.n0 + min(col, block.cols - 1);
  float acc[T.tm] = {};  // [tm]
  const auto step = [&](auto depth) {
    stage_a(depth);
    __syncthreads();  // no thread reads a tile that is not whole
#pragma unroll depth.unroll
    for (int kk = 0; kk < depth; ++kk, b += ldb) {
      const float frag_b = *b;
#pragma unroll
      for (int i = 0; i < T.tm; ++i) acc[i] = fmaf(smem_a[kk][row + i], frag_b, acc[i]);
    }
    __syncthreads();  // no thread overwrites a tile that is still read
  };

  // main loop
  for (; k >= T.bk; k -= T.bk) step(Whole<T>{});
  if (k > 0) step(Rest{k});

  // epilogue
  c += (block.m0 + row) * ldc + block.n0 + col;
#pragma unroll
  for (int i = 0; i < T.tm; ++i) {
    if (row + i < block.rows && col < block.cols) write(c + i * ldc, alpha, acc[i], beta);
  }
}

// 03_shared_tile: a block stages a tile of A and one of B on chip, and its threads read those.
//
// Contract: C = alpha*A*B + beta*C in float32. A [m][k], B [k][n] and C [m][n] are row-major with
// leading dimensions lda >= k, ldb >= n, ldc >= n, at any alignment; m, n >= 1 and k >= 0. Products
// are summed in the order of k, one fused multiply-add each; beta = 0 never reads C.
//
// Tile: bm x bn outputs and as many threads; a warp computes 32 columns of one row.
//
//                            k0 -> +----- n0 ------+
//                                  | smem_b  bk x bn
//          k0 ->                   +---------------+
//       m0 +-----------------+     | w0 --------- w0
//          | smem_a  bm x bk |     | w1 --------- w1     each value staged is read by 32 threads:
//          +-----------------+     | ..              |     32 times less global traffic than 02
//                                  +---------------+
//
// Shared memory: 4 * bk * (bm + bn) bytes = 4 * 32 * 64 = 8192.
// Claims: load_sectors_per_request 4; load_requests_per_warp_fma 1/16; store_sectors_per_output
// 1/8; shared_store_wavefronts_per_request 1.
// Source: kernel 3 of https://siboehm.com/articles/22/CUDA-MMM
#include "lib/block.cuh"
#include "lib/depth.cuh"
#include "lib/epilogue.cuh"
#include "lib/stage.cuh"

template <Tile T>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
shared_tile(int m, int n, int k, float alpha, const float* a, int64 lda, const float* b, int64 ldb,
            float beta, float* c, int64 ldc)
{
  // coordinates
  const unsigned tid = threadIdx.x;
  const Block block = block_tile<T>(m, n);
  if (block.rows <= 0) return;
  const int row = tid / T.bn;
  const int col = tid % T.bn;

  // shared memory
  __shared__ float smem_a[T.bm][T.bk];  // [bm][bk]
  __shared__ float smem_b[T.bk][T.bn];  // [bk][bn]

  // prologue
  StageA<T> stage_a(smem_a, a, lda, block, tid);
  StageB<T> stage_b(smem_b, b, ldb, block, tid);
  float acc = 0.0f;
  const auto step = [&](auto depth) {
    stage_a(depth);
    stage_b(depth);
    __syncthreads();  // no thread reads a tile that is not whole
#pragma unroll depth.unroll
    for (int kk = 0; kk < depth; ++kk) acc = fmaf(smem_a[row][kk], smem_b[kk][col], acc);
    __syncthreads();  // no thread overwrites a tile that is still read
  };

  // main loop
  for (; k >= T.bk; k -= T.bk) step(Whole<T>{});
  if (k > 0) step(Rest{k});

  // epilogue
  c += (block.m0 + row) * ldc + block.n0 + col;
  if (row < block.rows && col < block.cols) write(c, alpha, acc, beta);
}

// 02_coalesced: consecutive threads compute consecutive columns, so a warp reads whole sectors.
//
// Contract: C = alpha*A*B + beta*C in float32. A [m][k], B [k][n] and C [m][n] are row-major with
// leading dimensions lda >= k, ldb >= n, ldc >= n, at any alignment; m, n >= 1 and k >= 0. Products
// are summed in the order of k, one fused multiply-add each; beta = 0 never reads C.
//
// Tile: bm x bn outputs and as many threads; a warp computes 32 columns of one row.
//
//            n0       n0+31
//       m0   w0 ------- w0     the 32 lanes of a warp read one element of A, all the same, and 32
//     m0+1   w1 ------- w1     neighbours of B: 128 bytes, 4 sectors
//       ..        ..
//    m0+31   w31 ----- w31
//
// Shared memory: none.
// Claims: load_sectors_per_request 2.5 = (1 of A + 4 of B) / 2; load_requests_per_warp_fma 2;
// store_sectors_per_output 1/8.
// Source: kernel 2 of https://siboehm.com/articles/22/CUDA-MMM
#include "lib/block.cuh"
#include "lib/epilogue.cuh"

template <Tile T>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
coalesced(int m, int n, int k, float alpha, const float* a, int64 lda, const float* b, int64 ldb,
          float beta, float* c, int64 ldc)
{
  // coordinates
  const unsigned tid = threadIdx.x;
  const Block block = block_tile<T>(m, n);
  const int row = tid / T.bn;
  const int col = tid % T.bn;
  if (row >= block.rows || col >= block.cols) return;

  // prologue
  a += (block.m0 + row) * lda;
  b += block.n0 + col;
  float acc = 0.0f;

  // main loop
  for (int kk = 0; kk < k; ++kk) acc = fmaf(a[kk], b[kk * ldb], acc);

  // epilogue
  c += (block.m0 + row) * ldc + block.n0 + col;
  write(c, alpha, acc, beta);
}

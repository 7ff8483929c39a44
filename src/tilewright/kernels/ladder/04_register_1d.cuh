// 04_register_1d: a thread computes a column of tm outputs: a value of B serves tm multiply-adds.
//
// Contract: C = alpha*A*B + beta*C in float32. A [m][k], B [k][n] and C [m][n] are row-major with
// leading dimensions lda >= k, ldb >= n, ldc >= n, at any alignment; m, n >= 1 and k >= 0. Products
// are summed in the order of k, one fused multiply-add each; beta = 0 never reads C.
//
// Tile: bm x bn outputs, tm x 1 a thread; a warp computes tm rows of 32 columns.
//
//            n0       n0+31    n0+32      n0+63
//       m0   +- w0 ------+     +- w1 ------+
//       ..   | lane: tm  |     |           |     at each step along k a lane reads one value of B
//    m0+7    +-----------+     +-----------+     and tm of A, the same ones in all lanes
//    m0+8    +- w2 ------+     +- w3 ------+
//       ..        ..                ..
//
// Shared memory: 4 * bk * (bm + bn) bytes = 4 * 8 * 128 = 4096.
// Claims: load_sectors_per_request 4; load_requests_per_warp_fma 1/32; store_sectors_per_output
// 1/8; shared_store_wavefronts_per_request 1.
// Source: kernel 4 of https://siboehm.com/articles/22/CUDA-MMM
#include "lib/block.cuh"
#include "lib/depth.cuh"
#include "lib/epilogue.cuh"
#include "lib/stage.cuh"

template <Tile T>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
register_1d(int m, int n, int k, float alpha, const float* a, int64 lda, const float* b, int64 ldb,
            float beta, float* c, int64 ldc)
{
  // coordinates
  const unsigned tid = threadIdx.x;
  const Block block = block_tile<T>(m, n);
  if (block.rows <= 0) return;
  const int row = tid / T.bn * T.tm;
  const int col = tid % T.bn;

  // shared memory
  __shared__ float smem_a[T.bm][T.bk];  // [bm][bk]
  __shared__ float smem_b[T.bk][T.bn];  // [bk][bn]

  // prologue
  StageA<T> stage_a(smem_a, a, lda, block, tid);
  StageB<T> stage_b(smem_b, b, ldb, block, tid);
  float acc[T.tm] = {};  // [tm]
  const auto step = [&](auto depth) {
    stage_a(depth);
    stage_b(depth);
    __syncthreads();  // no thread reads a tile that is not whole
#pragma unroll depth.unroll
    for (int kk = 0; kk < depth; ++kk) {
      const float frag_b = smem_b[kk][col];
#pragma unroll
      for (int i = 0; i < T.tm; ++i) acc[i] = fmaf(smem_a[row + i][kk], frag_b, acc[i]);
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

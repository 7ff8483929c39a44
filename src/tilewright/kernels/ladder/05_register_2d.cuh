// 05_register_2d: a thread computes a square of tm x tn outputs: each value of A serves tn
// multiply-adds, each value of B tm.
//
// Contract: C = alpha*A*B + beta*C in float32. A [m][k], B [k][n] and C [m][n] are row-major with
// leading dimensions lda >= k, ldb >= n, ldc >= n, at any alignment; m, n >= 1 and k >= 0. Products
// are summed in the order of k, one fused multiply-add each; beta = 0 never reads C.
//
// Tile: bm x bn outputs, tm x tn a thread; a warp computes 2 * tm rows of bn = 16 * tn columns.
//
//            n0    +8               n0+127
//       m0   +-----+-----+- w0 -+-----+
//            |  0  |  1  |  ..  | 15  |     lane 0 holds tm x tn outputs in acc; at each step along
//    m0+8    +-----+-----+------+-----+     k a lane reads tm values of A and tn of B, and does
//            | 16  | 17  |  ..  | 31  |     tm * tn multiply-adds
//    m0+16   +-----+-----+- w1 -+-----+
//
// Shared memory: 4 * bk * (bm + bn) bytes = 4 * 8 * 256 = 8192.
// Claims: load_sectors_per_request 4; load_requests_per_warp_fma 1/64; store_sectors_per_output 1
// (a lane's columns are tn apart from the next lane's); shared_store_wavefronts_per_request 1.
// Source: kernel 5 of https://siboehm.com/articles/22/CUDA-MMM
#include "lib/block.cuh"
#include "lib/depth.cuh"
#include "lib/epilogue.cuh"
#include "lib/fragment.cuh"
#include "lib/stage.cuh"

template <Tile T>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
register_2d(int m, int n, int k, float alpha, const float* a, int64 lda, const float* b, int64 ldb,
            float beta, float* c, int64 ldc)
{
  // coordinates
  const unsigned tid = threadIdx.x;
  const Block block = block_tile<T>(m, n);
  if (block.rows <= 0) return;
  const int row = tid / (T.bn / T.tn) * T.tm;
  const int col = tid % (T.bn / T.tn) * T.tn;

  // shared memory
  __shared__ float smem_a[T.bm][T.bk];  // [bm][bk]
  __shared__ float smem_b[T.bk][T.bn];  // [bk][bn]

  // prologue
  StageA<T> stage_a(smem_a, a, lda, block, tid);
  StageB<T> stage_b(smem_b, b, ldb, block, tid);
  float acc[T.tm][T.tn] = {};  // [tm][tn]
  const auto step = [&](auto depth) {
    stage_a(depth);
    stage_b(depth);
    __syncthreads();  // no thread reads a tile that is not whole
#pragma unroll depth.unroll
    for (int kk = 0; kk < depth; ++kk) {
      float frag_a[T.tm], frag_b[T.tn];
#pragma unroll
      for (int i = 0; i < T.tm; ++i) frag_a[i] = smem_a[row + i][kk];
#pragma unroll
      for (int j = 0; j < T.tn; ++j) frag_b[j] = smem_b[kk][col + j];
      outer_product(acc, frag_a, frag_b);
    }
    __syncthreads();  // no thread overwrites a tile that is still read
  };

  // main loop
  for (; k >= T.bk; k -= T.bk) step(Whole<T>{});
  if (k > 0) step(Rest{k});

  // epilogue
  c += (block.m0 + row) * ldc + block.n0 + col;
  for_each_row(acc, [&](int i, const float (&acc_row)[T.tn]) {
#pragma unroll
    for (int j = 0; j < T.tn; ++j) {
      const bool inside = row + i < block.rows && col + j < block.cols;
      if (inside) write(c + i * ldc + j, alpha, acc_row[j], beta);
    }
  });
}

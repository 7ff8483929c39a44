// 08_warptiled: between the block's tile and the thread's a tile a warp, so that the lanes of a
// warp share the values that they read from shared memory.
//
// Contract: C = alpha*A*B + beta*C in float32. A [m][k], B [k][n] and C [m][n] are row-major with
// leading dimensions lda >= k, ldb >= n, ldc >= n, at any alignment; m, n >= 1 and k >= 0. Products
// are summed in the order of k, one fused multiply-add each; beta = 0 never reads C. Where 128-bit
// instructions are not legal, single floats are read and written, as in 06.
//
// Tile: bm x bn outputs a block, wm x wn a warp, tm x tn a thread in each of the wmiter x wniter
// sub-tiles of its warp.
//
//            n0          n0+64       n0+127         a warp's tile: 64 x 64, wniter = 4 sub-tiles
//       m0   +-----------+-----------+                   +16   +32   +48
//            |    w0     |    w1     |             +-----+-----+-----+-----+
//    m0+64   +-----------+-----------+             | 0 3 | 0 3 | 0 3 | 0 3 |   lanes 0 .. 3, each
//            |    w2     |    w3     |             | .   | .   | .   | .   |   tm x tn = 8 x 4
//    m0+127  +-----------+-----------+             |28 31|28 31|28 31|28 31|   in each sub-tile
//                                                  +-----+-----+-----+-----+
//
// Shared memory: 4 * bk * (bm + pad + bn) bytes = 4 * 16 * 260 = 16640.
// Claims: load_sectors_per_request 16; load_requests_per_warp_fma 1/256; store_sectors_per_output
// 1/8 (four lanes fill two sectors); shared_store_wavefronts_per_request 2.4 = (16 stores of A, 2
// each, since a row of A's tile is stored by four lanes + 4 of B, 4 each) / 20.
// Source: kernel 10 of https://siboehm.com/articles/22/CUDA-MMM
#include "lib/block.cuh"
#include "lib/depth.cuh"
#include "lib/epilogue.cuh"
#include "lib/fragment.cuh"
#include "lib/stage4.cuh"
#include "lib/vector.cuh"

template <Tile T>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
warptiled(int m, int n, int k, float alpha, const float* a, int64 lda, const float* b, int64 ldb,
          float beta, float* c, int64 ldc)
{
  // coordinates
  constexpr int acc_m = T.wmiter() * T.tm;  // 1*8 = 8
  constexpr int acc_n = T.wniter * T.tn;    // 4*4 = 16
  const unsigned tid = threadIdx.x;
  const unsigned warp = tid / 32;
  const unsigned lane = tid % 32;
  const Block block = block_tile<T>(m, n);
  if (block.rows <= 0) return;
  const int row = warp / T.warps_n() * T.wm + lane / T.lanes_n() * T.tm;
  const int col = warp % T.warps_n() * T.wn + lane % T.lanes_n() * T.tn;

  // shared memory
  alignas(16) __shared__ float smem_a[T.bk][T.bm + T.pad];  // [bk][bm+pad]
  alignas(16) __shared__ float smem_b[T.bk][T.bn];          // [bk][bn]

  // prologue
  const bool vectors = vectorizable<T>(a, lda, b, ldb, n, block);
  StageA4<T> stage_a(smem_a, a, lda, block, tid);
  StageB4<T> stage_b(smem_b, b, ldb, block, tid);
  float acc[acc_m][acc_n] = {};  // [wmiter*tm][wniter*tn]
  const auto step = [&](auto depth) {
    stage_a(depth);
    stage_b(depth);
    __syncthreads();  // no thread reads a tile that is not whole
#pragma unroll depth.unroll
    for (int kk = 0; kk < depth; ++kk) {
      float frag_a[acc_m], frag_b[acc_n];
#pragma unroll
      for (int i = 0; i < T.wmiter(); ++i) {
        load_fragment<T.tm>(frag_a + i * T.tm, &smem_a[kk][row + i * T.sub_m()]);
      }
#pragma unroll
      for (int j = 0; j < T.wniter; ++j) {
        load_fragment<T.tn>(frag_b + j * T.tn, &smem_b[kk][col + j * T.sub_n()]);
      }
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
  c += block.m0 * ldc + block.n0;
  for_each_row(acc, [&](int i, const float (&acc_row)[acc_n]) {
    const int sub_row = row + i / T.tm * T.sub_m() + i % T.tm;
    if (sub_row >= block.rows) return;
#pragma unroll
    for (int j = 0; j < acc_n; j += 4) {
      const int sub_col = col + j / T.tn * T.sub_n() + j % T.tn;
      float* const target = c + sub_row * ldc + sub_col;
      write4(target, alpha, &acc_row[j], beta, block.cols - sub_col, vectors_c);
    }
  });
}

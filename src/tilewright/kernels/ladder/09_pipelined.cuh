// 09_pipelined: copies of tiles to shared memory run ahead of the arithmetic. A thread starts one
// (cp.async), multiplies on, and asks for it some steps later: no warp waits for global memory.
//
// Contract: C = alpha*A*B + beta*C in float32. A [m][k], B [k][n] and C [m][n] are row-major with
// leading dimensions lda >= k, ldb >= n, ldc >= n, at any alignment; m, n >= 1 and k >= 0. Products
// are summed in the order of k, one fused multiply-add each; beta = 0 never reads C. A is copied by
// single floats, which transposes it on its way, B by four where that is legal, else by one too.
//
// Tile: bm x bn outputs a block, wm x wn a warp, tm x tn a thread in each of the wmiter x wniter
// sub-tiles of its warp, as in 08. Lanes lie in Z order (lib/lanes.cuh), so that every other one
// reads what its neighbour reads, of A and of B: a 128-bit read takes two wavefronts, not four.
//
//            n0          n0+128      n0+255     a warp's tile, 32 x 128: 2 x 4 sub-tiles
//       m0   +-----------+-----------+             +-------+-------+-- .. --+
//            |    w0     |    w1     |             | lanes |  ..   |        |   0  1  4  5 16 ..
//    m0+32   +-----------+-----------+             +-------+-------+-- .. --+   2  3  6  7 18 ..
//            :           :           :             |  ..   |       |        |   8  9 12 13 24 ..
//    m0+127  +-----------+-----------+             +-------+-------+-- .. --+  10 11 14 15 26 ..
//
// Pipeline: of 4 stages one is read while three tiles are on their way; a tile goes where the one
// just read was. Fragments come to registers one k ahead in the same way.
//
//      copies under way    | 1 2 3 | 2 3 4 | 3 4 5 | 4 5 6 |  between two steps one wait, for the
//      multiply-adds with  |   0   |   1   |   2   |   3   |  oldest copy, and one barrier
//
// The first tile has the k that whole tiles leave over, then zeros; so the main loop copies whole
// tiles alone. sm_75 has no cp.async: there each copy is waited for (lib/async.cuh).
//
// Shared memory: dynamic, 4 * stages * bk * (bm + pad + bn) bytes = 4 * 4 * 8 * 392 = 50176. By
// pad = 8 the four k of a row, which a warp copies at once, come into banks of their own.
// Claims: load_sectors_per_request 32/3 = (4 copies of A, 8 each + 2 of B, 16) / 6;
// load_requests_per_warp_fma 3/512; store_sectors_per_output 1/8; with rows at multiples of 128
// bytes shared_store_wavefronts_per_request 20/3 = (4 copies of A, 8 each + 2 of B, 4) / 6: copies
// of A meet no conflict where they are written, but eight rows lie in the same banks of L1.
// Source: CUDA C++ Programming Guide, "Multi-Stage Asynchronous Data Copies using cuda::pipeline"
#include "lib/block.cuh"
#include "lib/epilogue.cuh"
#include "lib/fragment.cuh"
#include "lib/lanes.cuh"
#include "lib/tile_copy.cuh"
#include "lib/tile_order.cuh"
#include "lib/vector.cuh"

template <Tile T>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
pipelined(int m, int n, int k, float alpha, const float* a, int64 lda, const float* b, int64 ldb,
          float beta, float* c, int64 ldc)
{
  // coordinates
  constexpr int acc_m = T.wmiter() * T.tm;  // 2*4 = 8
  constexpr int acc_n = T.wniter * T.tn;    // 4*4 = 16
  const unsigned tid = threadIdx.x;
  const unsigned warp = tid / 32;
  const Lane lane = z_order<32 / T.lanes_n(), T.lanes_n()>(tid % 32);
  const Block block = block_tile<T>(m, n);
  if (block.rows <= 0) return;
  const int row = warp / T.warps_n() * T.wm + lane.m * T.tm;
  const int col = warp % T.warps_n() * T.wn + lane.n * T.tn;

  // shared memory
  struct Stage {
    float a[T.bk][T.bm + T.pad];  // [bk][bm+pad]
    float b[T.bk][T.bn];          // [bk][bn]
  };
  extern __shared__ __align__(128) char smem[];
  Stage* const stages = reinterpret_cast<Stage*>(smem);  // [stages]

  // prologue
  const int depth = tiles_of(k, T.bk);
  const int rest = k - (depth - 1) * T.bk;  // steps of k in the first tile
  using CopyA = TileCopy<T.bm, T.bk, T.threads(), true, 1>;
  using CopyB4 = TileCopy<T.bn, T.bk, T.threads(), false, 4>;
  using CopyB1 = TileCopy<T.bn, T.bk, T.threads(), false, 1>;
  static_assert(CopyA::ld == T.bm + T.pad && CopyB4::ld == T.bn && CopyB1::ld == T.bn);
  const Panel panel_a{a + block.m0 * lda, lda, 1, block.rows};
  const Panel panel_b{b + block.n0, 1, ldb, block.cols};
  CopyA copy_a(panel_a, shared_address(stages->a), tid);
  float acc[acc_m][acc_n] = {};  // [wmiter*tm][wniter*tn]
  const auto multiply = [&](auto copy_b) {
    int left = depth;
#pragma unroll
    for (int s = 0; s < T.stages - 1; ++s) {
      const int valid = s == 0 ? rest : T.bk;
      if (s < left) {
        copy_a.partial(s * sizeof(Stage), valid);
        copy_b.partial(s * sizeof(Stage), valid);
      }
      commit_copies();
      copy_a.advance(valid);
      copy_b.advance(valid * ldb);
    }
    float frag_a[2][acc_m], frag_b[2][acc_n];
    const auto load = [&](int buffer, const Stage& stage, int kk) {
#pragma unroll
      for (int i = 0; i < T.wmiter(); ++i) {
        load_fragment<T.tm>(frag_a[buffer] + i * T.tm, &stage.a[kk][row + i * T.sub_m()]);
      }
#pragma unroll
      for (int j = 0; j < T.wniter; ++j) {
        load_fragment<T.tn>(frag_b[buffer] + j * T.tn, &stage.b[kk][col + j * T.sub_n()]);
      }
    };
    int read = 0, write = T.stages - 1;  // the stages to read and to overwrite
    wait_copies<T.stages - 2>();
    __syncthreads();  // the first tile is whole
    load(0, stages[read], 0);
#pragma unroll 1
    for (; left > 0; --left) {
#pragma unroll
      for (int kk = 0; kk < T.bk; ++kk) {
        if (kk == T.bk - 1) {
          wait_copies<T.stages - 2>();
          __syncthreads();  // the next tile is whole, and no thread reads this one any more
          write = read;
          read = read == T.stages - 1 ? 0 : read + 1;
        }
        load((kk + 1) % 2, stages[read], (kk + 1) % T.bk);
        if (kk == 0) {
          copy_a(write * sizeof(Stage), left >= T.stages);
          copy_b(write * sizeof(Stage), left >= T.stages);
          commit_copies();
          copy_a.advance(copy_a.step);
          copy_b.advance(copy_b.step);
        }
        outer_product(acc, frag_a[kk % 2], frag_b[kk % 2]);
      }
    }
  };

  // main loop
  const bool vectors = aligned16(b, ldb) && (n % 4 == 0 || block.cols >= T.bn);
  if (vectors) multiply(CopyB4(panel_b, shared_address(stages->b), tid));
  else multiply(CopyB1(panel_b, shared_address(stages->b), tid));

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

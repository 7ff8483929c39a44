// 10_persistent: blocks stay and share the tiles evenly, instead of a block a tile: no SM is idle
// while others compute a last wave of tiles.
//
// Contract: C = alpha*A*B + beta*C in float32. A [m][k], B [k][n] and C [m][n] are row-major with
// leading dimensions lda >= k, ldb >= n, ldc >= n, at any alignment; m, n >= 1 and k >= 0. Products
// are summed in the order of k, one fused multiply-add each; where a tile is cut along k, each part
// so, and then the parts in a fixed order, whoever finishes last. beta = 0 never reads C.
//
// Tile: bm x bn outputs, computed as in 09. The grid is `workers` blocks, one an SM, or one a step
// of bk where there are fewer steps. Whole tiles are dealt first; then the others, between one
// and two a block, are shared end to end (lib/work.cuh). Drawn for 17 tiles and 4 workers:
//
//      worker 0  |   5    |   9    |   13   |   0    |1 |     a block a tile takes five waves,
//      worker 1  |   6    |   10   |   14   |  1   | 2  |     this 4.25: tiles 0 .. 4 make 1.25
//      worker 2  |   7    |   11   |   15   | 2  |  3   |     a worker, so some are cut
//      worker 3  |   8    |   12   |   16   |3 |   4    |
//
// Order: bands of eight rows of tiles, column after column (lib/tile_order.cuh): tiles that are
// computed at one time share more of A and B in the L2.
//
// Workspace: `partial`, the sums of the parts of cut tiles, and `arrivals`, how many of them are
// there: the last to come adds all (lib/splits.cuh). `arrivals` is zero before and after a launch.
//
// Shared memory: dynamic, 4 * stages * bk * (bm + pad + bn) bytes = 4 * 4 * 8 * 392 = 50176.
// Claims: those of 09, where no tile is cut: load_sectors_per_request 32/3;
// load_requests_per_warp_fma 3/512; store_sectors_per_output 1/8;
// shared_store_wavefronts_per_request 20/3.
// Source: Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix
// Multiplication on the GPU", https://arxiv.org/abs/2301.03598
#include "lib/block.cuh"
#include "lib/epilogue.cuh"
#include "lib/fragment.cuh"
#include "lib/lanes.cuh"
#include "lib/splits.cuh"
#include "lib/tile_copy.cuh"
#include "lib/tile_order.cuh"
#include "lib/vector.cuh"
#include "lib/work.cuh"

template <Tile T>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
persistent(int m, int n, int k, float alpha, const float* a, int64 lda, const float* b, int64 ldb,
           float beta, float* c, int64 ldc, float* partial, unsigned* arrivals)
{
  // coordinates
  constexpr int acc_m = T.wmiter() * T.tm;  // 2*4 = 8
  constexpr int acc_n = T.wniter * T.tn;    // 4*4 = 16
  const unsigned tid = threadIdx.x;
  const unsigned warp = tid / 32;
  const Lane lane = z_order<32 / T.lanes_n(), T.lanes_n()>(tid % 32);
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
  const unsigned tiles_m = tiles_of(m, T.bm), tiles_n = tiles_of(n, T.bn);
  const int depth = max(tiles_of(k, T.bk), 1u);
  const int rest = k - (depth - 1) * T.bk;  // steps of k in the first tile
  using CopyA = TileCopy<T.bm, T.bk, T.threads(), true, 1>;
  using CopyB4 = TileCopy<T.bn, T.bk, T.threads(), false, 4>;
  using CopyB1 = TileCopy<T.bn, T.bk, T.threads(), false, 1>;
  static_assert(CopyA::ld == T.bm + T.pad && CopyB4::ld == T.bn && CopyB1::ld == T.bn);
  Deal deal(tiles_m * tiles_n, depth);
  for (Segment segment; deal.next(segment);) {
    const At at = tile_order(segment.tile, tiles_m, tiles_n);
    const unsigned m0 = at.m * T.bm, n0 = at.n * T.bn;
    const Block block{m0, n0, static_cast<int>(m - m0), static_cast<int>(n - n0)};
    const int64 k0 = segment.begin == 0 ? 0 : rest + static_cast<int64>(segment.begin - 1) * T.bk;
    const Panel panel_a{a + block.m0 * lda + k0, lda, 1, block.rows};
    const Panel panel_b{b + k0 * ldb + block.n0, 1, ldb, block.cols};
    CopyA copy_a(panel_a, shared_address(stages->a), tid);
    float acc[acc_m][acc_n] = {};  // [wmiter*tm][wniter*tn]
    const auto multiply = [&](auto copy_b) {
      int left = segment.steps;
#pragma unroll
      for (int s = 0; s < T.stages - 1; ++s) {
        const int valid = s == 0 && segment.begin == 0 ? rest : T.bk;
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
    auto& sums = reinterpret_cast<float(&)[acc_m * acc_n]>(acc);
    const Workspace workspace{partial, arrivals};
    if (!sum_parts<T.threads()>(sums, workspace, segment.slot, segment.part, segment.parts,
                                segment.room)) {
      continue;
    }
    const bool vectors_c = aligned16(c, ldc);
    float* const tile = c + block.m0 * ldc + block.n0;
    for_each_row(acc, [&](int i, const float (&acc_row)[acc_n]) {
      const int sub_row = row + i / T.tm * T.sub_m() + i % T.tm;
      if (sub_row >= block.rows) return;
#pragma unroll
      for (int j = 0; j < acc_n; j += 4) {
        const int sub_col = col + j / T.tn * T.sub_n() + j % T.tn;
        float* const target = tile + sub_row * ldc + sub_col;
        write4(target, alpha, &acc_row[j], beta, block.cols - sub_col, vectors_c);
      }
    });
  }
}

// tiled: a block computes a tile of D. Tiles of A and B come to shared memory some steps ahead of
// the arithmetic (cp.async), and fragments come to registers one step of k ahead.
//
// Contract: D = alpha*A*B + beta*C in float32 for each of a batch, any strides (lib/product.cuh),
// any m, n, k. Products are summed in the order of k, one fused multiply-add each, in stretches of
// 528 whose sums are added in order (lib/stretches.cuh); where k is cut (lib/work.cuh) each part
// so, and the parts in a fixed order. beta = 0 never reads C.
//
// Tile: bm x bn outputs a block, wm x wn a warp, tm x tn a thread, in 4x4 quads: the lanes of a
// warp are wm/tm along m and wn/tn along n (lib/lanes.cuh), a quad's neighbour lanes * 4 further.
//
//      n0     n0+32                  n0+127          .wm=32, .wn=128, .tm=8, .tn=16: 4 x 8 lanes
//   m0 +------+------+------+------+
//      | quad | quad | quad | quad |                 a lane's 2 x 4 quads; each quad of the warp's
//   +16+------+------+------+------+                 tile is 16 x 32, a 4x4 square a lane
//      | quad | quad | quad | quad |
//      +------+------+------+------+
//
// Shared memory, dynamic: stages * bk * (bm + bn) floats, and padding for an operand along k, which
// is transposed on its way or stays in rows (lib/side.cuh); behind them bm * bn floats for the sums
// of stretches, where a block has more than one. One barrier each bk steps of k: after it the tile
// just read may be overwritten, and the next one is there.
// Grid: (blocks that share the tiles of the batch as in lib/work.cuh, splits of k, 1).
// NOTE: the main loop is one basic block on purpose: copies past the end are predicated, not jumped
// over, so that ptxas and our own scheduler (toolchain/schedule) can move code across them.
#include "lib/fragment.cuh"
#include "lib/keep.cuh"
#include "lib/lanes.cuh"
#include "lib/product.cuh"
#include "lib/shared_sums.cuh"
#include "lib/side.cuh"
#include "lib/stretches.cuh"
#include "lib/tile.cuh"
#include "lib/tile_order.cuh"
#include "lib/work.cuh"
#include "lib/write_quads.cuh"

// Where a block works: a segment of its work, and the batch, row and column its tile starts at.
struct Place {
  Segment segment;
  int64 batch, m0, n0;
  int rest;  // steps of k in the first step of bk of a tile; others are whole
};

// Whether the block has a segment of this number, whose place `place` then is.
template <Tile T>
__device__ bool find_place(const Product& p, unsigned number, Place& place)
{
  const int m = anew(p.m), n = anew(p.n), k = anew(p.k);
  const unsigned tiles_m = tiles_of(m, T.bm), tiles_n = tiles_of(n, T.bn);
  const int depth = tiles_of(k, T.bk);
  const Work work(p.batch * tiles_m * tiles_n, depth, p.splits, p.workers);
  if (!work.find(number, place.segment)) return false;
  const At at = tile_order(place.segment.tile % (tiles_m * tiles_n), tiles_m, tiles_n);
  place.batch = place.segment.tile / (tiles_m * tiles_n);
  place.m0 = static_cast<int64>(at.m) * T.bm;
  place.n0 = static_cast<int64>(at.n) * T.bn;
  place.rest = k - (depth - 1) * T.bk;
  return true;
}

template <Tile T, Access X>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
tiled(const __grid_constant__ Product p)
{
  constexpr int threads = T.threads();
  constexpr int lanes_m = T.wm / T.tm;
  constexpr int lanes_n = T.wn / T.tn;
  // Whether an operand stays in rows, and whether both are transposed on their way.
  constexpr bool rows_a = X.a_along_k && X.a_vector == 4;
  constexpr bool rows_b = !X.b_along_n && X.b_vector == 4;
  constexpr bool both_transposed = X.a_along_k && !rows_a && !X.b_along_n && !rows_b;
  static_assert(!(rows_a && rows_b), "registers and their banks allow for one operand in rows");
  // Eight lanes along k read whole sectors, but take twice the pointers.
  constexpr int lanes_k = T.tm * T.tn < 128 || (X.a_along_k && !X.b_along_n) ? 4 : 8;
  constexpr int lanes_a = lanes_along_k(T.bm, threads, lanes_k);
  constexpr int lanes_b = lanes_along_k(T.bn, threads, lanes_k);
  using A = Side<T, T.bm, T.tm, lanes_m, X.a_along_k, X.a_vector, lanes_a>;
  using B = Side<T, T.bn, T.tn, lanes_n, !X.b_along_n, X.b_vector, lanes_b>;
  using CopyA = typename A::Copy;
  using CopyB = typename B::Copy;

  // shared memory: [stage][A's tile, then B's]; addresses and sizes in bytes
  constexpr unsigned size_a = 4 * CopyA::floats;
  constexpr unsigned stage = size_a + 4 * CopyB::floats;
  constexpr unsigned last_stage = (T.stages - 1) * stage;
  // Where both operands are read along k, each row of their tiles is a line of L1 while copies are
  // on their way: the sums of two blocks would leave too few.
  constexpr int blocks = T.min_blocks > 1 ? T.min_blocks : 1;
  constexpr bool sums_kept = sums_fit(blocks, T.bm * T.bn, T.stages * stage) &&
                             (blocks == 1 || !both_transposed);
  extern __shared__ __align__(128) float smem[];
  const unsigned base = shared_address(smem);

  // coordinates in the block's tile
  const auto row_of = [](int tid) {
    return tid / 32 / T.warps_n() * T.wm + z_order<lanes_m, lanes_n>(tid % 32).m * 4;
  };
  const auto col_of = [](int tid) {
    return tid / 32 % T.warps_n() * T.wn + z_order<lanes_m, lanes_n>(tid % 32).n * 4;
  };
  const int tid = threadIdx.x;
  const unsigned from_a = keep(base + 4 * row_of(tid) * A::Fragment::next);
  const unsigned from_b = keep(base + size_a + 4 * col_of(tid) * B::Fragment::next);

  Place place;
  for (unsigned number = 0; find_place<T>(p, number, place); ++number) {
    const auto [segment, batch, m0, n0, rest] = place;
    const int64 k0 = segment.begin == 0 ? 0 : rest + static_cast<int64>(segment.begin - 1) * T.bk;

    // prologue: start the copies of stages - 1 tiles
    const float* const a = p.a + batch * p.a_batch + m0 * p.a_row + k0 * p.a_col;
    const float* const b = p.b + batch * p.b_batch + n0 * p.b_col + k0 * p.b_row;
    CopyA copy_a({a, p.a_row, p.a_col, static_cast<int>(p.m - m0), m0 > 0}, base, tid);
    CopyB copy_b({b, p.b_col, p.b_row, static_cast<int>(p.n - n0), n0 > 0}, base + size_a, tid);
    int left = segment.steps;
#pragma unroll
    for (int s = 0; s < T.stages - 1; ++s) {
      const int valid = s == 0 && segment.begin == 0 ? rest : T.bk;
      if (s < left) {
        copy_a.partial(s * stage, valid);
        copy_b.partial(s * stage, valid);
      }
      commit_copies();
      copy_a.advance(valid * p.a_col);
      copy_b.advance(valid * p.b_row);
    }
    // [m][n], or [n][m]: the outputs that share a value of the operand in rows are neighbours.
    float acc[rows_b ? T.tn : T.tm][rows_b ? T.tm : T.tn] = {};
    auto& sums = reinterpret_cast<float(&)[T.tm * T.tn]>(acc);
    typename A::Fragment frag_a;
    typename B::Fragment frag_b;
    unsigned read = 0, write = last_stage;  // the stages to read and to overwrite
    wait_copies<T.stages - 2>();
    __syncthreads();
    frag_a.ahead(from_a + read, 0);
    frag_b.ahead(from_b + read, 0);
    frag_a.behind(from_a + read, 0);
    frag_b.behind(from_b + read, 0);

    // main loop
    for (int done = 0;; ++done) {
      const int end = end_of_stretch<sums_kept ? stretch / T.bk : 0>(left);
#pragma unroll 1
      for (; left > end; --left) {
#pragma unroll
        for (int k = 0; k < T.bk; ++k) {
          if (k == T.bk - 1) {
            wait_copies<T.stages - 2>();
            __syncthreads();  // the next tile is whole, and nobody reads this one any more
            write = read;
            read = read == last_stage ? 0 : read + stage;
          }
          frag_a.ahead(from_a + read, (k + 1) % T.bk);
          frag_b.ahead(from_b + read, (k + 1) % T.bk);
          if (k == 0) {
            copy_a(write, left >= T.stages);
            copy_b(write, left >= T.stages);
            commit_copies();
          }
          if (k == T.bk / 2) {
            copy_a.advance(copy_a.step);
            copy_b.advance(copy_b.step);
          }
          if constexpr (rows_b) {
            multiply_add(acc, frag_b, frag_a, k);
          } else {
            multiply_add(acc, frag_a, frag_b, k);
          }
          frag_a.behind(from_a + read, (k + 1) % T.bk);
          frag_b.behind(from_b + read, (k + 1) % T.bk);
        }
      }
      const unsigned kept = base + T.stages * stage + 16 * anew(tid);
      if (done > 0) add_kept<threads>(sums, kept);
      if (end == 0) break;
      keep_sums<threads>(sums, kept);
    }

    // epilogue; the place is found again, not held in registers through the main loop
    if (!find_place<T>(p, number, place)) break;  // it is there, but ptxas would hold the old one
    float out[T.tm][T.tn];
#pragma unroll
    for (int i = 0; i < T.tm * T.tn; ++i) {
      out[i / T.tn][i % T.tn] = rows_b ? sums[i % T.tn * T.tm + i / T.tn] : sums[i];
    }
    const Segment& whole = place.segment;
    if (whole.parts > 1) {
      put_part<threads>(reinterpret_cast<float(&)[T.tm * T.tn]>(out), p, whole.slot, whole.part,
                        whole.room);
    } else {
      const int again = anew(tid);
      write_quads<lanes_m, lanes_n>(out, p, place.batch, place.m0 + row_of(again),
                                    place.n0 + col_of(again));
    }
  }

  // Parts of k. They are added behind all work: nobody waits for others before it is done itself.
  if (p.splits == 1 && p.workers == 0) return;
  // How many blocks of a tile run at a time: workers all do.
  const int running = p.workers > 0 ? p.workers : blocks * multiprocessors() / gridDim.x;
  for (unsigned number = 0; find_place<T>(p, number, place); ++number) {
    if (place.segment.parts == 1) continue;
    add_parts<threads, T.tm * T.tn>(
        p, place.segment.slot, place.segment.parts, place.segment.room, running,
        [&](int quad, const float4& sum) {
          const int thread = quad % threads;
          const int output = quad / threads * 4;
          const float four[4] = {sum.x, sum.y, sum.z, sum.w};
          write_quad(four, p, place.batch,
                     place.m0 + row_of(thread) + in_quads<lanes_m>(output / T.tn),
                     place.n0 + col_of(thread) + in_quads<lanes_n>(output % T.tn));
        });
  }
}

// shallow: products of short k. A block computes a tile of D, and has all of k of A and B in shared
// memory: every copy is on its way before the first multiply-add.
//
// Contract: D = alpha*A*B + beta*C in float32 for each of a batch, any strides (lib/product.cuh),
// any m and n, 1 <= k <= stages * bk. Products are summed in the order of k, one fused multiply-add
// each. beta = 0 never reads C.
//
// Tile: bm x bn outputs a block, wm x wn a warp, tm x tn a thread in 4x4 quads, as in tiled.cuh.
//
// Staging: `stages` slices of bk = 32 of k (lib/slice.cuh), each copied as it lies in memory, 16
// bytes a lane where aligned, also along k, and read four of k at a time. What is waited for is the
// first slice, then the next; no slice is overwritten, so nobody waits for a reader. Several blocks
// are on an SM, and while one waits for memory another multiplies or stores.
// NOTE: the code is small on purpose: of a launch of few microseconds much is its first time
// through the instruction cache.
// Grid: (tiles of D, 1, 1), those along n first, then along m, then of the batch.
// Shared memory, dynamic: 4 * stages * bk * (bm + bn) bytes.
#include "lib/async.cuh"
#include "lib/fragment.cuh"
#include "lib/keep.cuh"
#include "lib/lanes.cuh"
#include "lib/product.cuh"
#include "lib/slice.cuh"
#include "lib/tile.cuh"
#include "lib/tile_order.cuh"
#include "lib/types.cuh"
#include "lib/write_quads.cuh"

// Takes the lowest digit off a number: which of `count` it is. One of one costs no division.
__device__ __forceinline__ unsigned digit(unsigned& number, unsigned count)
{
  if (count == 1) return 0;
  const unsigned lowest = number % count;
  number /= count;
  return lowest;
}

// Waits until all but the newest `pending` groups of copies are there, for up to three of them.
__device__ __forceinline__ void wait_for_all_but(int pending)
{
  if (pending == 0) wait_copies<0>();
  else if (pending == 1) wait_copies<1>();
  else if (pending == 2) wait_copies<2>();
  else wait_copies<3>();
}

template <Tile T, Access X>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
shallow(const __grid_constant__ Product p)
{
  static_assert(T.bk == slice_k && T.stages <= 4, "a stage is a slice, and there are four at most");
  constexpr int threads = T.threads();
  constexpr int lanes_m = T.wm / T.tm;
  constexpr int lanes_n = T.wn / T.tn;
  using SliceA = Slice<T.bm, threads, X.a_along_k, X.a_vector>;
  using SliceB = Slice<T.bn, threads, !X.b_along_n, X.b_vector>;

  // coordinates
  unsigned number = blockIdx.x;
  const int64 n0 = static_cast<int64>(digit(number, tiles_of(p.n, T.bn))) * T.bn;
  const int64 m0 = static_cast<int64>(digit(number, tiles_of(p.m, T.bm))) * T.bm;
  const int64 batch = number;
  const unsigned tid = threadIdx.x;

  // shared memory: [stage][A's slice, then B's]
  constexpr unsigned stage = SliceA::bytes + SliceB::bytes;
  extern __shared__ __align__(128) float smem[];
  const unsigned base = shared_address(smem);

  // prologue: start all copies, those of a slice as a group
  const Operand a{p.a + batch * p.a_batch + m0 * p.a_row, p.a_row, p.a_col,
                  static_cast<int>(p.m - m0), p.k};
  const Operand b{p.b + batch * p.b_batch + n0 * p.b_col, p.b_col, p.b_row,
                  static_cast<int>(p.n - n0), p.k};
#pragma unroll
  for (int s = 0; s < T.stages; ++s) {
    if (s * T.bk < p.k) {
      SliceB::copy(base + s * stage + SliceA::bytes, b, s * T.bk, tid);
      SliceA::copy(base + s * stage, a, s * T.bk, tid);
    }
    commit_copies();
  }

  // main loop
  const unsigned thread = anew(tid);  // nothing of this is computed before the copies
  const Lane lane = z_order<lanes_m, lanes_n>(thread % 32);
  const int row = thread / 32 / T.warps_n() * T.wm + lane.m * 4;
  const int col = thread / 32 % T.warps_n() * T.wn + lane.n * 4;
  float acc[T.tm][T.tn] = {};
#pragma unroll 1
  for (int s = 0; s * T.bk < p.k; ++s) {
    wait_for_all_but(T.stages - 1 - s);
    __syncthreads();  // the slice is whole
    const unsigned slice = base + s * stage;
    const int left = min(p.k - s * T.bk, T.bk);
    float frag_a[4][T.tm], frag_b[4][T.tn];
    const auto load = [&](int quad) {
      SliceA::template read<lanes_m>(frag_a, slice, row, quad);
      SliceB::template read<lanes_n>(frag_b, slice + SliceA::bytes, col, quad);
    };
#pragma unroll 1
    for (int quad = 0; quad < left / 4; ++quad) {
      load(quad);
#pragma unroll
      for (int k = 0; k < 4; ++k) outer_product(acc, frag_a[k], frag_b[k]);
    }
    if (left % 4 == 0) continue;
    load(left / 4);
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      if (k < left % 4) outer_product(acc, frag_a[k], frag_b[k]);
    }
  }

  // epilogue
  write_quads<lanes_m, lanes_n>(acc, p, batch, m0 + row, n0 + col);
}

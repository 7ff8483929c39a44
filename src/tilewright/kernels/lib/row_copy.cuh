// Copies of tiles of A and B to shared memory by 16-byte cp.async, as they lie: in rows along k.
#pragma once

#include "lib/async.cuh"
#include "lib/keep.cuh"
#include "lib/tile_copy.cuh"
#include "lib/types.cuh"

// The part of one thread in copying tiles of `width` x `depth` to shared memory, whose rows are
// quads of neighbours along k. 16 bytes are left behind every fourth row: lanes that read the same
// quad of rows four apart (lib/tile_fragment.cuh) so read other banks.
//
//     depth 8        row 0  row 1  row 2  row 3
//     rows 0 .. 3    q0 q1  q0 q1  q0 q1  q0 q1  --     q0 of row 0 -> banks 0 ..  3
//     rows 4 .. 7    q0 q1  q0 q1  q0 q1  q0 q1  --     q0 of row 4 -> banks 4 ..  7
//
// NOTE: the matrix's rows must start at multiples of 16 bytes, and its k must be a multiple of 4.
template <int width, int depth, int threads>
struct RowCopy {
  static constexpr int lanes = depth / 4;        // side by side, a quad of k each
  static constexpr int span = threads / lanes;   // rows copied at a time
  static constexpr int sources = width / span;   // pointers
  static constexpr int ld = 4 * depth + 4;       // floats from a row to the fourth behind it
  static constexpr int floats = width / 4 * ld;  // of a tile
  static_assert(threads % lanes == 0 && width % span == 0 && span % 4 == 0,
                "the block must copy the tile evenly");

  const float* source[sources];  // of this thread, in the next tile
  unsigned target;               // of this thread in the first tile, an address of shared memory
  int first;                     // this thread's first step of k

  static constexpr int64 step = depth;  // from one tile to the next

  // `tile` is the address of the first tile in shared memory.
  __device__ RowCopy(const Panel& panel, unsigned tile, int tid) : first(tid % lanes * 4)
  {
    const int row = tid / lanes;
    target = keep(tile + 4 * (row / 4 * ld + row % 4 * depth + first));
#pragma unroll
    for (int i = 0; i < sources; ++i) {
      source[i] = panel.data + inside<width>(row + i * span, panel) * panel.width_stride + first;
    }
  }

  // Start copying the next tile, to `stage` bytes behind the first, if `more`.
  __device__ __forceinline__ void operator()(unsigned stage, bool more) const
  {
#pragma unroll
    for (int i = 0; i < sources; ++i) {
      copy_async_if<16>(more, stage + target + i * span * ld, source[i]);
    }
  }

  // Start copying a tile that has `valid` steps of k, a multiple of 4, with zeros behind them.
  __device__ __forceinline__ void partial(unsigned stage, int valid) const
  {
#pragma unroll
    for (int i = 0; i < sources; ++i) {
      copy_async<16>(stage + target + i * span * ld, source[i], first < valid ? 16 : 0);
    }
  }

  // On to the tile behind, `by` floats away.
  __device__ __forceinline__ void advance(int64 by)
  {
#pragma unroll
    for (int i = 0; i < sources; ++i) source[i] += by;
  }
};

// Copies of tiles of A and B to shared memory by cp.async, from any strides.
#pragma once

#include "lib/async.cuh"
#include "lib/keep.cuh"
#include "lib/types.cuh"

// A matrix as tiles are cut from it: `width` runs along m (A) or n (B), the other way is k.
struct Panel {
  const float* data;
  int64 width_stride, k_stride;
  int width;   // elements from `data` to the matrix's end
  bool inner;  // whether there is a tile before this one
};

constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

// The fewest lanes along k, `least` or twice as many and so on, with which threads copy as many of
// `width` rows each.
constexpr int lanes_along_k(int width, int threads, int least)
{
  const bool even = width % (threads / least) == 0;
  return even || 2 * least > threads ? least : lanes_along_k(width, threads, 2 * least);
}

// What to read of tiles of `width` for an element that may lie past the matrix, where outputs are
// that nobody stores: another one for each, since lanes that copy one element to many places wait
// for each other.
template <int width>
__device__ int inside(int at, const Panel& panel)
{
  if (at < panel.width) return at;
  return panel.inner ? at - width : at % panel.width;
}

// The part of one thread in copying tiles of `width` x `depth` to [depth][ld] floats.
//
// Along k, `lanes_k` lanes read neighbours of one row and store them to as many rows of shared
// memory, 32 / lanes_k banks apart, for each of the warp's rows; else a row of lanes reads
// neighbours along the width, `vector` of them each, which stay neighbours.
//
//     along k, 4 lanes: lane = 4 * row + k           else: lane = column / vector
//     row 0   0  1  2  3  -> banks 0  8 16 24        k 0   0  1  2  3  4  ...  -> banks 0 .. 31
//     row 1   4  5  6  7  -> banks 1  9 17 25
template <int width, int depth, int threads, bool along_k, int vector, int lanes_k = 4>
struct TileCopy {
  static constexpr int bytes = along_k ? 4 : 4 * vector;  // of one copy
  static constexpr int lanes =                            // side by side
      along_k ? lanes_k : common_divisor(width / vector, threads);
  static constexpr int ld = width + (along_k ? 32 / lanes_k : 0);
  static constexpr int floats = depth * ld;     // of a tile
  static constexpr int span = threads / lanes;  // rows (along k) or steps of k copied at a time
  static constexpr int rows = along_k ? width / span : depth / span;
  static constexpr int columns = along_k ? depth / lanes : width / vector / lanes;
  static constexpr int hops = !along_k && vector == 1 && rows > 1 ? 2 : 1;  // copies of a pointer
  static constexpr int sources = along_k ? rows : rows / hops * columns;    // pointers
  static_assert(rows % hops == 0, "the pointers must have as many copies each");
  static_assert(along_k ? width % span == 0 && depth % lanes == 0
                        : threads % lanes == 0 && width % (lanes * vector) == 0 &&
                              depth % span == 0,
                "the block must copy the tile evenly");

  const float* source[sources];  // of this thread, in the next tile
  int64 hop;                     // between the copies of a pointer, in floats
  int64 step;                    // from one tile to the next
  unsigned target;               // of this thread in the first tile, an address of shared memory
  int first;                     // this thread's first step of k

  // `tile` is the address of the first tile in shared memory.
  __device__ TileCopy(const Panel& panel, unsigned tile, int tid)
      : hop(span * panel.k_stride),
        step(along_k ? depth : depth * panel.k_stride),
        first(along_k ? tid % lanes : tid / lanes)
  {
    const int line = tid / lanes;
    target = keep(tile + 4 * (along_k ? first * ld + line : line * ld + tid % lanes * vector));
#pragma unroll
    for (int i = 0; i < sources; ++i) {
      const int at = along_k ? line + i * span : (tid % lanes + i % columns * lanes) * vector;
      const int k = along_k ? first : first + i / columns * hops * span;
      source[i] = panel.data + inside<width>(at, panel) * panel.width_stride +
                  k * (along_k ? 1 : panel.k_stride);
    }
  }

  // Start copying the next tile, to `stage` bytes behind the first, if `more`.
  __device__ __forceinline__ void operator()(unsigned stage, bool more) const
  {
    for_each([&](const float* from, int to, int) {
      copy_async_if<bytes>(more, stage + target + to, from);
    });
  }

  // Start copying a tile that has `valid` steps of k, with zeros behind them.
  __device__ __forceinline__ void partial(unsigned stage, int valid) const
  {
    for_each([&](const float* from, int to, int k) {
      copy_async<bytes>(stage + target + to, from, k < valid ? bytes : 0);
    });
  }

  // On to the tile behind, `by` floats away.
  __device__ __forceinline__ void advance(int64 by)
  {
#pragma unroll
    for (int i = 0; i < sources; ++i) source[i] += by;
  }

private:
  // Calls copy(from, to, k) for each copy of a tile: `to` in bytes behind the thread's first.
  template <class Copy>
  __device__ __forceinline__ void for_each(Copy copy) const
  {
#pragma unroll
    for (int i = 0; i < sources; ++i) {
#pragma unroll
      for (int j = 0; j < (along_k ? columns : hops); ++j) {
        if constexpr (along_k) {
          copy(source[i] + j * lanes, 4 * (j * lanes * ld + i * span), first + j * lanes);
        } else {
          const int k = (i / columns * hops + j) * span;
          copy(source[i] + j * hop, 4 * (k * ld + i % columns * lanes * vector), first + k);
        }
      }
    }
  }
};

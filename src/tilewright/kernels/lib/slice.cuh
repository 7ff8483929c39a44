// Slices of k of a tile of A or B in shared memory, each line as it lies in memory.
#pragma once

#include "lib/async.cuh"
#include "lib/fragment.cuh"
#include "lib/types.cuh"

// How much of k a slice has: 128 bytes of a line along k.
constexpr int slice_k = 32;

// A matrix as tiles are cut from it: `width` runs along m (A) or n (B), the other way is k.
struct Operand {
  const float* data;
  int64 width_stride, k_stride;
  int width, k;  // elements from `data` to the matrix's end
};

// Where a quad of a line along k is kept, in bytes from the slice's begin. Lines are not padded:
// quads change places within their 128 bytes, by fours of lines, so that lanes which read the same
// quad of every fourth line meet in no bank, and an asynchronous copy still moves whole sectors
// from one line to one line, 16 bytes a lane, in as few passes as if nothing moved.
__device__ __forceinline__ unsigned place_of(int line, int quad)
{
  return 4 * slice_k * line + 16 * (quad ^ line / 4 % 8);
}

// A slice is [width][slice_k] along k, with quads in the places above, else [slice_k][width].
template <int width, int threads, bool along_k, int vector>
struct Slice {
  static constexpr unsigned bytes = 4 * slice_k * width;
  static constexpr int lanes = (along_k ? slice_k : width) / vector;  // that copy a line
  static constexpr int span = threads / lanes;                        // lines copied at a time
  static constexpr int rounds = (along_k ? width : slice_k) / span;
  static_assert(threads % lanes == 0 && rounds * span == (along_k ? width : slice_k),
                "the block must copy the slice evenly");

  // Start copying a thread's share of the slice from `first` of k on to `target`, an address of
  // shared memory: nothing past the matrix, so what is kept there nobody may use.
  static __device__ __forceinline__ void copy(unsigned target, const Operand& from, int first,
                                              unsigned tid)
  {
    const int line = tid / lanes, unit = tid % lanes * vector;
    const int64 step = span * (along_k ? from.width_stride : from.k_stride);
    const float* source = from.data + (along_k ? line : unit) * from.width_stride +
                          (first + (along_k ? unit : line)) * (along_k ? 1 : from.k_stride);
    const bool inside = along_k ? first + unit < from.k : unit < from.width;
    const int left = (along_k ? from.width : from.k - first) - line;  // lines from this thread's on
    target += along_k ? place_of(line, unit / 4) + 4 * (unit % 4) : 4 * (line * width + unit);
#pragma unroll(vector == 4 ? rounds : 4)
    for (int i = 0; i < rounds; ++i, source += step) {
      // Lines are powers of two apart: what changes of a place changes alike in all threads.
      const unsigned to = along_k ? (target ^ place_of(i * span, 0) % 128) + 4 * slice_k * i * span
                                  : target + 4 * i * span * width;
      copy_async_if<4 * vector>(inside && i * span < left, to, source);
    }
  }

  // Reads four of k, from `quad` on, of `count` elements of the width: those from `at` on in quads,
  // a quad's neighbour 4 * beside further.
  template <int beside, int count>
  static __device__ __forceinline__ void read(float (&frag)[4][count], unsigned slice, int at,
                                              int quad)
  {
    if constexpr (along_k) {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        float four[4];
        load_quads<4, 0>(four, slice + place_of(at + i / 4 * 4 * beside, quad) +
                                   4 * slice_k * (i % 4));
#pragma unroll
        for (int k = 0; k < 4; ++k) frag[k][i] = four[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        load_quads<count, 4 * beside>(frag[k], slice + 4 * ((4 * quad + k) * width + at));
      }
    }
  }
};

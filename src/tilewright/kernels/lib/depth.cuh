// How many steps along k a tile takes: all of its bk, or what is left of k.
//
// A kernel writes its work on one tile once, as a lambda that takes either. With Whole the compiler
// unrolls it and no index along k needs a check; with Rest it stays a loop, to keep the code small.
#pragma once

#include "lib/tile.cuh"

template <Tile T>
struct Whole {
  static constexpr bool whole = true;
  static constexpr int unroll = T.unroll > 0 ? T.unroll : T.bk;
  __device__ constexpr operator int() const { return T.bk; }
};

struct Rest {
  static constexpr bool whole = false;
  static constexpr int unroll = 1;
  int depth;
  __device__ constexpr operator int() const { return depth; }
};

// `i`, or the last index of the tile that lies inside the matrix where `i` does not.
__device__ inline int clamp(int i, Rest rest) { return min(i, rest - 1); }

template <Tile T>
__device__ int clamp(int i, Whole<T>)
{
  return i;
}

// Which tile of C a block computes, and how much of C lies from there on.
#pragma once

#include "lib/tile.cuh"
#include "lib/types.cuh"

struct Block {
  unsigned m0, n0;  // the tile's first row and column
  int rows, cols;   // rows and columns of C from there to its end: bm, bn or more in the interior
};

// A column of tiles has one blockIdx.x, a row of tiles one (blockIdx.z, blockIdx.y): the grid's y
// ends at 65535, so a taller C goes on in z. Rows of tiles past the end of C have rows <= 0.
// NOTE: unsigned, and differences instead of sums: m0 + bm can pass 2^31.
template <Tile T>
__device__ Block block_tile(int m, int n)
{
  const unsigned m0 = (blockIdx.z * gridDim.y + blockIdx.y) * T.bm;
  const unsigned n0 = blockIdx.x * T.bn;
  return {m0, n0, static_cast<int>(m - m0), static_cast<int>(n - n0)};
}

// In which order blocks take the tiles of D.
#pragma once

__device__ inline unsigned tiles_of(int extent, int tile)
{
  return (static_cast<unsigned>(extent) + tile - 1) / tile;
}

struct At {
  unsigned m, n;  // in tiles
};

// Bands of eight rows of tiles, column after column: the blocks that run together then lie in a
// square rather than in a row, and share more of A and B in the L2.
__device__ inline At tile_order(unsigned tile, unsigned tiles_m, unsigned tiles_n)
{
  constexpr unsigned band = 8;
  const unsigned first = tile / (band * tiles_n) * band;
  const unsigned rows = min(band, tiles_m - first);
  const unsigned within = tile - first * tiles_n;
  return {first + within % rows, within / rows};
}

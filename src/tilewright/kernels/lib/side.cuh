// One side of a product, A or B: how its tiles are copied, and how fragments are read from them.
#pragma once

#include "lib/row_copy.cuh"
#include "lib/tile.cuh"
#include "lib/tile_copy.cuh"
#include "lib/tile_fragment.cuh"

// Tiles are `width` wide; a thread has `count` values a step, in quads, `lanes` a row of lanes.
// An operand that is read along k, in vectors, stays in rows. Otherwise its tiles are [k][width].
template <Tile T, int width, int count, int lanes, bool along_k, int vector, int lanes_k,
          bool rows = along_k && vector == 4>
struct Side {
  using Copy = TileCopy<width, T.bk, T.threads(), along_k, vector, lanes_k>;
  using Fragment = ColumnFragment<count, lanes, Copy::ld>;
};

template <Tile T, int width, int count, int lanes, bool along_k, int vector, int lanes_k>
struct Side<T, width, count, lanes, along_k, vector, lanes_k, true> {
  using Copy = RowCopy<width, T.bk, T.threads()>;
  using Fragment = RowFragment<count, lanes, Copy::ld>;
};

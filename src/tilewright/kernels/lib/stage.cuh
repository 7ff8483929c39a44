// Staging: the threads of a block copy a tile of a matrix from global to shared memory.
//
// `source` is the tile's first element; `rows` and `cols` say how much of the matrix lies from
// there on. In place of an element outside the matrix one inside is read: the address is always
// valid, no thread branches, and what is computed from such an element is never stored.
#pragma once

#include "lib/depth.cuh"
#include "lib/types.cuh"

// Neighbouring threads copy neighbouring elements of a row.
template <int threads, int R, int C, class Rows, class Cols>
__device__ void stage(float (&tile)[R][C], const float* source, int64 ld, Rows rows, Cols cols,
                      unsigned tid)
{
  constexpr int stride = threads / C;  // rows that the block copies at a time
  static_assert(threads % C == 0 && R % stride == 0, "the block must copy whole rows, evenly");
  const int row = tid / C;
  const int col = tid % C;
  source += clamp(row, rows) * ld + clamp(col, cols);
#pragma unroll
  for (int i = 0; i < R; i += stride) {
    tile[row + i][col] = source[within(row + i, rows) ? i * ld : 0];
  }
}

// What kernels for few rows (or columns) of D share: how a block's threads divide a tile and its k,
// and how their sums meet. Neighbours along n are the lanes of a warp first, k the rest of them and
// the warps.
//
// Tile: bm x bn outputs a block. With tm = bm a thread has all rows of the tile and tn of its
// columns, and kparts threads share those. A step takes bk = 4 * kparts along k, four a thread.
// Drawn for .bn=32, .tn=4, .kparts=32:
//
//               n0                 n0+31
//        k0     +------------------+            a step of B: 8 warps of 16 rows; in a warp 8 lanes
//               | 0  1  2  ..    7 |  warp 0    along n, 4 columns each, and 4 along k, 4 rows each
//               | 8  9  10 ..   15 |
//               | 16 ..         31 |
//        k0+16  +------------------+
//               |                  |  warp 1
//               :                  :
//
// Each float of B is read by one thread alone, so it goes straight into registers: `stages` steps
// are under way in every thread from its first instruction on.
//
// Where the parts of k meet: lanes fold (lib/fold.cuh), warps add through shared memory, blocks
// through the workspace (lib/splits.cuh).
// Grid: (tiles along n x batch, tiles along m, splits of k).
#pragma once

#include "lib/epilogue.cuh"
#include "lib/fold.cuh"
#include "lib/product.cuh"
#include "lib/splits.cuh"
#include "lib/stream.cuh"
#include "lib/tile.cuh"
#include "lib/types.cuh"

// D^T = B^T A^T: the same product with its small side along m.
__device__ inline Product transposed(const Product& p)
{
  return {p.b, p.a, p.c, p.d, p.partial, p.arrivals,
          p.b_col, p.b_row, p.b_batch, p.a_col, p.a_row, p.a_batch,
          p.c_col, p.c_row, p.c_batch, p.d_col, p.d_row, p.d_batch,
          p.n, p.m, p.k, p.batch, p.splits, p.alpha, p.beta};
}

// NOTE: what has neighbours nowhere counts as along k of A and along n of B; so this may say that
// B lies along k where its rows are apart. `strided_*` tell the two apart.
__host__ __device__ constexpr Access transposed(Access x)
{
  return {!x.b_along_n, !x.a_along_k, x.b_vector, x.a_vector};
}

__host__ __device__ constexpr Tile transposed(Tile t)
{
  const int bm = t.bm, tm = t.tm;
  t.bm = t.bn;
  t.tm = t.tn;
  t.bn = bm;
  t.tn = tm;
  return t;
}

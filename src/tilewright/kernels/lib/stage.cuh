// Staging: the threads of a block copy tiles of A and B from global to shared memory.
//
// Each thread copies the same elements of every tile, so it keeps a pointer to the first of them
// and moves it along k. In place of an element outside the matrix one inside is read: the address
// is always valid, no thread branches, and what is computed from such an element is never stored.
#pragma once

#include "lib/block.cuh"
#include "lib/depth.cuh"
#include "lib/types.cuh"

// Tiles of A, [bm][bk], or transposed, [bk][bm+pad]: neighbouring threads copy neighbours along k.
template <Tile T, bool transposed = false>
struct StageA {
  static constexpr int stride = T.threads() / T.bk;  // rows that the block copies at a time
  static_assert(T.threads() % T.bk == 0 && T.bm % stride == 0,
                "the block must copy whole rows of A, evenly");
  using Shared = float[transposed ? T.bk : T.bm][transposed ? T.bm + T.pad : T.bk];

  Shared& tile;
  int64 lda;
  int rows, row, col;
  const float* source;

  __device__ StageA(Shared& smem_a, const float* a, int64 ld, const Block& block, int tid)
      : tile(smem_a), lda(ld), rows(block.rows), row(tid / T.bk), col(tid % T.bk),
        source(a + (block.m0 + min(row, rows - 1)) * lda + col)
  {
  }

  template <class Depth>
  __device__ void operator()(Depth depth)
  {
    const int inside = clamp(col, depth) - col;
#pragma unroll
    for (int i = 0; i < T.bm; i += stride) {
      const float value = source[(row + i < rows ? i * lda : 0) + inside];
      if constexpr (transposed) tile[col][row + i] = value;
      else tile[row + i][col] = value;
    }
    source += T.bk;
  }
};

// Tiles of B, [bk][bn]: neighbouring threads copy neighbours along n.
template <Tile T>
struct StageB {
  static constexpr int stride = T.threads() / T.bn;  // rows that the block copies at a time
  static_assert(T.threads() % T.bn == 0 && T.bk % stride == 0,
                "the block must copy whole rows of B, evenly");

  float (&tile)[T.bk][T.bn];
  int64 ldb;
  int row, col;
  const float* source;

  __device__ StageB(float (&smem_b)[T.bk][T.bn], const float* b, int64 ld, const Block& block,
                    int tid)
      : tile(smem_b), ldb(ld), row(tid / T.bn), col(tid % T.bn),
        source(b + row * ldb + block.n0 + min(col, block.cols - 1))
  {
  }

  template <class Depth>
  __device__ void operator()(Depth depth)
  {
#pragma unroll
    for (int i = 0; i < T.bk; i += stride) {
      tile[row + i][col] = source[(clamp(row + i, depth) - row) * ldb];
    }
    source += T.bk * ldb;
  }
};

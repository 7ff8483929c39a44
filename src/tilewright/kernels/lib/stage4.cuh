// Staging, four neighbouring floats a thread: by one 128-bit instruction where the tile is whole
// (a kernel takes whole tiles only where lib/vector.cuh finds that legal), else one at a time.
#pragma once

#include "lib/block.cuh"
#include "lib/depth.cuh"
#include "lib/fragment.cuh"
#include "lib/types.cuh"

// As StageA in lib/stage.cuh, four neighbours along k at a time, and the tile is transposed,
// [bk][bm+pad]: so the rows of a fragment of A are neighbours in shared memory.
template <Tile T>
struct StageA4 {
  static constexpr int stride = T.threads() / (T.bk / 4);  // rows that the block copies at a time
  static_assert(T.bk % 4 == 0 && T.threads() % (T.bk / 4) == 0 && T.bm % stride == 0,
                "the block must copy whole rows of A, evenly, four floats a thread");

  float (&tile)[T.bk][T.bm + T.pad];
  int64 lda;
  int rows, row, col;
  const float* source;

  __device__ StageA4(float (&smem_a)[T.bk][T.bm + T.pad], const float* a, int64 ld,
                     const Block& block, int tid)
      : tile(smem_a), lda(ld), rows(block.rows), row(tid / (T.bk / 4)), col(tid % (T.bk / 4) * 4),
        source(a + (block.m0 + min(row, rows - 1)) * lda + col)
  {
  }

  template <class Depth>
  __device__ void operator()(Depth depth)
  {
#pragma unroll (depth.whole ? T.bm : 1)
    for (int i = 0; i < T.bm; i += stride) {
      const float* const first = source + (row + i < rows ? i * lda : 0);
      float four[4];
      if constexpr (depth.whole) {
        load_fragment<4>(four, first);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) four[j] = first[clamp(col + j, depth) - col];
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) tile[col + j][row + i] = four[j];
    }
    source += T.bk;
  }
};

// As StageB in lib/stage.cuh, four neighbours along n at a time; the tile is [bk][bn].
template <Tile T>
struct StageB4 {
  static constexpr int stride = T.threads() / (T.bn / 4);  // rows that the block copies at a time
  static_assert(T.bn % 4 == 0 && T.threads() % (T.bn / 4) == 0 && T.bk % stride == 0,
                "the block must copy whole rows of B, evenly, four floats a thread");

  float (&tile)[T.bk][T.bn];
  int64 ldb;
  int cols, row, col;
  const float* source;

  __device__ StageB4(float (&smem_b)[T.bk][T.bn], const float* b, int64 ld, const Block& block,
                     int tid)
      : tile(smem_b), ldb(ld), cols(block.cols), row(tid / (T.bn / 4)), col(tid % (T.bn / 4) * 4),
        source(b + row * ldb + block.n0 + (col < cols ? col : 0))
  {
  }

  template <class Depth>
  __device__ void operator()(Depth depth)
  {
#pragma unroll (depth.whole ? T.bk : 1)
    for (int i = 0; i < T.bk; i += stride) {
      const float* const first = source + (clamp(row + i, depth) - row) * ldb;
      float four[4];
      if constexpr (depth.whole) {
        load_fragment<4>(four, first);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) four[j] = first[col + j < cols ? j : 0];
      }
      float4& target = *reinterpret_cast<float4*>(&tile[row + i][col]);
      target = {four[0], four[1], four[2], four[3]};
    }
    source += T.bk * ldb;
  }
};

// Four neighbouring floats at a time: by one 128-bit instruction where that is legal.
#pragma once

#include "lib/block.cuh"
#include "lib/depth.cuh"
#include "lib/epilogue.cuh"
#include "lib/types.cuh"

// Whether each row of a matrix starts at a multiple of 16 bytes.
__device__ inline bool aligned16(const float* matrix, int64 ld)
{
  return reinterpret_cast<unsigned long long>(matrix) % 16 == 0 && ld % 4 == 0;
}

// Whether a block can read whole tiles of A and B by 128-bit instructions: all rows are aligned,
// and no four columns of B lie across its edge (along k, a whole tile ends before the edge).
template <Tile T>
__device__ bool vectorizable(const float* a, int64 lda, const float* b, int64 ldb, int n,
                             const Block& block)
{
  return aligned16(a, lda) && aligned16(b, ldb) && (n % 4 == 0 || block.cols >= T.bn);
}

// Elements col .. col + 3 of a row of which `cols` lie inside the matrix.
template <bool vector, class Cols>
__device__ float4 load4(const float* row, int col, Cols cols)
{
  if constexpr (vector) {
    return *reinterpret_cast<const float4*>(row + (within(col, cols) ? col : 0));
  } else {
    return {row[clamp(col, cols)], row[clamp(col + 1, cols)], row[clamp(col + 2, cols)],
            row[clamp(col + 3, cols)]};
  }
}

// As stage() in lib/stage.cuh, but a thread copies four neighbours of a row at a time: it calls
// put(row, column of the first, the four).
template <int threads, int R, int C, bool vector, class Rows, class Cols, class Put>
__device__ void stage4(const float* source, int64 ld, Rows rows, Cols cols, unsigned tid,
                       Put put)
{
  constexpr int stride = threads / (C / 4);  // rows that the block copies at a time
  static_assert(C % 4 == 0 && threads % (C / 4) == 0 && R % stride == 0,
                "the block must copy whole rows, evenly, four floats a thread");
  const int row = tid / (C / 4);
  const int col = tid % (C / 4) * 4;
  source += clamp(row, rows) * ld;
#pragma unroll (vector ? R : 1)
  for (int i = 0; i < R; i += stride) {
    put(row + i, col, load4<vector>(source + (within(row + i, rows) ? i * ld : 0), col, cols));
  }
}

// The tile of A goes to shared memory transposed, so that the neighbouring rows of a fragment are
// neighbours there too.
template <Tile T, class Depth>
__device__ void stage_a4(float (&tile)[T.bk][T.bm + T.pad], const float* source, int64 ld,
                         int rows, Depth depth, unsigned tid)
{
  const auto put = [&](int r, int c, float4 four) {
    tile[c][r] = four.x;
    tile[c + 1][r] = four.y;
    tile[c + 2][r] = four.z;
    tile[c + 3][r] = four.w;
  };
  stage4<T.threads(), T.bm, T.bk, Depth::whole>(source, ld, rows, depth, tid, put);
}

template <Tile T, class Depth>
__device__ void stage_b4(float (&tile)[T.bk][T.bn], const float* source, int64 ld, Depth depth,
                         int cols, unsigned tid)
{
  const auto put = [&](int r, int c, float4 four) {
    *reinterpret_cast<float4*>(&tile[r][c]) = four;
  };
  stage4<T.threads(), T.bk, T.bn, Depth::whole>(source, ld, depth, cols, tid, put);
}

// As write() in lib/epilogue.cuh, for those of four neighbours that are among the first `cols`.
__device__ inline void write4(float* c, float alpha, const float* acc, float beta, int cols,
                              bool aligned)
{
  if (aligned && cols >= 4) {
    float4* const four = reinterpret_cast<float4*>(c);
    const float4 old = beta != 0.0f ? *four : float4{};
    *four = {blend(alpha, acc[0], beta, old.x), blend(alpha, acc[1], beta, old.y),
             blend(alpha, acc[2], beta, old.z), blend(alpha, acc[3], beta, old.w)};
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j < cols) write(c + j, alpha, acc[j], beta);
    }
  }
}

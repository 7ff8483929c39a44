// Four neighbouring floats at a time: by one 128-bit instruction where that is legal.
#pragma once

#include "lib/block.cuh"
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

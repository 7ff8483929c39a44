// The epilogue: C = alpha * acc + beta * C, rounded in the same way by every kernel.
#pragma once

// One multiply and one fused multiply-add, also where beta is 0.
__device__ inline float blend(float alpha, float acc, float beta, float old)
{
  return fmaf(alpha, acc, beta * old);
}

// NOTE: with beta = 0 the old C is not read, since it may be NaN or never have been written.
__device__ inline void write(float* c, float alpha, float acc, float beta)
{
  const float old = beta != 0.0f ? *c : 0.0f;
  *c = blend(alpha, acc, beta, old);
}

// Calls write_row(i, row i of acc) for each row of a register tile, all from one copy of the code.
// Registers have no run-time index, so the rows move up by one each time: moves are cheap, while a
// copy of the code for each row would be larger than the main loop.
template <int M, int N, class WriteRow>
__device__ void for_each_row(float (&acc)[M][N], WriteRow write_row)
{
#pragma unroll 1
  for (int i = 0; i < M; ++i) {
    write_row(i, acc[0]);
#pragma unroll
    for (int next = 1; next < M; ++next) {
#pragma unroll
      for (int j = 0; j < N; ++j) acc[next - 1][j] = acc[next][j];
    }
  }
}

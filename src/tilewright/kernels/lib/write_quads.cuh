// The epilogue of kernels whose threads have 4x4 quads: D = alpha * acc + beta * C, four neighbours
// of a row at a time.
#pragma once

#include "lib/epilogue.cuh"
#include "lib/product.cuh"
#include "lib/vector.cuh"

// Writes four neighbours of a row, the first at (m, n), as far as they lie in the matrix.
__device__ inline void write_quad(const float (&acc)[4], const Product& p, int64 batch, int64 m,
                                  int64 n)
{
  if (m >= p.m) return;
  const bool vectors = aligned16(p.d, p.d_row) && p.d_batch % 4 == 0 && p.d_col == 1;
  const float* const c = p.c + batch * p.c_batch + m * p.c_row + n * p.c_col;
  float* const d = p.d + batch * p.d_batch + m * p.d_row + n * p.d_col;
  float out[4];
#pragma unroll
  for (int x = 0; x < 4; ++x) {
    const bool read = p.beta != 0.0f && n + x < p.n;  // beta = 0 never reads C
    out[x] = blend(p.alpha, acc[x], p.beta, read ? c[x * p.c_col] : 0.0f);
  }
  if (vectors && n + 4 <= p.n) {
    *reinterpret_cast<float4*>(d) = {out[0], out[1], out[2], out[3]};
  } else {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      if (n + x < p.n) d[x * p.d_col] = out[x];
    }
  }
}

// How far output `i` of a thread along m, or n, is from its first: quads of neighbours, the next
// one 4 * lanes further.
template <int lanes>
__device__ constexpr int in_quads(int i)
{
  return i / 4 * 4 * lanes + i % 4;
}

// What write_quads does where C is not read and all quads are whole and aligned, in a fifth of the
// code: outputs go to `line` and the lines behind it, as far as there are `lines`.
template <int lanes_m, int lanes_n, int M, int N>
__device__ __forceinline__ void store_quads(const float (&acc)[M][N], float alpha, float* line,
                                            int64 ld, int lines)
{
  const auto scaled = [=](float sum) { return blend(alpha, sum, 0.0f, 0.0f); };
  // NOTE: NVVM makes four stores of some that are written in C++.
  const auto store = [](float* to, float a, float b, float c, float d) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "f"(a), "f"(b), "f"(c), "f"(d)
                 : "memory");
  };
  const int64 to_next_quad = (4 * lanes_m - 3) * ld;
#pragma unroll
  for (int i = 0; i < M; ++i) {
    if (i > 0) line += i % 4 ? ld : to_next_quad;
    if (in_quads<lanes_m>(i) >= lines) return;
#pragma unroll
    for (int j = 0; j < N; j += 4) {
      store(line + j * lanes_n, scaled(acc[i][j]), scaled(acc[i][j + 1]), scaled(acc[i][j + 2]),
            scaled(acc[i][j + 3]));
    }
  }
}

// Writes the outputs of a thread, in quads, whose first is at (row, col).
template <int lanes_m, int lanes_n, int M, int N>
__device__ void write_quads(const float (&acc)[M][N], const Product& p, int64 batch, int64 row,
                            int64 col)
{
  const bool vectors = aligned16(p.d, p.d_row) && p.d_batch % 4 == 0 && p.d_col == 1;
  if (vectors && p.beta == 0.0f && col + in_quads<lanes_n>(N - 4) + 4 <= p.n) {
    float* const line = p.d + batch * p.d_batch + row * p.d_row + col;
    return store_quads<lanes_m, lanes_n>(acc, p.alpha, line, p.d_row, static_cast<int>(p.m - row));
  }
#pragma unroll
  for (int i = 0; i < M; ++i) {
#pragma unroll
    for (int j = 0; j < N; j += 4) {
      const float quad[4] = {acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]};
      write_quad(quad, p, batch, row + in_quads<lanes_m>(i), col + in_quads<lanes_n>(j));
    }
  }
}

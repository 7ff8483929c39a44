// Fragments of tiles in shared memory: what a thread holds of A, or of B, for the next products.
//
// A fragment has `count` values for each step of k, in quads of neighbours along the tile's width,
// `lanes` quads from one to the next. at(i, k) is one of them. While the products of a step are
// computed, the values of the next one are loaded: `ahead` of those products, or `behind` them
// where they take the registers of values used until then. Addresses are those of the thread's
// first value in the tile, in shared memory.
#pragma once

#include "lib/fragment.cuh"

// Of a tile [k][ld], `ld` floats a step of k: a 128-bit load has four neighbours of one step.
template <int count, int lanes, int ld>
struct ColumnFragment {
  static constexpr int next = 1;  // floats from one to its neighbour

  float values[2][count];  // of even steps, of odd ones

  __device__ __forceinline__ float at(int i, int k) const { return values[k % 2][i]; }

  __device__ __forceinline__ void ahead(unsigned tile, int k)
  {
    load_quads<count, 4 * lanes>(values[k % 2], tile + 4 * k * ld);
  }

  __device__ __forceinline__ void behind(unsigned, int) {}
};

// Of a tile of rows along k, `ld` floats from a row to the fourth behind it (lib/row_copy.cuh): a
// 128-bit load has four steps of one row.
template <int count, int lanes, int ld>
struct RowFragment {
  static constexpr int next = ld / 4;
  static constexpr int depth = (ld - 4) / 4;

  float values[count][4];

  __device__ __forceinline__ float at(int i, int k) const { return values[i][k % 4]; }

  __device__ __forceinline__ void ahead(unsigned, int) {}

  __device__ __forceinline__ void behind(unsigned tile, int k)
  {
    if (k % 4 != 0) return;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      load_quads<4, 0>(values[i], tile + 4 * (i / 4 * lanes * ld + i % 4 * depth + k));
    }
  }
};

// One step along k: M + N values of two fragments give M * N multiply-adds.
template <int M, int N, class A, class B>
__device__ __forceinline__ void multiply_add(float (&acc)[M][N], const A& a, const B& b, int k)
{
#pragma unroll
  for (int i = 0; i < M; ++i) {
#pragma unroll
    for (int j = 0; j < N; ++j) acc[i][j] = fmaf(a.at(i, k), b.at(j, k), acc[i][j]);
  }
}

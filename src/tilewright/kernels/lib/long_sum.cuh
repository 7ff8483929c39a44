// Long sums in double: of short float sums, so that few products are converted. What is rounded on
// the way is four products at a time, and the result once.
//
// Only GPUs with a double unit for every two float units have the time: compute capability 8.0, 9.0
// and 10.0. Elsewhere, and where a kernel does not ask for it, sums are float.
#pragma once

#include "lib/narrow.cuh"

#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
constexpr bool fast_double = true;
#else
constexpr bool fast_double = false;
#endif

template <bool in_double>
struct LongSum {
  using Type = float;
};

template <>
struct LongSum<true> {
  using Type = double;
};

// Four steps along k of one row of a thread's outputs.
template <int count>
__device__ void add_products(float* acc, const float4& a, const float (&b)[4][count])
{
  multiply(acc, a, b);
}

template <int count>
__device__ void add_products(double* acc, const float4& a, const float (&b)[4][count])
{
  float four[count] = {};
  multiply(four, a, b);
#pragma unroll
  for (int c = 0; c < count; ++c) acc[c] += four[c];
}

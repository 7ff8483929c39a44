// Long sums in double: of short float sums, so that few products are converted. What is rounded on
// the way is a few products at a time, and the result once.
//
// Only GPUs with a double unit for every two float units have the time: compute capability 8.0, 9.0
// and 10.0. Elsewhere, and where a kernel does not ask for it, sums are float.
#pragma once

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

// The type that sums are kept in until they are complete, for kernels that wait for memory anyway.
//
// In double a product of floats is exact, and a sum of them, rounded to float once at its end, is the
// float nearest to the exact sum but for very few: no float has a smaller error. Only GPUs with a
// double unit for every two to four float units have the time: compute capability 8.0, 9.0, 10.0.
#pragma once

#if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000
using LongSum = double;
#else
using LongSum = float;
#endif

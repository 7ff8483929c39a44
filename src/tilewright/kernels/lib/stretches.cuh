// Long sums cut into stretches: the error of a float32 sum grows with how many products are added
// one after another, so a block adds up to 528 of them in registers, and the sums of such stretches
// in shared memory (docs/gemm.md has what that gains and costs).
#pragma once

// A multiple of every bk, and somewhat more than 512: so is many a k than its power of two.
constexpr int stretch = 528;

// Whether the sums find room: for blocks of so many outputs and bytes beside them, on one SM.
constexpr bool sums_fit(int blocks, int outputs, int bytes)
{
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
  constexpr int shared = 228 * 1024, reserved = 1024;  // of an SM, and in each block
  return blocks * (4 * outputs + bytes + reserved) <= shared;
#else
  return false;
#endif
}

// How many of `left` steps are left behind the next stretch; with stretches of 0 steps there is but
// one. They are counted from the end of k, so that they are the same whatever bk is.
template <int steps>
__device__ __forceinline__ int end_of_stretch(int left)
{
  if constexpr (steps == 0) {
    return 0;
  } else {
    return (left - 1) / steps * steps;
  }
}

// A thread keeps its sums in quads, [quad][thread] from `kept` on, a shared address of 16 bytes'
// alignment. The order within four is that of lib/splits.cuh.
template <int threads, int count>
__device__ __forceinline__ void keep_sums(float (&sums)[count], unsigned kept)
{
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    asm volatile("st.shared.v4.f32 [%4], {%0, %1, %2, %3};" ::"f"(sums[i + 1]), "f"(sums[i]),
                 "f"(sums[i + 3]), "f"(sums[i + 2]), "r"(kept + 4 * i * threads));
    sums[i] = sums[i + 1] = sums[i + 2] = sums[i + 3] = 0.0f;
  }
}

template <int threads, int count>
__device__ __forceinline__ void add_kept(float (&sums)[count], unsigned kept)
{
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    float four[4];
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four[0]), "=f"(four[1]), "=f"(four[2]), "=f"(four[3])
                 : "r"(kept + 4 * i * threads));
    sums[i + 1] += four[0];
    sums[i] += four[1];
    sums[i + 3] += four[2];
    sums[i + 2] += four[3];
  }
}

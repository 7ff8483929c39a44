// Values that the compiler keeps in registers.
#pragma once

#include "lib/types.cuh"

// Returns `value` in a way that the compiler cannot see through: it then holds it in a register,
// where otherwise it might compute it again in every step of the main loop to save one.
__device__ __forceinline__ unsigned keep(unsigned value)
{
  asm volatile("" : "+r"(value));
  return value;
}

__device__ __forceinline__ int64 keep(int64 value)
{
  asm volatile("" : "+l"(value));
  return value;
}

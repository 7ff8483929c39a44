// Values that the compiler takes as they come: where it keeps them and when it computes them.
#pragma once

// Returns `value` in a way that the compiler cannot see through: what follows from it behind a loop
// is computed there, instead of being held in registers through it.
__device__ __forceinline__ int anew(int value)
{
  asm volatile("" : "+r"(value));
  return value;
}

// Returns `value` in a way that not even ptxas can see through: it must hold it in a register,
// where otherwise it might compute it again in every step of the main loop. For whole warps.
// NOTE: of no use for what is the same in a whole warp: ptxas leaves such a shuffle out.
__device__ __forceinline__ unsigned keep(unsigned value)
{
  unsigned kept;
  asm volatile("{.reg .b32 lane; mov.u32 lane, %%laneid;"
               " shfl.sync.idx.b32 %0, %1, lane, 31, -1;}"
               : "=r"(kept)
               : "r"(value));
  return kept;
}

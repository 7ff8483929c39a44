// Reads of data that is used once: around L1, which so keeps what is used again.
//
// Where `inside` does not hold, nothing is read and the result is 0. The predicate is on the load
// itself: many of them are issued one after another, with no jump in between.
#pragma once

__device__ __forceinline__ float4 stream4(const float* source, bool inside)
{
  float4 four;
  asm("{.reg .pred inside; setp.ne.s32 inside, %5, 0;"
      " mov.f32 %0, 0f00000000; mov.f32 %1, 0f00000000;"
      " mov.f32 %2, 0f00000000; mov.f32 %3, 0f00000000;"
      " @inside ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];}"
      : "=&f"(four.x), "=&f"(four.y), "=&f"(four.z), "=&f"(four.w)
      : "l"(__cvta_generic_to_global(source)), "r"(int{inside}));
  return four;
}

__device__ __forceinline__ float stream1(const float* source, bool inside)
{
  float one;
  asm("{.reg .pred inside; setp.ne.s32 inside, %2, 0;"
      " mov.f32 %0, 0f00000000;"
      " @inside ld.global.nc.L1::no_allocate.f32 %0, [%1];}"
      : "=&f"(one)
      : "l"(__cvta_generic_to_global(source)), "r"(int{inside}));
  return one;
}

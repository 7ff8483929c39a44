// Copies from global to shared memory that go on while the thread computes (cp.async).
//
// A thread's copies since its last commit are a group. wait_copies<N>() waits for all groups but
// the N newest, and only for the thread's own: others see the data after a barrier of the block
// behind it. Until then neither side of a copy may be touched.
//
// NOTE: sm_75 has no cp.async: there a copy is a load and a store, done when it is issued, and the
// other two do nothing. That is right wherever the asynchronous copy is, and hides no latency.
#pragma once

// The address of shared memory as these copies take it: bytes from the start of the window.
__device__ __forceinline__ unsigned shared_address(const void* shared)
{
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Copy `bytes` (4, 8 or 16; both addresses multiples of it), the first `valid` from global memory
// and zeros behind them: 0 reads nothing. 16 bytes go around L1, which keeps it for other data.
template <int bytes>
__device__ __forceinline__ void copy_async(unsigned shared, const void* global, int valid = bytes)
{
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
#if __CUDA_ARCH__ >= 800
  const auto from = __cvta_generic_to_global(global);
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                 "r"(valid)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from),
                 "n"(bytes), "r"(valid)
                 : "memory");
  }
#else
  struct alignas(bytes) Piece {
    unsigned words[bytes / 4];
  } piece{};
  if (valid == bytes) {
    piece = *static_cast<const Piece*>(global);
  } else {
    for (int i = 0; i < valid; ++i) {
      reinterpret_cast<char*>(&piece)[i] = static_cast<const char*>(global)[i];
    }
  }
  *static_cast<Piece*>(__cvta_shared_to_generic(shared)) = piece;
#endif
}

template <int bytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global, int valid = bytes)
{
  copy_async<bytes>(shared_address(shared), global, valid);
}

// Copy all `bytes` where `when` holds: a predicate on the copy, no jump over it.
template <int bytes>
__device__ __forceinline__ void copy_async_if(bool when, unsigned shared, const void* global)
{
#if __CUDA_ARCH__ >= 800
  const auto from = __cvta_generic_to_global(global);
  if constexpr (bytes == 16) {
    asm volatile(
        "{.reg .pred when; setp.ne.s32 when, %2, 0;"
        " @when cp.async.cg.shared.global [%0], [%1], 16;}" ::"r"(shared),
        "l"(from), "r"(int{when})
        : "memory");
  } else {
    asm volatile(
        "{.reg .pred when; setp.ne.s32 when, %2, 0;"
        " @when cp.async.ca.shared.global [%0], [%1], %3;}" ::"r"(shared),
        "l"(from), "r"(int{when}), "n"(bytes)
        : "memory");
  }
#else
  if (when) copy_async<bytes>(shared, global);
#endif
}

// End a group: the thread's copies since the last one.
__device__ __forceinline__ void commit_copies()
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Wait for the thread's groups of copies but for its `pending` newest.
template <int pending>
__device__ __forceinline__ void wait_copies()
{
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

// LDGSTS: cp.async of 4, 8 and 16 bytes a lane. The table places one side, the other is dense.
#include "pattern.cuh"

template <int bytes, bool through_l1>
__device__ __forceinline__ void copy(unsigned to, const char* from) {
    if constexpr (bytes == 16 && !through_l1) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                     :: "r"(to), "l"(from), "n"(bytes) : "memory");
    }
}

template <int bytes, bool through_l1, bool table_is_shared>
__global__ void async_copy(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                           unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    __shared__ __align__(1024) unsigned words[8192];
    if (!takes_part(mask)) return;
    const unsigned placed = start + lane_index(t0, t1, t2, t3) * unit, dense = threadIdx.x * bytes;
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(words)) +
                        (table_is_shared ? placed : dense);
    const char* from = reinterpret_cast<const char*>(__cvta_generic_to_global(data)) +
                       (table_is_shared ? dense : placed);
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) copy<bytes, through_l1>(to + i * step, from + i * step);
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// LDS and STS of 4, 8 and 16 bytes a lane.
#include "pattern.cuh"

template <int bytes>
__device__ __forceinline__ unsigned load(unsigned at) {
    unsigned x, y = 0, z = 0, w = 0;
    if constexpr (bytes == 4) {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
    } else if constexpr (bytes == 8) {
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(at) : "memory");
    } else {
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(at) : "memory");
    }
    return x ^ y ^ z ^ w;
}

template <int bytes>
__device__ __forceinline__ void store(unsigned at, unsigned x) {
    if constexpr (bytes == 4) {
        asm volatile("st.shared.u32 [%0], %1;" :: "r"(at), "r"(x) : "memory");
    } else if constexpr (bytes == 8) {
        asm volatile("st.shared.v2.u32 [%0], {%1, %1};" :: "r"(at), "r"(x) : "memory");
    } else {
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" :: "r"(at), "r"(x) : "memory");
    }
}

__device__ __forceinline__ unsigned base() {
    __shared__ __align__(1024) unsigned words[8192];
    return static_cast<unsigned>(__cvta_generic_to_shared(words));
}

template <int bytes>
__global__ void shared_load(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                            unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    if (!takes_part(mask)) return;
    const unsigned at = base() + start + lane_index(t0, t1, t2, t3) * unit;
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) sum ^= load<bytes>(at + i * step);
    keep(sum, step, sink);
}

template <int bytes>
__global__ void shared_store(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                             unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    if (!takes_part(mask)) return;
    const unsigned at = base() + start + lane_index(t0, t1, t2, t3) * unit;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) store<bytes>(at + i * step, threadIdx.x + i);
}

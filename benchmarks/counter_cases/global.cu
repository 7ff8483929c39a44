// LDG and STG of 4, 8 and 16 bytes a lane.
#include "pattern.cuh"

template <int bytes>
__device__ __forceinline__ unsigned load(const char* at) {
    unsigned x, y = 0, z = 0, w = 0;
    if constexpr (bytes == 4) {
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
    } else if constexpr (bytes == 8) {
        asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "l"(at) : "memory");
    } else {
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(at) : "memory");
    }
    return x ^ y ^ z ^ w;
}

template <int bytes>
__device__ __forceinline__ void store(char* at, unsigned x) {
    if constexpr (bytes == 4) {
        asm volatile("st.global.u32 [%0], %1;" :: "l"(at), "r"(x) : "memory");
    } else if constexpr (bytes == 8) {
        asm volatile("st.global.v2.u32 [%0], {%1, %1};" :: "l"(at), "r"(x) : "memory");
    } else {
        asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" :: "l"(at), "r"(x) : "memory");
    }
}

__device__ __forceinline__ char* global_address(unsigned* data) {
    return reinterpret_cast<char*>(__cvta_generic_to_global(data));
}

template <int bytes>
__global__ void global_load(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                            unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    if (!takes_part(mask)) return;
    const char* at = global_address(data) + start + lane_index(t0, t1, t2, t3) * unit;
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) sum ^= load<bytes>(at + i * step);
    keep(sum, step, sink);
}

template <int bytes>
__global__ void global_store(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                             unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    if (!takes_part(mask)) return;
    char* at = global_address(data) + start + lane_index(t0, t1, t2, t3) * unit;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) store<bytes>(at + i * step, threadIdx.x + i);
}

// LDSM and STSM: 8x8 matrices of 16-bit elements, a row of 16 bytes at each lane's address.
#include "pattern.cuh"

template <int matrices, bool transposed>
__device__ __forceinline__ unsigned load(unsigned at) {
    unsigned x, y = 0, z = 0, w = 0;
#define LOAD(N, TRANS, REGISTERS, PLACE) \
    "ldmatrix.sync.aligned.m8n8.x" #N TRANS ".shared.b16 {" REGISTERS "}, [" PLACE "];"
    if constexpr (matrices == 1 && transposed) {
        asm volatile(LOAD(1, ".trans", "%0", "%1") : "=r"(x) : "r"(at) : "memory");
    } else if constexpr (matrices == 1) {
        asm volatile(LOAD(1, "", "%0", "%1") : "=r"(x) : "r"(at) : "memory");
    } else if constexpr (matrices == 2 && transposed) {
        asm volatile(LOAD(2, ".trans", "%0, %1", "%2") : "=r"(x), "=r"(y) : "r"(at) : "memory");
    } else if constexpr (matrices == 2) {
        asm volatile(LOAD(2, "", "%0, %1", "%2") : "=r"(x), "=r"(y) : "r"(at) : "memory");
    } else if constexpr (transposed) {
        asm volatile(LOAD(4, ".trans", "%0, %1, %2, %3", "%4")
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(at) : "memory");
    } else {
        asm volatile(LOAD(4, "", "%0, %1, %2, %3", "%4")
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(at) : "memory");
    }
#undef LOAD
    return x ^ y ^ z ^ w;
}

template <int matrices>
__device__ __forceinline__ void store(unsigned at, unsigned x) {
    if constexpr (matrices == 1) {
        asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};"
                     :: "r"(at), "r"(x) : "memory");
    } else if constexpr (matrices == 2) {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %1};"
                     :: "r"(at), "r"(x) : "memory");
    } else {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %1, %1, %1};"
                     :: "r"(at), "r"(x) : "memory");
    }
}

__device__ __forceinline__ unsigned base() {
    __shared__ __align__(1024) unsigned words[8192];
    return static_cast<unsigned>(__cvta_generic_to_shared(words));
}

template <int matrices, bool transposed>
__global__ void matrix_load(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                            unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    const unsigned at = base() + start + lane_index(t0, t1, t2, t3) * unit;
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) sum ^= load<matrices, transposed>(at + i * step);
    keep(sum, step, sink);
}

template <int matrices>
__global__ void matrix_store(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                             unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    const unsigned at = base() + start + lane_index(t0, t1, t2, t3) * unit;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) store<matrices>(at + i * step, threadIdx.x + i);
}

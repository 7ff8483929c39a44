// Additions to shared and global memory: ATOMS, ATOMG (the old value comes back) and RED.
#include "pattern.cuh"

__device__ __forceinline__ char* global_address(unsigned* data) {
    return reinterpret_cast<char*>(__cvta_generic_to_global(data));
}

__global__ void shared_atomic(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                              unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    __shared__ __align__(1024) unsigned words[8192];
    if (!takes_part(mask)) return;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(words)) + start +
                        lane_index(t0, t1, t2, t3) * unit;
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) {
        unsigned old;
        asm volatile("atom.shared.add.u32 %0, [%1], %2;"
                     : "=r"(old) : "r"(at + i * step), "r"(threadIdx.x + i) : "memory");
        sum ^= old;
    }
    keep(sum, step, sink);
}

__global__ void shared_reduce(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                              unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    __shared__ __align__(1024) unsigned words[8192];
    if (!takes_part(mask)) return;
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(words)) + start +
                        lane_index(t0, t1, t2, t3) * unit;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i)
        asm volatile("red.shared.add.u32 [%0], %1;"
                     :: "r"(at + i * step), "r"(threadIdx.x + i) : "memory");
}

__global__ void global_atomic(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                              unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    if (!takes_part(mask)) return;
    char* at = global_address(data) + start + lane_index(t0, t1, t2, t3) * unit;
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) {
        unsigned old;
        asm volatile("atom.global.add.u32 %0, [%1], %2;"
                     : "=r"(old) : "l"(at + i * step), "r"(threadIdx.x + i) : "memory");
        sum ^= old;
    }
    keep(sum, step, sink);
}

template <bool real>
__global__ void global_reduce(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                              unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    if (!takes_part(mask)) return;
    char* at = global_address(data) + start + lane_index(t0, t1, t2, t3) * unit;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) {
        if constexpr (real) {
            asm volatile("red.global.add.f32 [%0], %1;"
                         :: "l"(at + i * step), "f"(1.0f + i) : "memory");
        } else {
            asm volatile("red.global.add.u32 [%0], %1;"
                         :: "l"(at + i * step), "r"(threadIdx.x + i) : "memory");
        }
    }
}

// cp.async whose two sides differ: the table places the source, `Target` the target, `Zeros` says
// which lanes read nothing and write zeros.
#include "pattern.cuh"

enum Target {
    DENSE,
    TRANSPOSED,  // from eight rows of four to four rows of eight
    PLACED,      // as the source: both sides conflict
    REVERSED,    // dense, the last lane first
    STRIDED,     // every other place
};
enum Zeros { NONE, ODD, ALL, LOW, LAST };  // LOW: the first half warp

template <int bytes, bool through_l1>
__device__ __forceinline__ void copy(unsigned to, const char* from, unsigned valid) {
    if constexpr (bytes == 16 && !through_l1) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(to), "l"(from), "r"(valid) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(to), "l"(from), "n"(bytes), "r"(valid) : "memory");
    }
}

__device__ __forceinline__ unsigned target_index(int target, unsigned lane) {
    if (target == TRANSPOSED) return lane % 4 * 8 + lane / 4;
    if (target == STRIDED) return 2 * lane;
    return target == REVERSED ? 31 - lane : lane;
}

__device__ __forceinline__ bool is_empty(int zeros, unsigned lane, unsigned step) {
    // No launch has this step, so that ALL is true of all lanes; the compiler cannot know.
    if (zeros == ALL) return step != 0xffffffff;
    if (zeros == LOW) return lane < 16;
    return zeros == ODD ? lane % 2 == 1 : zeros == LAST && lane == 31;
}

template <int bytes, bool through_l1, int target, int zeros>
__global__ void copy_between(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                             unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    __shared__ __align__(1024) unsigned words[8192];
    if (!takes_part(mask)) return;
    const unsigned lane = threadIdx.x, placed = lane_index(t0, t1, t2, t3) * unit;
    const unsigned there = target == PLACED ? placed : target_index(target, lane) * bytes;
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(words)) + there;
    const char* from = reinterpret_cast<const char*>(__cvta_generic_to_global(data)) + start + placed;
    const unsigned valid = is_empty(zeros, lane, step) ? 0 : bytes;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) copy<bytes, through_l1>(to + i * step, from + i * step, valid);
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// What all of these kernels share: one warp makes REPEATS accesses whose addresses are data.
//
// A lane's offset is its index, one byte of a table of 32 that comes in four parameters (so that no
// other memory access is counted), times `unit` bytes. Each repetition moves on by `step`, which the
// compiler cannot know, and so can neither join the accesses nor drop them; it is 0 in most cases.
#pragma once

constexpr int REPEATS = 16;

using u64 = unsigned long long;

// A lane takes part where its bit of `mask` is set.
__device__ __forceinline__ bool takes_part(unsigned mask) { return mask >> threadIdx.x & 1; }

__device__ __forceinline__ unsigned lane_index(u64 t0, u64 t1, u64 t2, u64 t3) {
    const unsigned lane = threadIdx.x;
    const u64 row = lane < 16 ? (lane < 8 ? t0 : t1) : (lane < 24 ? t2 : t3);
    return static_cast<unsigned>(row >> (8 * (lane % 8))) & 255;
}

// Uses what was loaded. No launch has this step, so that nothing is stored.
__device__ __forceinline__ void keep(unsigned sum, unsigned step, unsigned* sink) {
    if (step == 0xffffffff) sink[threadIdx.x] = sum;
}

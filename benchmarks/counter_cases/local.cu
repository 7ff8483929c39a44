// LDL and STL: an array a thread that is indexed at run time. Equal indices lie side by side.
#include "pattern.cuh"

__global__ void local_array(u64 t0, u64 t1, u64 t2, u64 t3, unsigned mask, unsigned unit,
                            unsigned start, unsigned step, unsigned* data, unsigned* sink) {
    if (!takes_part(mask)) return;
    volatile unsigned words[64];
    const unsigned first = start / 4 + lane_index(t0, t1, t2, t3) * unit / 4;
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) words[(first + i * step) % 64] = threadIdx.x + i;
#pragma unroll
    for (int i = 0; i < REPEATS; ++i) sum ^= words[(first + i * step) % 64];
    keep(sum, step, sink);
}

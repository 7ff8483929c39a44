// The production kernels' contract in its plainest form: a thread for each element of D.
// BREAK, a macro, makes it break one rule: what holds kernels to their contract must see it.
#pragma once

#include "lib/product.cuh"
#include "lib/tile.cuh"

#ifndef BREAK
#define BREAK 0
#endif

template <Tile T, Access X>
__global__ void plain(const __grid_constant__ Product p)
{
  const int col = blockIdx.x * T.bn + threadIdx.x % T.bn;
  const int row = blockIdx.y * T.bm + threadIdx.x / T.bn;
  if (row >= p.m || col >= p.n) return;
  for (int64 z = blockIdx.z; z < p.batch; z += gridDim.z) {
    const float* a = p.a + z * p.a_batch + row * p.a_row;
    const float* b = p.b + z * p.b_batch + col * p.b_col;
    float* d = p.d + z * p.d_batch + row * p.d_row + col * p.d_col;
    float sum = 0;
    for (int i = 0; i < p.k; ++i) sum += a[i * p.a_col] * b[i * p.b_row];
    sum *= p.alpha;
    if (p.beta != 0) sum += p.beta * p.c[z * p.c_batch + row * p.c_row + col * p.c_col];
    if (BREAK == 1) const_cast<float*>(a)[0] = 0;
    if (BREAK == 2 && p.d_row > p.n && row + 1 < p.m) d[p.d_row - col - 1] = 0;
    if (BREAK == 3) *p.arrivals = 1;
    if (BREAK == 4) sum += p.b[(p.k - 1) * p.b_row + p.n * p.b_col];
    if (BREAK == 5) {
      const float4 first = *reinterpret_cast<const float4*>(p.a);
      sum += 0 * (first.x + first.y + first.z + first.w);
    }
    *d = sum;
  }
}

// Sums of a vector, one a block: a loop over the grid, shuffles in each warp, then the warps' sums.

__device__ float sum_of_warp(float value)
{
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, offset);
  }
  return value;  // in lane 0
}

__global__ void block_reduction(const float* __restrict__ x, float* __restrict__ sums, int n)
{
  __shared__ float warp_sums[32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;

  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += x[i];
  }
  sum = sum_of_warp(sum);
  if (lane == 0) warp_sums[warp] = sum;
  __syncthreads();

  if (warp == 0) {
    sum = sum_of_warp(lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f);
    if (lane == 0) sums[blockIdx.x] = sum;
  }
}

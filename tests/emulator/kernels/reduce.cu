// Sums of a vector, one a block: shuffles inside a warp, then the warps' sums through shared memory.

__device__ float warp_sum(float x)
{
  for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(0xffffffff, x, step);
  return x;
}

__global__ void block_sum(const float* x, float* sums, int n)
{
  __shared__ float partial[32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += x[i];
  }
  sum = warp_sum(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    const int warps = (blockDim.x + 31) / 32;
    sum = warp_sum(lane < warps ? partial[lane] : 0.0f);
    if (lane == 0) sums[blockIdx.x] = sum;
  }
}

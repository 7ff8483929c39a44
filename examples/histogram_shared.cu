// A histogram of bytes: every block counts in shared memory, then adds its counts to the result.

constexpr int BINS = 256;

__global__ void histogram_shared(const unsigned char* __restrict__ values, unsigned* counts, int n)
{
  __shared__ unsigned local[BINS];
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) local[bin] = 0;
  __syncthreads();

  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&local[values[i]], 1u);
  }
  __syncthreads();

  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    if (local[bin] != 0) atomicAdd(&counts[bin], local[bin]);
  }
}

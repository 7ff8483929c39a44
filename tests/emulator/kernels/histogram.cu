// A histogram: lanes of a warp with the same bin add together, once, to a copy in shared memory;
// every block then adds its copy to the result.

constexpr int BINS = 64;

__global__ void histogram(const unsigned char* values, unsigned* bins, int n)
{
  __shared__ unsigned local[BINS];
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) local[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const unsigned here = __activemask();
    const int bin = values[i] % BINS;
    const unsigned peers = __match_any_sync(here, bin);
    const int lane = threadIdx.x % 32;
    if (lane == __ffs(peers) - 1) atomicAdd(&local[bin], __popc(peers));
  }
  __syncthreads();
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) {
    if (local[b] != 0) atomicAdd(&bins[b], local[b]);
  }
}

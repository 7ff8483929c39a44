// A bitonic sort of one block's worth of keys in shared memory.

__global__ void bitonic_sort(unsigned* keys)
{
  extern __shared__ unsigned shared[];
  const unsigned t = threadIdx.x;
  shared[t] = keys[t];
  __syncthreads();
  for (unsigned size = 2; size <= blockDim.x; size *= 2) {
    for (unsigned step = size / 2; step > 0; step /= 2) {
      const unsigned other = t ^ step;
      if (other > t) {
        const bool ascending = (t & size) == 0;
        const unsigned a = shared[t];
        const unsigned b = shared[other];
        if ((a > b) == ascending) {
          shared[t] = b;
          shared[other] = a;
        }
      }
      __syncthreads();
    }
  }
  keys[t] = shared[t];
}

// Inclusive scans of one block: Kogge-Stone by shuffles, and Blelloch's up- and down-sweep.

__global__ void scan_shuffles(const int* x, int* y)
{
  __shared__ int sums[32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  int sum = x[threadIdx.x];
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(0xffffffff, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    int total = lane < blockDim.x / 32 ? sums[lane] : 0;
    for (int step = 1; step < 32; step *= 2) {
      const int before = __shfl_up_sync(0xffffffff, total, step);
      if (lane >= step) total += before;
    }
    sums[lane] = total;
  }
  __syncthreads();
  y[threadIdx.x] = sum + (warp > 0 ? sums[warp - 1] : 0);
}

__global__ void scan_blelloch(const int* x, int* y)
{
  extern __shared__ int tree[];
  const int n = 2 * blockDim.x;
  const int t = threadIdx.x;
  tree[2 * t] = x[2 * t];
  tree[2 * t + 1] = x[2 * t + 1];
  int step = 1;
  for (int pairs = n / 2; pairs > 0; pairs /= 2, step *= 2) {
    __syncthreads();
    if (t < pairs) tree[step * (2 * t + 2) - 1] += tree[step * (2 * t + 1) - 1];
  }
  __syncthreads();
  if (t == 0) tree[n - 1] = 0;
  for (int pairs = 1; pairs < n; pairs *= 2) {
    step /= 2;
    __syncthreads();
    if (t < pairs) {
      const int left = tree[step * (2 * t + 1) - 1];
      tree[step * (2 * t + 1) - 1] = tree[step * (2 * t + 2) - 1];
      tree[step * (2 * t + 2) - 1] += left;
    }
  }
  __syncthreads();
  y[2 * t] = tree[2 * t] + x[2 * t];
  y[2 * t + 1] = tree[2 * t + 1] + x[2 * t + 1];
}

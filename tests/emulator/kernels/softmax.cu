// Softmax of each row, one block a row, in one pass: a running maximum and a sum that is rescaled
// whenever the maximum grows; threads' pairs are merged by shuffles, then in shared memory.

struct Pair {
  float max;
  float sum;
};

__device__ Pair merge(Pair a, Pair b)
{
  const float m = fmaxf(a.max, b.max);
  if (m == -__int_as_float(0x7f800000)) return {m, 0.0f};
  return {m, a.sum * expf(a.max - m) + b.sum * expf(b.max - m)};
}

__device__ Pair warp_merge(Pair p)
{
  for (int step = 16; step > 0; step /= 2) {
    const Pair other = {__shfl_xor_sync(0xffffffff, p.max, step),
                        __shfl_xor_sync(0xffffffff, p.sum, step)};
    p = merge(p, other);
  }
  return p;
}

__global__ void softmax(const float* x, float* y, int columns)
{
  __shared__ Pair warps[32];
  const float* row = x + static_cast<long long>(blockIdx.x) * columns;
  const Pair nothing = {-__int_as_float(0x7f800000), 0.0f};
  Pair mine = nothing;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) mine = merge(mine, {row[c], 1.0f});
  mine = warp_merge(mine);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = warp_merge(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : nothing);
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    y[static_cast<long long>(blockIdx.x) * columns + c] = expf(row[c] - mine.max) / mine.sum;
  }
}

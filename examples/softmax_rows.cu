// out = softmax of each row, one block a row: its largest value, the sum of powers, the quotients.

__device__ float over_block(float value, bool largest)
{
  __shared__ float partial[32];
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = largest ? fmaxf(value, other) : value + other;
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int warp = 1; warp < blockDim.x / 32; ++warp) {
    value = largest ? fmaxf(value, partial[warp]) : value + partial[warp];
  }
  __syncthreads();  // partial may be written again
  return value;
}

__global__ void softmax_rows(const float* __restrict__ in, float* __restrict__ out, int columns)
{
  const float* row_in = in + static_cast<long long>(blockIdx.x) * columns;
  float* row_out = out + static_cast<long long>(blockIdx.x) * columns;

  float largest = row_in[0];
  for (int c = threadIdx.x; c < columns; c += blockDim.x) largest = fmaxf(largest, row_in[c]);
  largest = over_block(largest, true);

  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) {
    const float power = __expf(row_in[c] - largest);
    row_out[c] = power;
    sum += power;
  }
  sum = over_block(sum, false);

  for (int c = threadIdx.x; c < columns; c += blockDim.x) row_out[c] /= sum;
}

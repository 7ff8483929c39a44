// Layer normalisation, one warp a row: out = (x - mean) / sqrt(variance + epsilon) * gain + bias.

__device__ float sum_of_warp(float value)
{
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;  // in every lane
}

__global__ void layernorm_rows(const float* __restrict__ x, const float* __restrict__ gain,
                               const float* __restrict__ bias, float* __restrict__ out, int rows,
                               int columns, float epsilon)
{
  const int lane = threadIdx.x % 32;
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;  // the whole warp
  x += row * columns;
  out += row * columns;

  float sum = 0.0f;
  for (int c = lane; c < columns; c += 32) sum += x[c];
  const float mean = sum_of_warp(sum) / columns;

  float squares = 0.0f;
  for (int c = lane; c < columns; c += 32) squares += (x[c] - mean) * (x[c] - mean);
  const float scale = rsqrtf(sum_of_warp(squares) / columns + epsilon);

  for (int c = lane; c < columns; c += 32) out[c] = (x[c] - mean) * scale * gain[c] + bias[c];
}

// y = A x, one thread a row of A: at every step the lanes of a warp read 32 different rows.

__global__ void matvec(const float* __restrict__ a, const float* __restrict__ x,
                       float* __restrict__ y, int rows, int columns)
{
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int c = 0; c < columns; ++c) sum += a[row * columns + c] * x[c];
  y[row] = sum;
}

// out = transpose of in, element by element: reads run along rows, writes run down columns.

__global__ void transpose_naive(const float* __restrict__ in, float* __restrict__ out, int rows,
                                int columns)
{
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && column < columns) out[column * rows + row] = in[row * columns + column];
}

// y = A x with A in compressed rows, one thread a row: neighbouring threads read far from each
// other, both in A and, by its column numbers, in x.

__global__ void spmv_csr(const int* __restrict__ row_starts, const int* __restrict__ columns,
                         const float* __restrict__ values, const float* __restrict__ x,
                         float* __restrict__ y, int rows)
{
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = row_starts[row]; i < row_starts[row + 1]; ++i) sum += values[i] * x[columns[i]];
  y[row] = sum;
}

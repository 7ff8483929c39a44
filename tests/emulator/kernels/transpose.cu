// B = transposed A through a tile in shared memory, whose rows are padded by one word so that its
// columns are free of bank conflicts. Blocks of 32 x 8 threads.

__global__ void transpose(const float* a, float* b, int rows, int columns)
{
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) {
    if (x < columns && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = a[(y + j) * columns + x];
  }
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) {
    if (x < rows && y + j < columns) b[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j];
  }
}

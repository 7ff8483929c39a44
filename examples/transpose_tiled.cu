// out = transpose of in through a tile of shared memory, so that reads and writes both run along
// rows. The tile's rows have one element more than they need: its columns lie in 32 banks.

constexpr int TILE = 32;
constexpr int ROWS = 8;  // of threads; each moves TILE / ROWS elements

__global__ void transpose_tiled(const float* __restrict__ in, float* __restrict__ out, int rows,
                                int columns)
{
  __shared__ float tile[TILE][TILE + 1];

  int column = blockIdx.x * TILE + threadIdx.x;
  int row = blockIdx.y * TILE + threadIdx.y;
  for (int step = 0; step < TILE; step += ROWS) {
    if (row + step < rows && column < columns) {
      tile[threadIdx.y + step][threadIdx.x] = in[(row + step) * columns + column];
    }
  }
  __syncthreads();

  column = blockIdx.y * TILE + threadIdx.x;  // of out, which has `rows` columns
  row = blockIdx.x * TILE + threadIdx.y;
  for (int step = 0; step < TILE; step += ROWS) {
    if (row + step < columns && column < rows) {
      out[(row + step) * rows + column] = tile[threadIdx.x][threadIdx.y + step];
    }
  }
}

// As transpose_tiled.cu, but the rows of the tile are not padded: a column of it lies in one bank,
// and a read along it takes 32 passes.

constexpr int TILE = 32;
constexpr int ROWS = 8;  // of threads; each moves TILE / ROWS elements

__global__ void transpose_unpadded(const float* __restrict__ in, float* __restrict__ out, int rows,
                                   int columns)
{
  __shared__ float tile[TILE][TILE];

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

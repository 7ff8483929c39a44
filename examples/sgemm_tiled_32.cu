// C = A B, the classic first tile: 32x32 threads stage 32x32 of A and of B in shared memory, and
// each sums one element of C. m, n and k are multiples of 32.

constexpr int TILE = 32;

__global__ void sgemm_tiled_32(const float* a, const float* b, float* c, int n, int k)
{
  __shared__ float tile_a[TILE][TILE];
  __shared__ float tile_b[TILE][TILE];
  const int column = blockIdx.x * TILE + threadIdx.x;
  const int row = blockIdx.y * TILE + threadIdx.y;

  float sum = 0.0f;
  for (int start = 0; start < k; start += TILE) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * k + start + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * n + column];
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

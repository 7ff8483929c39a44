// A 5-point stencil on a tile of 16 x 16 with a halo of one, in shared memory; zero outside.

__global__ void stencil(const float* in, float* out, int width, int height)
{
  __shared__ float tile[18][18];
  const int x0 = blockIdx.x * 16 - 1;
  const int y0 = blockIdx.y * 16 - 1;
  for (int i = threadIdx.y * 16 + threadIdx.x; i < 18 * 18; i += 256) {
    const int x = x0 + i % 18;
    const int y = y0 + i / 18;
    const bool inside = x >= 0 && x < width && y >= 0 && y < height;
    tile[i / 18][i % 18] = inside ? in[y * width + x] : 0.0f;
  }
  __syncthreads();
  const int tx = threadIdx.x + 1;
  const int ty = threadIdx.y + 1;
  const int x = x0 + tx;
  const int y = y0 + ty;
  if (x >= width || y >= height) return;
  const float around = tile[ty - 1][tx] + tile[ty + 1][tx] + tile[ty][tx - 1] + tile[ty][tx + 1];
  out[y * width + x] = 0.5f * tile[ty][tx] + 0.125f * around;
}

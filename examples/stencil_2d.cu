// One step of heat flow on a grid: each inner point moves towards the mean of its four neighbours.

__global__ void stencil_2d(const float* __restrict__ in, float* __restrict__ out, int height,
                           int width, float rate)
{
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const int here = y * width + x;
  const float centre = in[here];
  if (x == 0 || y == 0 || x == width - 1 || y == height - 1) {
    out[here] = centre;  // the rim keeps its temperature
    return;
  }
  const float around = in[here - 1] + in[here + 1] + in[here - width] + in[here + width];
  out[here] = centre + rate * (around - 4.0f * centre);
}

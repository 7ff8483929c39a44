// y = A x, one warp a row, four columns a load; columns must be a multiple of 4.

__global__ void matvec(const float4* a, const float4* x, float* y, int rows, int columns)
{
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns / 4; c += 32) {
    const float4 p = a[row * (columns / 4) + c];
    const float4 q = x[c];
    sum = fmaf(p.x, q.x, fmaf(p.y, q.y, fmaf(p.z, q.z, fmaf(p.w, q.w, sum))));
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (threadIdx.x == 0) y[row] = sum;
}

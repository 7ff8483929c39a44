// The same with CUDA's own header, where that is installed.
#include <cuda_fp16.h>

__global__ void half_axpy(float a, const half2* x, half2* y, int pairs)
{
  const half2 both = __float2half2_rn(a);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pairs) y[i] = __hfma2(both, x[i], y[i]);
}

// y = a x + y on pairs of float16. NVRTC alone has no cuda_fp16.h: the two instructions by hand.

__device__ unsigned fma2(unsigned a, unsigned b, unsigned c)
{
  unsigned d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

__global__ void half_axpy(float a, const unsigned* x, unsigned* y, int pairs)
{
  unsigned both;
  asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b32 %0, {h, h}; }" : "=r"(both) : "f"(a));
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < pairs) y[i] = fma2(both, x[i], y[i]);
}

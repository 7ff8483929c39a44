// Arithmetic that is not float32: double, 64-bit division, bits and votes.

__global__ void doubles(const double* x, double* y, int n)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double sum = 0.0;
  for (int k = 10; k >= 0; --k) sum = fma(sum, x[i], 1.0 / (k + 1));
  y[i] = sqrt(fabs(sum)) / (1.0 + x[i] * x[i]);
}

__global__ void divide(const long long* a, const long long* b, long long* quotient, long long* rest,
                       unsigned long long* high)
{
  const int i = threadIdx.x;
  quotient[i] = a[i] / b[i];
  rest[i] = a[i] % b[i];
  high[i] = __umul64hi(a[i], b[i]) + static_cast<unsigned long long>(a[i]) / 10u;
}

__global__ void bits(const unsigned* x, int* out)
{
  const int i = threadIdx.x;
  const unsigned v = x[i];
  const unsigned all = 0xffffffff;
  out[8 * i + 0] = __popc(v);
  out[8 * i + 1] = __clz(v);
  out[8 * i + 2] = __ffs(v);
  out[8 * i + 3] = __brev(v);
  out[8 * i + 4] = __ballot_sync(all, v & 1);
  out[8 * i + 5] = __match_any_sync(all, v & 7);
  out[8 * i + 6] = __any_sync(all, v == 0) + 2 * __all_sync(all, v != 0);
  out[8 * i + 7] = __shfl_sync(all, v, i + 3, 8);
}

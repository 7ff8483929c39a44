// Device functions that are really called: nested, twice over, with early returns and barriers.

struct Fraction {
  int over;
  int under;
};

__device__ __noinline__ int gcd(int a, int b)
{
  for (;;) {
    if (b == 0) return a;
    const int rest = a % b;
    a = b;
    b = rest;
  }
}

__device__ __noinline__ Fraction add(Fraction a, Fraction b)
{
  Fraction sum = {a.over * b.under + b.over * a.under, a.under * b.under};
  const int shared = gcd(sum.over, sum.under);
  return {sum.over / shared, sum.under / shared};
}

__device__ __noinline__ int rotated(int value)
{
  __shared__ int ring[64];
  ring[threadIdx.x] = value;
  __syncthreads();
  const int next = ring[(threadIdx.x + 1) % 64];
  __syncthreads();
  return next;
}

__global__ void harmonic(int* over, int* under, int* next)
{
  Fraction sum = {0, 1};
  for (int k = 1; k <= 1 + threadIdx.x % 10; ++k) sum = add(sum, {1, k});
  over[threadIdx.x] = sum.over;
  under[threadIdx.x] = sum.under;
  next[threadIdx.x] = rotated(rotated(threadIdx.x));
}

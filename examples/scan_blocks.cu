// Inclusive prefix sums of each stretch of 512 numbers (Hillis and Steele): in step s every thread
// adds what stands 2^s places before it. Two buffers take turns, so a step needs one barrier.

constexpr int BLOCK = 512;

__global__ void scan_blocks(const int* __restrict__ in, int* __restrict__ out, int n)
{
  __shared__ int buffer[2][BLOCK];
  const int t = threadIdx.x;
  const int i = blockIdx.x * BLOCK + t;

  int now = 0;
  buffer[now][t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int before = 1; before < BLOCK; before *= 2) {
    const int own = buffer[now][t];
    buffer[1 - now][t] = t >= before ? own + buffer[now][t - before] : own;
    now = 1 - now;
    __syncthreads();
  }
  if (i < n) out[i] = buffer[now][t];
}

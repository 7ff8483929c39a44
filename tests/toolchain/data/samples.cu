// Kernels that between them make NVRTC write most of what the PTX reader must read. The .ptx files
// beside this one are its output, so that the tests of the reader need no compiler.
struct Pair { float x; int n; double y; char tail[3]; };

__constant__ float weights[4] = {1.0f, 2.0f, -0.5f, 0.25f};
__device__ int counter = 7;
__device__ int* counter_address = &counter;
__device__ Pair origin = {1.5f, -2, 0.1, {'a', 'b', 'c'}};

__device__ __noinline__ float scaled(float a, Pair p, float* out) {
  *out = a;
  return a * p.x + p.n;
}

// Block reduction: shuffles in a warp, shared memory between warps, one atomic a block.
extern "C" __global__ void __launch_bounds__(256, 2) block_sum(const float* a, float* total, int n) {
  __shared__ float partial[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = i < n ? a[i] : 0.0f;
  for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
  for (int step = 16; step > 0; step >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x == 0) atomicAdd(total, sum);
}

// A loop in a loop, dynamic shared memory and vectors.
extern "C" __global__ void tiles(const float4* a, float* c, int k) {
  extern __shared__ float4 tile[];
  float sum = 0.0f;
  for (int k0 = 0; k0 < k; ++k0) {
    tile[threadIdx.x] = a[k0 * blockDim.x + threadIdx.x];
    __syncthreads();
#pragma unroll 1
    for (int j = 0; j < blockDim.x; ++j) sum += tile[j].x * tile[j].w;
    __syncthreads();
  }
  c[threadIdx.x] = sum * weights[threadIdx.x % 4];
}

// A call, local memory, a parameter that is a struct, and a trap.
extern "C" __global__ void calls(float* c, Pair p, int n) {
  float kept;
  float v = scaled(c[n], p, &kept);
  if (v < 0.0f) __trap();
  c[0] = v + kept + origin.n + *counter_address;
}

// Inline PTX: two scopes that have the same names, statements in one line, both kinds of comment.
extern "C" __global__ void scopes(unsigned* flag, unsigned value) {
  asm volatile(
      "{\n .reg .pred p;\n .reg .b32 t<2>;\n WAIT: // spin\n"
      " ld.volatile.global.u32 t0, [%0]; setp.ne.u32 p, t0, %1;\n @p bra DONE; bra WAIT;\n DONE:\n}"
      ::"l"(flag), "r"(value) : "memory");
  asm volatile(
      "{\n .reg .pred p;\n /* again,\n the same names */ WAIT: ld.volatile.global.u32 %0, [%1];\n"
      " setp.eq.u32 p, %0, %2;\n @!p bra WAIT;\n @p bra DONE;\n trap;\n DONE: }"
      : "=r"(value) : "l"(flag + 1), "r"(value) : "memory");
  flag[2] = value;
}

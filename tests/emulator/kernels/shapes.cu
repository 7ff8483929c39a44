// Blocks of any shape: every thread says who it is, and the block counts its threads three ways.

__global__ void who(int4* out, int* counts)
{
  __shared__ int total;
  const int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  if (t == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, 1);
  const int low = __syncthreads_count(threadIdx.x < 2);
  const int any = __syncthreads_or(t == threads - 1) + 2 * __syncthreads_and(t < threads);
  int4 mine;
  mine.x = threadIdx.x;
  mine.y = threadIdx.y;
  mine.z = threadIdx.z;
  mine.w = __popc(__ballot_sync(__activemask(), true));
  out[b * threads + t] = mine;
  if (t == threads - 1) {
    counts[3 * b] = total;
    counts[3 * b + 1] = low;
    counts[3 * b + 2] = any;
  }
}

// tiny: a batch of products so small that a block takes several, each whole in shared memory.
//
// Contract: D = alpha*A*B + beta*C for each of a batch, in float32, by any strides, at any
// alignment; m, n, k >= 1. Products are summed in the order of k, one fused multiply-add each;
// beta = 0 never reads C.
//
// Tile: bm x bn outputs a block at most, of as many whole products as fit; tm x tn a thread, which
// lie blockDim.y rows and blockDim.x columns apart. A thread's place in the block is (column, row,
// product), so nothing is divided. Drawn for m = 3, n = 4, tm = 1, tn = 2:
//
//      product 0         product 1
//      0 1 0 1           6 7 6 7
//      2 3 2 3           8 9 8 9
//      4 5 4 5           ..
//
// Staging: where the products of a block lie one after another without gaps, a slab, four floats an
// instruction; else element by element. The tiles keep the operand's own order, so A is [m][k] or
// [k][m] and B [k][n] or [n][k].
// Grid: (the batch by products of a block, 1, 1).
// Shared memory, dynamic: 4 * products * (m*k + k*n) bytes, each operand rounded up to 16.
#include "lib/async.cuh"
#include "lib/epilogue.cuh"
#include "lib/fragment.cuh"
#include "lib/product.cuh"
#include "lib/tile.cuh"
#include "lib/types.cuh"

// A matrix of each product as it lies in memory: `lines` of `length` neighbours (if it has any).
struct Slab {
  const float* first;
  int64 line_stride, unit_stride, batch;
  int lines, length;

  __device__ int size() const { return lines * length; }

  // Whether the matrices of `products` are one piece of memory.
  __device__ bool packed(int products) const
  {
    return unit_stride == 1 && (lines == 1 || line_stride == length) &&
           (products == 1 || batch == size());
  }
};

// All threads of the block copy the matrices of products `product` and the next.
__device__ inline void stage(float* target, const Slab& slab, int64 product, int products)
{
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  const int tid = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const float* const source = slab.first + product * slab.batch;
  const int count = products * slab.size();
  if (slab.packed(products)) {
    const bool aligned = reinterpret_cast<unsigned long long>(source) % 16 == 0;
    const int whole = aligned ? count / 4 * 4 : 0;
    for (int i = 4 * tid; i < whole; i += 4 * threads) copy_async<16>(target + i, source + i);
    for (int i = whole + tid; i < count; i += threads) copy_async<4>(target + i, source + i);
  } else {
    for (int i = tid; i < count; i += threads) {
      const int unit = i % slab.length, line = i / slab.length % slab.lines;
      const int64 from = i / slab.size() * slab.batch + line * slab.line_stride;
      copy_async<4>(target + i, source + from + unit * slab.unit_stride);
    }
  }
}

template <Tile T, Access X>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
tiny(const __grid_constant__ Product p)
{
  // coordinates
  const int64 first = static_cast<int64>(blockIdx.x) * blockDim.z;
  const int products = min(static_cast<int64>(blockDim.z), p.batch - first);
  const int product = threadIdx.z;

  // shared memory
  extern __shared__ float4 shared[];
  float* const smem_a = reinterpret_cast<float*>(shared);
  float* const smem_b = smem_a + (blockDim.z * p.m * p.k + 3) / 4 * 4;

  // prologue
  const Slab a = X.a_along_k ? Slab{p.a, p.a_row, p.a_col, p.a_batch, p.m, p.k}
                             : Slab{p.a, p.a_col, p.a_row, p.a_batch, p.k, p.m};
  const Slab b = X.b_along_n ? Slab{p.b, p.b_row, p.b_col, p.b_batch, p.k, p.n}
                             : Slab{p.b, p.b_col, p.b_row, p.b_batch, p.n, p.k};
  stage(smem_a, a, first, products);
  stage(smem_b, b, first, products);
  commit_copies();
  wait_copies<0>();
  __syncthreads();  // no thread reads a product that is not whole
  if (product >= products) return;

  // main loop
  const int a_row = X.a_along_k ? p.k : 1, a_col = X.a_along_k ? 1 : p.m;
  const int b_row = X.b_along_n ? p.n : 1, b_col = X.b_along_n ? 1 : p.k;
  const float* from_a[T.tm];
  const float* from_b[T.tn];
#pragma unroll
  for (int i = 0; i < T.tm; ++i) {
    const int row = min(threadIdx.y + i * blockDim.y, p.m - 1u);
    from_a[i] = smem_a + product * p.m * p.k + row * a_row;
  }
#pragma unroll
  for (int j = 0; j < T.tn; ++j) {
    const int col = min(threadIdx.x + j * blockDim.x, p.n - 1u);
    from_b[j] = smem_b + product * p.k * p.n + col * b_col;
  }
  float acc[T.tm][T.tn] = {};
#pragma unroll 4
  for (int kk = 0; kk < p.k; ++kk) {
    float frag_a[T.tm], frag_b[T.tn];
#pragma unroll
    for (int i = 0; i < T.tm; ++i) frag_a[i] = from_a[i][kk * a_col];
#pragma unroll
    for (int j = 0; j < T.tn; ++j) frag_b[j] = from_b[j][kk * b_row];
    outer_product(acc, frag_a, frag_b);
  }

  // epilogue
  const float* const c = p.c + (first + product) * p.c_batch;
  float* const d = p.d + (first + product) * p.d_batch;
#pragma unroll
  for (int i = 0; i < T.tm; ++i) {
    const int64 row = threadIdx.y + i * blockDim.y;
#pragma unroll
    for (int j = 0; j < T.tn; ++j) {
      const int64 col = threadIdx.x + j * blockDim.x;
      if (row >= p.m || col >= p.n) continue;
      const float old = p.beta != 0.0f ? c[row * p.c_row + col * p.c_col] : 0.0f;
      d[row * p.d_row + col * p.d_col] = blend(p.alpha, acc[i][j], p.beta, old);
    }
  }
}

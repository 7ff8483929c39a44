// gemv: very few rows (or columns) of D: nearly all work is to read the larger operand once.
//
// Contract: D = alpha*A*B + beta*C for each of a batch, in float32, by any strides, at any
// alignment; m, n >= 1 and k >= 0. Each output's products are summed by fused multiply-adds in
// parts of k, and the parts in a fixed order; where it costs little time four products at a time,
// and these in double. beta = 0 never reads C.
//
// Tile, grid: lib/narrow.cuh. A thread reads A and B straight into registers, `stages` steps ahead;
// no thread waits for another before it has its sums. What other warps read of A again is in L1,
// around which B goes.
// Shared memory, dynamic: 8 * max(warps * bm * bn, threads) bytes.
#include "lib/long_sum.cuh"
#include "lib/narrow.cuh"
#include "lib/product.cuh"
#include "lib/tile.cuh"
#include "lib/types.cuh"

// Reads four of k of A for each of a thread's rows, the first at `a`.
template <Tile T, Access X>
__device__ void read_a(float4 (&frag)[T.tm], const float* a, const Product& p, int rows, int left)
{
  using S = Shares<T, X>;
  const int a_row = p.a_row, a_col = X.a_along_k ? 1 : p.a_col;
#pragma unroll
  for (int i = 0; i < T.tm; ++i) {
    const float* const from = a + i * a_row;
    if constexpr (S::a_depth) {
      const bool inside = i < rows && left > 0;
      frag[i] = inside ? __ldg(reinterpret_cast<const float4*>(from)) : float4{};
    } else {
      float four[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool inside = i < rows && S::next_k(j) < left;
        four[j] = inside ? __ldg(from + S::next_k(j) * a_col) : 0.0f;
      }
      frag[i] = {four[0], four[1], four[2], four[3]};
    }
  }
}

// Four steps along k of one row of a thread's outputs: into float, or four products in float and
// their sum into double, since an SM widens few floats a cycle.
template <int count>
__device__ void add_products(float* acc, const float4& a, const float (&b)[4][count])
{
  multiply(acc, a, b);
}

template <int count>
__device__ void add_products(double* acc, const float4& a, const float (&b)[4][count])
{
  float four[count] = {};
  multiply(four, a, b);
#pragma unroll
  for (int c = 0; c < count; ++c) acc[c] += four[c];
}

// Whether sums are kept in double: of one row, and of two where B is read by columns; others would
// take more time.
template <Tile T, Access X>
constexpr bool in_double = fast_double && (T.tm == 1 || (T.tm == 2 && Shares<T, X>::b_columns));

template <Tile T, Access X>
__device__ void few_rows(const Product& p)
{
  // coordinates
  using S = Shares<T, X>;
  using Sum = typename LongSum<in_double<T, X>>::Type;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const Part part = part_of_block<T>(p);

  // shared memory
  extern __shared__ float4 shared[];

  // prologue
  const int column = part.n0 + S::first_column(lane);
  const int64 k0 = static_cast<int64>(part.first) * T.bk + warp * S::depth + S::first_k(lane);
  const float* a = p.a + part.batch * p.a_batch + part.m0 * p.a_row + k0 * p.a_col;
  const float* b = p.b + part.batch * p.b_batch + column * p.b_col + k0 * p.b_row;
  int left = min(static_cast<int64>(p.k), static_cast<int64>(part.last) * T.bk) - k0;
  float4 frag_a[T.stages][T.tm];
  float frag_b[T.stages][4][T.tn];
  const auto read = [&](int stage) {
    S::read_b(frag_b[stage], b, p, p.n - column, left);
    read_a<T, X>(frag_a[stage], a, p, p.m - part.m0, left);
    a += T.bk * p.a_col;
    b += T.bk * p.b_row;
    left -= T.bk;
  };
#pragma unroll
  for (int stage = 0; stage < T.stages; ++stage) read(stage);
  Sum acc[T.tm * T.tn] = {};

  // main loop
#pragma unroll 1
  for (int step = part.first; step < part.last; step += T.stages) {
#pragma unroll
    for (int stage = 0; stage < T.stages; ++stage) {
      // A jump between steps: ptxas would convert the sums of later ones first, and wait for them.
      if (in_double<T, X> && T.stages > 2 && step + stage >= part.last) break;
#pragma unroll
      for (int i = 0; i < T.tm; ++i) {
        add_products(acc + i * T.tn, frag_a[stage][i], frag_b[stage]);
      }
      read(stage);
    }
  }

  finish<T, X>(acc, p, part, reinterpret_cast<Sum*>(shared));
}

template <Tile T, Access X>
__global__ void __launch_bounds__(T.threads(), T.min_blocks)
gemv(const __grid_constant__ Product p)
{
  if constexpr (T.tm == T.bm) few_rows<T, X>(p);
  else few_rows<transposed(T), transposed(X)>(transposed(p));
}

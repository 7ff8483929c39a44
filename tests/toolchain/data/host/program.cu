// What files written for nvcc have in them: host code of every kind between the kernels.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <device_launch_parameters.h>
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <vector>
#include "common.h"

using namespace std;
namespace chr = std::chrono;

#define HD __host__ __device__ __forceinline__
#define KERNEL __global__ void
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort=true)
{
   if (code != cudaSuccess) {
      fprintf(stderr,"GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
      if (abort) exit(code);
   }
}

#define N_ITEMS 1024
const int kBlock = 128;
static const float kScale[4] = {1.0f, 2.0f, 3.0f, 4.0f};
dim3 g_grid(8, 1, 1), g_block(kBlock);
const dim3 c_grid{8};
std::vector<float> g_host;
float* d_global = nullptr;
__constant__ float c_weights[4];
__device__ int d_counter = 3;
static __device__ unsigned long long d_big;
const char* names[] = {"a", "b{"};
const char* usage = R"doc(usage: {
  ")doc";
enum class Mode { kAdd, kMul };
typedef float real;
using Vec = std::vector<float>;
template <typename T> using Ptr = T*;
extern __shared__ char smem_raw[];
cudaStream_t stream1;
int counter{0};
auto host_lambda = [](int a) { return a + 1; };
static_assert(sizeof(float) == 4, "float");
constexpr int div_up(int a, int b) { return (a + b - 1) / b; }

struct Params {
  int n;
  float alpha;
  HD float apply(float x) const { return alpha * x; }
  void print() const { std::cout << n << alpha; }
  Params(int n_, float a_) : n(n_), alpha{a_} { std::cout << "made"; }
  Params() = default;
  ~Params() { std::cout << "bye"; }
private:
  static int made;
};
int Params::made = 0;

class Timer {
 public:
  Timer() { start_ = std::chrono::high_resolution_clock::now(); }
  double stop();
 private:
  std::chrono::time_point<std::chrono::high_resolution_clock> start_;
  std::string name_;
};
double Timer::stop() { return 0; }
class Error : public std::runtime_error { public: Error(const std::string& s) : std::runtime_error(s) {} };

namespace ops {
namespace detail {
template <typename T, int kUnroll = (3 > 2 ? 4 : 1)>
struct Add { __device__ T operator()(T a, T b) const { return a + b; } };
template <class T> std::string name_of() { return "x"; }
}  // namespace detail

template <typename T, typename Op, Mode M = Mode::kAdd>
__launch_bounds__(128) __global__ void binary(const T* __restrict__ a, const T* b, T* out, std::size_t n, Op op)
{
  assert(n > 0);
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  T biggest = std::numeric_limits<T>::lowest();
  if constexpr (std::is_same<T, float>::value) biggest = -INFINITY;
  if (i < n) {
    T v = op(a[i], b[i]);
    biggest = std::max(biggest, v);
    out[i] = std::min(biggest, (T)FLT_MAX) * (T)c_weights[i & 3] + (T)kScale[i & 3] + (T)d_counter;
  }
}
}

template <typename T>
void run(const std::vector<T>& x, std::function<void(int)> f) {
  int blocks = div_up(x.size(), kBlock);
  ops::binary<T, ops::detail::Add<T>><<<blocks, kBlock, 0, stream1>>>(nullptr, nullptr, nullptr, x.size(), {});
  f(blocks);
}
template void run<float>(const std::vector<float>&, std::function<void(int)>);
template __global__ void ops::binary<float, ops::detail::Add<float>>(const float*, const float*, float*, std::size_t, ops::detail::Add<float>);

extern "C" void launch_it(float* x, int n);
extern "C" {
__global__ void kernel_in_c(float* x, int n, Params p) {
  auto twice = [](float v) { return 2 * v; };
  int i = threadIdx.x;
  if (i < n) x[i] = p.apply(twice(x[i])) + HELPER_CONST + helper(x[i]) + (float)M_PI * 0;
}
void launch_it(float* x, int n) { kernel_in_c<<<1, n>>>(x, n, Params(n, 2.0f)); }
}

KERNEL macro_kernel(half* h) { h[threadIdx.x] = __hadd(h[threadIdx.x], __float2half(1.0f)); }

#ifdef WITH_MAIN_ARGS
int main(int argc, char** argv) {
#else
int main() {
#endif
  auto check = [&](int x) { if (x > 1'000'000) { cout << "}{"; } };
  char c = '{';
  std::map<std::string, int> m = {{"a", 1}};
#pragma omp parallel for
  for (int i = 0; i < 4; ++i) { check(i); }
  run<float>(g_host, check);
  return 0;
}

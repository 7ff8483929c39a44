// A whole program as nvcc takes it, host code and all: y = a x + y on a million numbers.
// tilewright reads the kernels of such a file and leaves the host code out.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#define CHECK(call)                                                               \
  do {                                                                            \
    const cudaError_t status = (call);                                            \
    if (status != cudaSuccess) {                                                  \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,                     \
                   cudaGetErrorString(status));                                   \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)

constexpr int THREADS = 256;

template <typename T>
__global__ void saxpy(T a, const T* x, T* y, int n)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

static float largest_error(const std::vector<float>& found, float expected)
{
  float worst = 0.0f;
  for (const float value : found) worst = std::fmax(worst, std::fabs(value - expected));
  return worst;
}

int main()
{
  const int n = 1 << 20;
  std::vector<float> x(n, 1.0f), y(n, 2.0f);
  float *device_x, *device_y;
  CHECK(cudaMalloc(&device_x, n * sizeof(float)));
  CHECK(cudaMalloc(&device_y, n * sizeof(float)));
  CHECK(cudaMemcpy(device_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_y, y.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  saxpy<<<(n + THREADS - 1) / THREADS, THREADS>>>(2.0f, device_x, device_y, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(y.data(), device_y, n * sizeof(float), cudaMemcpyDeviceToHost));
  std::cout << "largest error " << largest_error(y, 4.0f) << std::endl;
  CHECK(cudaFree(device_x));
  CHECK(cudaFree(device_y));
}

// Gravity of n bodies on each other: a block stages one tile of bodies after another in shared
// memory, and each thread sums their pull on its own body. n is a multiple of the block size.

constexpr int TILE = 128;

__global__ void nbody_tiled(const float4* __restrict__ bodies,  // x, y, z, mass
                            float4* __restrict__ pulls, int n, float softening)
{
  __shared__ float4 tile[TILE];
  const int i = blockIdx.x * TILE + threadIdx.x;
  const float4 own = bodies[i];
  float x = 0.0f, y = 0.0f, z = 0.0f;

  for (int start = 0; start < n; start += TILE) {
    tile[threadIdx.x] = bodies[start + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < TILE; ++j) {
      const float4 other = tile[j];  // the same for all threads: one broadcast
      const float dx = other.x - own.x;
      const float dy = other.y - own.y;
      const float dz = other.z - own.z;
      const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
      const float pull = other.w * inverse * inverse * inverse;
      x += dx * pull;
      y += dy * pull;
      z += dz * pull;
    }
    __syncthreads();
  }
  pulls[i] = make_float4(x, y, z, 0.0f);
}

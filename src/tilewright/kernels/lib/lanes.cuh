// Where a lane's outputs are in the tile of its warp.
#pragma once

struct Lane {
  int m, n;  // in lanes
};

// Lanes in Z order: bits 0, 2 and 4 of the lane's number count along n, bits 1 and 3 along m, until
// one of them has enough. Lanes t and t^1 then read the same of A, lanes t and t^2 the same of B,
// and a 128-bit load that half the lanes repeat so takes two wavefronts instead of four.
// Source: shared-memory wavefronts read with the profiler on sm_90 (docs/counting.md).
template <int lanes_m, int lanes_n>
__device__ Lane z_order(int lane)
{
  static_assert(lanes_m * lanes_n == 32, "a warp has 32 lanes");
  Lane at{0, 0};
  int bit = 0;
#pragma unroll
  for (int m = 1, n = 1; bit < 5; ++bit) {
    const bool along_n = n < lanes_n && (n <= m || m == lanes_m);
    const int set = lane >> bit & 1;
    if (along_n) {
      at.n += set * n;
      n *= 2;
    } else {
      at.m += set * m;
      m *= 2;
    }
  }
  return at;
}

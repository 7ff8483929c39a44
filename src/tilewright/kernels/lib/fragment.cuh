// Fragments: the values of A and of B that a thread holds in registers for one step along k.
#pragma once

// Reads `count` neighbours from shared memory, four an instruction.
// NOTE: `source` must be a multiple of 16 bytes.
template <int count>
__device__ void load_fragment(float* frag, const float* source)
{
  static_assert(count % 4 == 0, "a fragment is read four floats at a time");
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(source + i);
    frag[i] = four.x;
    frag[i + 1] = four.y;
    frag[i + 2] = four.z;
    frag[i + 3] = four.w;
  }
}

// One step along k: M + N values give M * N multiply-adds.
template <int M, int N>
__device__ void outer_product(float (&acc)[M][N], const float (&frag_a)[M],
                              const float (&frag_b)[N])
{
#pragma unroll
  for (int i = 0; i < M; ++i) {
#pragma unroll
    for (int j = 0; j < N; ++j) acc[i][j] = fmaf(frag_a[i], frag_b[j], acc[i][j]);
  }
}

// Reads `count` floats from shared memory in quads of neighbours, `apart` floats from one to the
// next. NOTE: `source`, in bytes from the start of the window, must be a multiple of 16.
template <int count, int apart>
__device__ void load_quads(float (&frag)[count], unsigned source)
{
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(frag[i]), "=f"(frag[i + 1]), "=f"(frag[i + 2]), "=f"(frag[i + 3])
                 : "r"(source + i * apart));
  }
}

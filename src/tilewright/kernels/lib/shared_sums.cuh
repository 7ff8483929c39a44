// Parts of k added by all blocks that are there: each takes a few outputs of a tile, of all its
// parts.
//
// Blocks that have parts of a tile end at about the same time. Did the last of them add all parts,
// it would read alone what the others wrote together, while their SMs are idle.
#pragma once

#include "lib/keep.cuh"
#include "lib/product.cuh"
#include "lib/types.cuh"

// The parts of a tile in the workspace: partial [slot][room][count / 4][threads][4] with four words
// behind each slot, the first of which counts the pieces that were taken; arrivals [slot]. Within
// four, the order is 1 0 3 2, as in lib/splits.cuh.
template <int threads, int count>
struct Parts {
  static constexpr int64 size = static_cast<int64>(threads) * count;
  static constexpr int beside = 4;  // words of a slot behind its parts

  float* first;
  unsigned* taken;
  unsigned* arrivals;

  __device__ Parts(const Product& p, int64 slot, int room)
      : first(p.partial + slot * (room * size + beside)),
        taken(reinterpret_cast<unsigned*>(first + room * size)),
        arrivals(p.arrivals + slot)
  {
  }
};

__device__ inline void add(float4& sum, const float4& more)
{
  sum.x += more.x;
  sum.y += more.y;
  sum.z += more.z;
  sum.w += more.w;
}

// Writes this block's sums over part `part` of k. To be called by every thread of the block.
template <int threads, int count>
__device__ void put_part(const float (&value)[count], const Product& p, int64 slot, int part,
                         int room)
{
  const Parts<threads, count> parts(p, slot, room);
  const int tid = anew(threadIdx.x);
  float* const mine = parts.first + part * parts.size + tid * 4;
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    const float4 four = {value[i + 1], value[i], value[i + 3], value[i + 2]};
    __stcg(reinterpret_cast<float4*>(mine + i * threads), four);
  }
  __syncthreads();  // the sums of every thread are written
  if (tid == 0) {
    if (part == 0) *parts.taken = 0;
    __threadfence();  // ... and seen by whoever sees the count
    atomicAdd(parts.arrivals, 1u);
  }
}

// How many SMs the GPU has.
__device__ inline unsigned multiprocessors()
{
  unsigned count;
  asm("mov.u32 %0, %%nsmid;" : "=r"(count));
  return count;
}

// Says whether all `parts` of a tile are written and not all of it is taken yet. A block looks for
// a while if no more than `running` are still to come. The last to arrive never has to, so nothing
// depends on who stays, and nobody waits for long for a block that does not run.
__device__ inline bool all_arrived(const unsigned* arrivals, int parts, int running)
{
  constexpr int patience = 128;  // looks, of some 0.4 us each
  bool whole = false;
  if (threadIdx.x == 0) {
    for (int looks = 0; looks < patience; ++looks) {
      const int seen = *reinterpret_cast<const volatile int*>(arrivals);
      whole = seen == parts;
      if (whole || seen == 0 || parts - seen > running) break;  // 0: the last piece was taken
    }
    __threadfence();
  }
  return __syncthreads_or(whole);
}

// Adds pieces of a tile that nobody else has taken: a piece is `quads` quads for each lane of a
// warp. The more of them, the fewer parts are read at a time.
template <int quads, int threads, int count, class Write>
__device__ void add_pieces(const Parts<threads, count>& parts, int number, Write write)
{
  constexpr int pieces = threads * count / 128 / quads;
  constexpr int ahead = 16 / quads;
  static_assert(pieces * 128 * quads == threads * count, "a tile must be whole pieces");
  const int lane = anew(threadIdx.x) % 32;
  const auto take = [&] { return lane == 0 ? atomicAdd(parts.taken, 1u) : 0u; };
  unsigned piece = __shfl_sync(~0u, take(), 0);
  while (piece < pieces) {
    const unsigned next = take();  // while the parts are on their way
    if (lane == 0 && piece == pieces - 1) *parts.arrivals = 0;  // as the next launch needs it
    const int quad = piece * quads * 32 + lane;
    const float4* from = reinterpret_cast<const float4*>(parts.first) + quad;
    float4 sum[quads] = {};
    for (int begin = 0; begin < number; begin += ahead) {
      float4 part[ahead][quads];
#pragma unroll
      for (int i = 0; i < ahead; ++i, from += parts.size / 4) {
#pragma unroll
        for (int j = 0; j < quads; ++j) {
          part[i][j] = begin + i < number ? __ldcg(from + j * 32) : float4{};
        }
      }
#pragma unroll
      for (int j = 0; j < quads; ++j) {
#pragma unroll
        for (int i = 1; i < ahead; ++i) add(part[0][j], part[i][j]);
        add(sum[j], part[0][j]);
      }
    }
#pragma unroll
    for (int j = 0; j < quads; ++j) {
      write(quad + j * 32, {sum[j].y, sum[j].x, sum[j].w, sum[j].z});
    }
    piece = __shfl_sync(~0u, next, 0);
  }
}

// Adds the `number` parts of a tile, as much of it as others leave to this block, which has written
// one of them, and calls write(quad, sum) for each quad of outputs: quad q is the q / threads-th of
// thread q % threads. To be called by every thread of the block. Parts are added in their order, in
// sixteens, so that a result never depends on who adds it. `running` as in all_arrived.
template <int threads, int count, class Write>
__device__ void add_parts(const Product& p, int64 slot, int number, int room, int running,
                          Write write)
{
  const Parts<threads, count> parts(p, slot, room);
  if (!all_arrived(parts.arrivals, number, running)) return;
  if (number <= 4) {
    add_pieces<4>(parts, number, write);
  } else {
    add_pieces<1>(parts, number, write);
  }
}

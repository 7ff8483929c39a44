// Sums of the parts of k: each block of a tile of D has one part, and the last to arrive adds all
// of them in the order of the parts, so that a result never depends on which block was last.
#pragma once

#include "lib/product.cuh"
#include "lib/types.cuh"

// Replaces `value`, this block's sums over part `part` of `parts` of k, by the sums over all of k,
// and says whether this block has them (only the last does, so only it may write D). To be called
// by every thread of the block. `slot` is the tile's number in the workspace, `room` the parts that
// the workspace has room for in each tile.
//
// Workspace: partial [slot][room][count / width][threads][width], arrivals [slot]. Within four, the
// order is 1 0 3 2: ptxas then gives a sum the register bank that its column of B does not have, and
// a multiply-add reads one register of each (docs/schedule.md).
template <int threads, int count>
__device__ bool sum_parts(float (&value)[count], const Product& p, int64 slot, int part, int parts,
                          int room)
{
  if (parts == 1) return true;
  constexpr int width = count % 4 == 0 ? 4 : 1;
  constexpr int64 size = static_cast<int64>(threads) * count;
  __shared__ bool last;
  float* const first = p.partial + slot * room * size + threadIdx.x * width;
  float* const mine = first + part * size;
#pragma unroll
  for (int i = 0; i < count; i += width) {
    if constexpr (width == 4) {
      const float4 four = {value[i + 1], value[i], value[i + 3], value[i + 2]};
      __stcg(reinterpret_cast<float4*>(mine + i * threads), four);
    } else {
      __stcg(mine + i * threads, value[i]);
    }
    value[i] = 0.0f;
    if constexpr (width == 4) value[i + 1] = value[i + 2] = value[i + 3] = 0.0f;
  }
  __threadfence();  // the sums are seen by whoever sees the count
  __syncthreads();  // ... those of every thread
  if (threadIdx.x == 0) {
    last = atomicAdd(p.arrivals + slot, 1u) == parts - 1;
    if (last) p.arrivals[slot] = 0;  // as the next launch needs it
    __threadfence();
  }
  __syncthreads();
  if (!last) return false;
  // Several parts in flight: the reads of the next ones do not wait for these.
  constexpr int ahead = count <= 4 ? 8 : count <= 16 ? 4 : 1;
#pragma unroll ahead
  for (int other = 0; other < parts; ++other) {
    const float* const theirs = first + other * size;
#pragma unroll
    for (int i = 0; i < count; i += width) {
      if constexpr (width == 4) {
        const float4 four = __ldcg(reinterpret_cast<const float4*>(theirs + i * threads));
        value[i + 1] += four.x;
        value[i] += four.y;
        value[i + 3] += four.z;
        value[i + 2] += four.w;
      } else {
        value[i] += __ldcg(theirs + i * threads);
      }
    }
  }
  return true;
}

// As sum_parts where every tile has p.splits parts; tiles are numbered with the batches.
template <int threads, int count>
__device__ bool sum_splits(float (&value)[count], const Product& p, int64 tile, int split)
{
  return sum_parts<threads>(value, p, tile, split, p.splits, p.splits);
}

// Sums of the parts of k: each block of a tile of D has one part, and the last to arrive adds all
// of them in the order of the parts, so that a result never depends on which block was last.
#pragma once

#include "lib/fold.cuh"
#include "lib/product.cuh"
#include "lib/types.cuh"

// The workspace alone, for kernels whose argument is no Product.
struct Workspace {
  float* partial;
  unsigned* arrivals;
};

// Says whether this block is the last of a tile's `parts` to have written its sums, and so sees all
// others'. To be called by every thread of the block. `p` is a Workspace, or a
// Product, here and below.
template <class P>
__device__ bool last_to_arrive(const P& p, int64 slot, int parts)
{
  __shared__ bool last;
  __syncthreads();  // the sums of every thread are written
  if (threadIdx.x == 0) {
    __threadfence();  // ... and seen by whoever sees the count
    last = atomicAdd(p.arrivals + slot, 1u) == parts - 1;
    if (last) p.arrivals[slot] = 0;  // as the next launch needs it
    __threadfence();
  }
  __syncthreads();
  return last;
}

// Replaces `value`, this block's sums over part `part` of `parts` of k, by the sums over all of k,
// and says whether this block has them (only the last does, so only it may write D). To be called
// by every thread of the block. `slot` is the tile's number in the workspace, `room` the parts that
// the workspace has room for in each tile.
//
// More than eight parts are added in groups first, each by its own last block, so that no block
// reads more than some twice their square root. The groups follow the number of parts alone: the
// order of the additions is the same in every run.
//
// Workspace: partial [slot][room][count / width][threads][width], of Sum, arrivals [slot][room].
// Within four, the order is 1 0 3 2: ptxas then gives a sum the register bank that its column of B
// does not have, and a multiply-add reads one register of each (docs/schedule.md).
template <int threads, int count, class Sum, class P>
__device__ bool sum_parts(Sum (&value)[count], const P& p, int64 slot, int part, int parts,
                          int room)
{
  constexpr int width = sizeof(Sum) == 4 && count % 4 == 0 ? 4 : 1;
  constexpr int64 size = static_cast<int64>(threads) * count;
  constexpr int ahead = count <= 4 ? 8 : count <= 16 ? 4 : 1;  // parts read at a time
  Sum* const first = reinterpret_cast<Sum*>(p.partial) + slot * room * size + threadIdx.x * width;
  int most = parts;  // in a group
  if (parts > 8) {
    for (most = 3; most * most < parts; ++most) continue;
  }
  int64 stride = size;          // between the parts, later the groups, that are added
  int64 counter = slot * room;  // of the first group; the groups' own comes behind theirs
  while (parts > 1) {
    const int group = part / most;
    const int members = min(most, parts - group * most);
    const int groups = (parts + most - 1) / most;
    Sum* const mine = first + part * stride;
#pragma unroll
    for (int i = 0; i < count; i += width) {
      if constexpr (width == 4) {
        const float4 four = {value[i + 1], value[i], value[i + 3], value[i + 2]};
        __stcg(reinterpret_cast<float4*>(mine + i * threads), four);
      } else {
        __stcg(mine + i * threads, value[i]);
      }
    }
    if (!last_to_arrive(p, counter + group, members)) return false;
#pragma unroll
    for (int i = 0; i < count; ++i) value[i] = Sum{};
    const Sum* theirs = first + group * most * stride;
#pragma unroll ahead
    for (int other = 0; other < members; ++other, theirs += stride) {
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
    counter += groups;
    stride *= most;
    part = group;
    parts = groups;
  }
  return true;
}

// As sum_parts where every tile has p.splits parts; tiles are numbered with the batches.
template <int threads, int count, class Sum>
__device__ bool sum_splits(Sum (&value)[count], const Product& p, int64 tile, int split)
{
  return sum_parts<threads>(value, p, tile, split, p.splits, p.splits);
}

// As sum_splits, for at most half as many outputs as threads: thread t has the sum of output t, and
// the parts are shared out among all threads, so that few follow one another.
//
// Workspace: partial [tile][split][outputs], of Sum, arrivals [tile]; `shared`: as many as threads.
template <int threads, int outputs, class Sum>
__device__ bool sum_few_splits(Sum& value, Sum* shared, const Product& p, int64 tile, int split)
{
  if (p.splits == 1) return true;
  constexpr int most = threads / outputs;
  constexpr int groups = most < 16 ? most : 16;
  const int tid = threadIdx.x;
  Sum* const first =
      reinterpret_cast<Sum*>(p.partial) + tile * p.splits * outputs + tid % outputs;
  if (tid < outputs) __stcg(first + split * outputs, value);
  if (!last_to_arrive(p, tile, p.splits)) return false;
  if (tid < groups * outputs) {
    Sum sum{};
#pragma unroll 8
    for (int part = tid / outputs; part < p.splits; part += groups) {
      sum += __ldcg(first + part * outputs);
    }
    shared[tid] = sum;
  }
  __syncthreads();  // no thread adds sums that are not written
  if (tid < outputs) {
    value = tree_sum<groups>([&](int group) { return shared[group * outputs + tid]; });
  }
  return true;
}

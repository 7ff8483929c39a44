// What a block computes: parts of tiles of D, one after the other.
#pragma once

// `steps` steps of bk along k of a tile, from step `begin`; they are part `part` of the tile's
// `parts`. Parts are added in their order through slot `slot` of the workspace (lib/splits.cuh,
// lib/shared_sums.cuh), which has room for `room` of them.
struct Segment {
  unsigned tile, slot;
  int begin, steps, part, parts, room;
};

// The first gridDim.x - workers blocks have a tile each, or one of its `splits` equal parts. The
// last `workers` share what tiles are left, end to end, so that all have the same number of steps:
// 561 tiles on 132 SMs are not five waves, the last of them nearly empty, but four and a quarter.
//
//     steps of tiles   |---- tile 0 ----|---- tile 1 ----|---- tile 2 ----|
//     steps of workers |-- 0 --|-- 1 --|-- 2 --|-- 3 --|-- 4 --|-- 5 --|      ("stream-K")
//
// Source: Osama et al., "Stream-K", arXiv 2301.03598.
class Work {
public:
  __device__ Work(unsigned tiles, int depth, int splits, unsigned workers)
      : depth(depth), whole(gridDim.x - workers), splits(splits)
  {
    if (blockIdx.x < whole) return;
    const unsigned total = (tiles - whole) * depth;
    each = total / workers;
    longer = total % workers;
    const unsigned worker = blockIdx.x - whole;
    begin = worker * each + min(worker, longer);
    end = begin + each + (worker < longer);
  }

  // Whether the block has a segment of this number, counted from 0, which `segment` then is.
  __device__ bool find(unsigned number, Segment& segment) const
  {
    if (blockIdx.x < whole) {
      if (number > 0) return false;
      const int part = blockIdx.y;
      const int steps = depth / splits;
      const int more = depth % splits;  // the first parts have one step more
      segment = {blockIdx.x, blockIdx.x, part * steps + min(part, more), steps + (part < more),
                 part,       splits,     splits};
      return true;
    }
    const unsigned slot = begin / depth + number;
    const unsigned at = number == 0 ? begin : slot * depth;
    if (at >= end) return false;
    const unsigned first = worker_of(slot * depth);
    const int steps = min(end, (slot + 1) * depth) - at;
    segment = {whole + slot,
               slot,
               static_cast<int>(at % depth),
               steps,
               static_cast<int>(worker_of(at) - first),
               static_cast<int>(worker_of((slot + 1) * depth - 1) - first) + 1,
               (depth - 1) / static_cast<int>(each) + 2};
    return true;
  }

private:
  // Which worker has a step.
  __device__ unsigned worker_of(unsigned step) const
  {
    const unsigned of_longer = longer * (each + 1);
    return step < of_longer ? step / (each + 1) : longer + (step - of_longer) / each;
  }

  int depth;  // steps of a tile
  unsigned whole;
  int splits;
  unsigned each, longer;  // steps of a worker; how many workers have one more
  unsigned begin, end;    // of this worker, in steps from the first shared tile
};

// The same for blocks that all stay: what makes no whole rounds, and one round more, they share as
// above; the tiles behind are dealt like cards, round after round, and come first.
class Deal {
public:
  __device__ Deal(unsigned tiles, int depth)
      : tiles(tiles), depth(depth), shared(shared_of(tiles), depth, 1, gridDim.x),
        dealt(shared_of(tiles) + blockIdx.x)
  {
  }

  // Whether there is another segment, which `segment` then is.
  __device__ bool next(Segment& segment)
  {
    if (dealt >= tiles) return shared.find(number++, segment);
    segment = {dealt, dealt, 0, depth, 0, 1, 1};
    dealt += gridDim.x;
    return true;
  }

private:
  __device__ static unsigned shared_of(unsigned tiles)
  {
    return tiles - (max(tiles / gridDim.x, 1u) - 1) * gridDim.x;
  }

  unsigned tiles;
  int depth;
  Work shared;
  unsigned dealt;       // the next tile that this block is dealt
  unsigned number = 0;  // of the next segment of those that are shared
};

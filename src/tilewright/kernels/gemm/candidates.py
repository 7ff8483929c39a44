"""What is worth measuring: tiles of the tiled kernel, and into how many parts to cut k."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from tilewright.gpus import Gpu
from tilewright.kernels.tiles import MAX_SHARED_BYTES, WARP_THREADS, Tile

# Of a warp along m and n. 4 x 8 was the fastest of those measured on an H200 (2026-11-30, 128x256
# tiles at 4096³: 49.5 TFLOP/s, 48.9 in the order of the next best).
LANES = (4, 8)
# Outputs of a thread along m and n, in 4x4 quads.
OUTPUTS = ((4, 4), (4, 8), (8, 4), (8, 8), (8, 16), (16, 8))
WARPS = (4, 8)
# (bk, stages) by a thread's outputs: steps long enough to pay for their barrier, with as much
# under way as hides the latency of global memory. Threads with few outputs finish a step sooner, so
# theirs is longer. (16 x 3 for 128 outputs and 32 x 3 for few won for none of 13 shapes.)
STEPS = {128: ((8, 4),), 64: ((8, 4), (16, 3)), 32: ((16, 4),), 16: ((16, 4),)}
# With one side of 112, for sizes that end between 64 and 112 of 128: 101 x 3333 x 5005, nn, takes
# 101 us on an H200 so (2026-11-30), and 105 with the best of 128 rows; 128 of 197 x 64 x 197, 22.3
# us with 112 x 64 and 23.9 with 128 x 64 (2026-12-01).
NARROWER = (
    Tile(bm=112, bn=128, bk=8, tm=28, tn=4, wm=112, wn=32, stages=4),
    Tile(bm=128, bn=112, bk=8, tm=4, tn=28, wm=32, wn=112, stages=4),
    Tile(bm=112, bn=64, bk=8, tm=28, tn=4, wm=112, wn=32, stages=4),
    Tile(bm=64, bn=112, bk=8, tm=4, tn=28, wm=32, wn=112, stages=4),
)
_NARROW, _HALF = 112, 64
_LEAST_SAVED = 0.05  # of the arithmetic, for which a tile of 112 is worth a measurement
SIDES = range(32, 257)
MOST_ASPECT = 4  # a longer block reads more of A and B than a squarer one of as many outputs
# Registers of a thread beside its sums and two sets of fragments: addresses, loops, staging. With
# 64 outputs or more 28 do, which leaves two blocks of 256 threads an SM with 8x8; threads with
# fewer copy more for each of theirs, and were seen to spill with less than 56.
_OTHER_REGISTERS, _OTHERS_OF_FEW, _FEW_OUTPUTS = 28, 56, 32
SM_REGISTERS = 65536  # of every architecture that is compiled for
SM_PARTITIONS = 4

# The fewest blocks an SM for the sake of an operand in rows: one of 256 threads with 8x8 was beaten
# by three of 128 (H200, 2026-11-30, 128x2112x7168 nt: 36.7 and 40.6 TFLOP/s).
_FEWEST = 2

# Blocks for each SM that a split of k aims at; the others where an SM holds three.
WAVES = (1, 2, 4, 8)
WAVES_OF_THREE = (1, 3, 6)
MOST_SPLITS = 256
# Steps along k that a part must have: fewer do not fill the stages, and the rest is overhead.
LEAST_STEPS = 4
# Of the time, for which SMs are idle in the last wave: less is not worth another pass over sums.
LEAST_IDLE = 0.02


def registers(tile: Tile) -> int:
    """Return about how many registers a thread needs: its sums, fragments twice, and the rest."""
    outputs = tile.tm * tile.tn
    others = _OTHERS_OF_FEW if outputs <= _FEW_OUTPUTS else _OTHER_REGISTERS
    return outputs + 2 * (tile.tm + tile.tn) + others


def registers_in_rows(tile: Tile) -> int:
    """Return the same where an operand stays in rows, that of which a thread has less.

    Its fragments are of four steps of k, and replaced in place.
    """
    return registers(tile) + 2 * min(tile.tm, tile.tn)


def tiled_tiles() -> Iterator[Tile]:
    """Yield the tiles worth measuring that some GPU can run, the largest first."""
    for (tm, tn), warps in product(reversed(OUTPUTS), reversed(WARPS)):
        wm, wn = LANES[0] * tm, LANES[1] * tn
        for along_m in (n for n in range(1, warps + 1) if warps % n == 0):
            bm, bn = wm * along_m, wn * (warps // along_m)
            if not (bm in SIDES and bn in SIDES and max(bm, bn) <= MOST_ASPECT * min(bm, bn)):
                continue
            for bk, stages in STEPS[tm * tn]:
                tile = Tile(bm=bm, bn=bn, bk=bk, tm=tm, tn=tn, wm=wm, wn=wn, stages=stages)
                most = _blocks(tile, registers(tile))
                in_rows = _blocks(tile, registers_in_rows(tile))
                for blocks in sorted({most, max(in_rows, min(most, _FEWEST))}, reverse=True):
                    yield replace(tile, min_blocks=blocks)
    for tile in NARROWER:
        yield replace(tile, min_blocks=_blocks(tile, registers(tile)))


def suits(tile: Tile, m: int, n: int) -> bool:
    """Return whether a tile is worth measuring for sizes: one of 112 where it wastes less."""
    return all(
        side != _NARROW or _padded(size, _NARROW) <= (1 - _LEAST_SAVED) * _padded(size, _HALF)
        for side, size in ((tile.bm, m), (tile.bn, n))
    )


def _padded(size: int, side: int) -> int:
    """Return a size with what the last tile computes past the matrix."""
    return -(-size // side) * side


def _blocks(tile: Tile, each: int) -> int:
    """Return how many blocks an SM with 227 KB of shared memory holds, by a thread's registers.

    A quarter of the SM has a quarter of its registers, and whole warps.
    """
    warps = SM_PARTITIONS * (SM_REGISTERS // SM_PARTITIONS // (WARP_THREADS * each))
    return min(WARP_THREADS * warps // tile.threads, MAX_SHARED_BYTES // tile.shared_bytes)


def waves_of(tile: Tile) -> tuple[int, ...]:
    """Return how many blocks for each SM a split of k aims at: so many that the SMs are full."""
    return WAVES_OF_THREE if tile.min_blocks == 3 else WAVES


def useful_splits(blocks: int, steps: int, tile: Tile, gpu: Gpu) -> list[int]:
    """Return the numbers of parts of k that change how the SMs are filled, 1 first.

    `blocks` and `steps` along k are those of a launch that does not split. Each number fills every
    SM with as many blocks as a wave has, as far as k is long enough, and leaves no part without
    steps.
    """
    bound = max(1, min(MOST_SPLITS, steps // LEAST_STEPS))
    found = {1}
    for each in waves_of(tile):
        splits = max(1, min(bound, each * gpu.sm_count // blocks))
        found.add(-(-steps // -(-steps // splits)) if steps else 1)
    return sorted(found)


def workers_of(tile: Tile, gpu: Gpu) -> int:
    """Return how many blocks of a tile the GPU holds for sure."""
    return gpu.sm_count * max(tile.min_blocks, 1)


def useful_workers(tiles: int, steps: int, tile: Tile, gpu: Gpu) -> list[int]:
    """Return how many blocks should share the last tiles: those that the GPU holds, or nobody.

    `steps` along k are a tile's. Sharing is worth it where whole waves would leave SMs idle.
    """
    workers = workers_of(tile, gpu)
    idle = -(-tiles // workers) * workers / tiles - 1
    return [workers] if idle > LEAST_IDLE and tiles * steps >= LEAST_STEPS * workers else []

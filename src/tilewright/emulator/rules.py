"""What the hardware makes of one warp's addresses: sectors, lines, tags and wavefronts.

A row holds the 32 addresses of one access; a lane that does not take part has `NOBODY`. Rules take
rows and the bytes a lane moves, and count for every row.

Source of all: benchmarks/results/counters_nvidia_h200.json, Nsight Compute 2025.3.1 on one NVIDIA
H200 (sm_90), 2026-11-30: 16 accesses of one warp with known addresses a case. Cases named below are
those of the record; tests/model/test_access_rules.py holds every rule to every case, and
docs/counting.md tells the rules in plain words.

cp.async has its rules in `copy_rules.py`. Without a rule: atomics other than additions of 4 bytes
(not read); the data wavefronts of wide global loads of which some hit and some miss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Addresses: TypeAlias = "npt.NDArray[np.uint64]"
Counts: TypeAlias = "npt.NDArray[np.int64]"

NOBODY = np.uint64(1) << np.uint64(63)  # the address of a lane that does not take part
LINE_BYTES = 128
SECTOR_BYTES = 32
WAVEFRONT_BYTES = 128
_LAST = np.uint64(2**64 - 1)
_WORD = np.uint64(4)

# A line's tag lies in one of four sets. These bits of the line's number (address / 128), by parity,
# are the two bits of the set's number, up to its name. Fitted to the `t_output_wavefronts` of the
# 172 cases of global memory and to the calibration's columns; bits 12 to 14 to the sum over all
# loads of 01_naive/1000, bit 15 to that of 01_naive/4092. Bits above are not known: they matter to
# rows that lie on both sides of a multiple of 8 MiB.
_SET_BITS = (
    (0, 2, 4, 5, 7, 9, 11, 12, 13, 14, 15),
    (1, 3, 4, 6, 7, 8, 10, 12, 14),
)
_SET_MASKS = tuple(np.uint64(sum(1 << bit for bit in bits)) for bits in _SET_BITS)
# Where an array may lie, in lines, if its address is not known: without structure.
_ORIGINS = tuple(
    np.uint64(n * LINE_BYTES) for n in (0, 1389, 4770, 9127, 14668, 19013, 24394, 29931)
)


def sectors(rows: Addresses, size: int) -> Counts:
    """Count the distinct 32-byte sectors that each row's active lanes touch.

    Equals `l1tex__t_sectors_pipe_lsu_mem_global_op_ld` and `_st` and
    `memory_l2_theoretical_sectors_global` in all 172 cases global_load* and global_store*.
    """
    return _pieces(rows, size, 5)


def lines(rows: Addresses, size: int) -> Counts:
    """Count the distinct 128-byte lines that each row's active lanes touch.

    Equals `memory_l1_tag_requests_global` in the same cases.
    """
    return _pieces(rows, size, 7)


def fewest(rows: Addresses, size: int, piece: int) -> Counts:
    """Pieces of `piece` bytes that each row's lanes and bytes fill where no lane shares a byte."""
    active = (rows != NOBODY).sum(axis=1)
    return np.asarray(-(-active * size // piece))


def fewest_sectors(rows: Addresses, size: int) -> Counts:
    """Count the sectors of as many bytes, where they lie side by side, or those touched, if fewer.

    Lanes that share an address need no more than that: a uniform load is at its best already.
    Equals `memory_l2_theoretical_sectors_global_ideal` in all 172 cases.
    """
    return np.minimum(sectors(rows, size), fewest(rows, size, SECTOR_BYTES))


def _pieces(rows: Addresses, size: int, bits: int) -> Counts:
    """Distinct pieces of 2^bits bytes that each row's active lanes touch."""
    ordered = np.sort(_touched(rows, size, bits), axis=1)
    fresh = ordered[:, 1:] != ordered[:, :-1]
    return np.asarray(1 + fresh.sum(axis=1) - (ordered[:, -1] == _LAST))


def _touched(rows: Addresses, size: int, bits: int) -> Addresses:
    """Return the pieces that each lane touches, the last beside the first where they differ."""
    idle = rows == NOBODY
    first = np.where(idle, _LAST, rows >> np.uint64(bits))
    last = np.where(idle, first, (rows + np.uint64(size - 1)) >> np.uint64(bits))
    return first if np.array_equal(first, last) else np.concatenate([first, last], axis=1)


# --- shared memory ------------------------------------------------------------------------------


def wavefronts(rows: Addresses, size: int, *, load: bool = True) -> Counts:
    """Count the passes of each row's active lanes through the 32 banks of shared memory.

    A pass serves one word in each bank, to any number of lanes: 128 bytes. An access of 4 bytes a
    lane goes as a whole warp, one of 8 bytes by half warps, one of 16 by quarters; each such phase
    takes as many passes as the fullest bank has different words.

    Pairs: a wide load in which every active lane has the address of its neighbour t^1, or every
    one that of t^2 (a warp-uniform load is both), goes in half as many phases of twice the lanes.
    An idle lane agrees with any. Stores are not merged.

    Equals `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld` and `_st` in all 126 cases
    shared_load* and all 57 shared_store*. NVIDIA gives phases and pairs for compute capability 7.x
    (developer forum, thread 77228).
    """
    phases = max(size // 4, 1)
    plain = _phased(rows, size, phases)
    if phases == 1 or not load:
        return plain
    paired = _agree(rows)
    return np.where(paired, _phased(rows, size, phases // 2), plain) if paired.any() else plain


def profiled_wavefronts(rows: Addresses, size: int, *, load: bool = True) -> Counts:
    """Count the passes as the profiler's source page does: `memory_l1_wavefronts_shared`.

    It is computed from addresses, and differs from the hardware's count (`wavefronts`) in loads of
    16 bytes alone: there each half warp is merged or not for itself, and the lanes of merged halves
    go 16 active ones at a time. Told apart by pairs1_low (3 for 4), pairs1_then_2 (2 for 4),
    pairs1_but_last (3 for 4), pairs1_one_idle (3 for 2) and uniform_even (1 for 2).

    Equals the counter in all 126 cases shared_load* and all 57 shared_store*.
    """
    if size != 16 or not load:
        return wavefronts(rows, size, load=load)
    halves = np.stack([_agree(half) for half in np.split(rows, 2, axis=1)], axis=1)
    merges = np.repeat(halves, 16, axis=1)
    merged = np.where(merges, rows, NOBODY)
    behind = np.cumsum(merged != NOBODY, axis=1) > 16
    passes = _conflicts(np.where(behind, NOBODY, merged), 4)
    passes += _conflicts(np.where(behind, merged, NOBODY), 4)
    return np.asarray(passes + _phased(np.where(merges, NOBODY, rows), 16, 4))


def fewest_wavefronts(rows: Addresses, size: int, *, load: bool = True) -> Counts:
    """Count the passes of as many bytes, 128 a pass, or those that the access takes, if fewer.

    Equals `memory_l1_wavefronts_shared_ideal` in all 183 cases of shared_load* and shared_store*.
    """
    passes = profiled_wavefronts(rows, size, load=load)
    return np.minimum(passes, fewest(rows, size, WAVEFRONT_BYTES))


def matrix_wavefronts(rows: Addresses, matrices: int) -> Counts:
    """Count the passes of ldmatrix and stmatrix: eight rows of 16 bytes a phase, a matrix each.

    The first 8 · matrices lanes hold the addresses of rows. Nothing is merged; `.trans` costs the
    same. Equals `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld` or `_st` and
    `memory_l1_wavefronts_shared` in all 91 cases; `_ideal` there is `matrices`.
    """
    parts = np.split(rows, 4, axis=1)[:matrices]
    return np.asarray(sum(_conflicts(part, 4) for part in parts))


def lane_wavefronts(rows: Addresses, size: int) -> Counts:
    """Count the passes of accesses that serve one lane a bank: those to one word wait in turn.

    Atomics in shared memory (`…_mem_shared_op_atom`, `memory_l1_wavefronts_shared`; the 22 cases
    atom_shared and red_shared, 4 bytes), and both sides of cp.async (`copy_rules.py`), by phases
    as in `wavefronts`.
    """
    phases = max(size // 4, 1)
    parts = np.split(rows, phases, axis=1)
    return np.asarray(sum(_conflicts(part, phases, shared=False) for part in parts))


def _phased(rows: Addresses, size: int, phases: int) -> Counts:
    """Count passes where the warp goes in `phases` equal parts, one after the other."""
    parts = np.split(rows, phases, axis=1)
    return np.asarray(sum(_conflicts(part, max(size // 4, 1)) for part in parts))


def _agree(rows: Addresses) -> npt.NDArray[np.bool_]:
    """Whether all active lanes t have the address of t ^ 1, or all of t ^ 2, where active."""
    found = np.zeros(len(rows), bool)
    for step in (1, 2):
        partner = rows[:, np.arange(rows.shape[1]) ^ step]
        same = (rows == partner) | (rows == NOBODY) | (partner == NOBODY)
        found |= same.all(axis=1)
    return found


def _conflicts(rows: Addresses, words: int, *, shared: bool = True) -> Counts:
    """Count the most words that fall in one bank: distinct ones, or those of each lane."""
    idle = rows == NOBODY
    start = rows >> np.uint64(2)
    each = [np.where(idle, _LAST, start + np.uint64(w)) for w in range(words)]
    word = np.sort(np.concatenate(each, axis=1), axis=1)
    counted = word != _LAST
    if shared:
        counted[:, 1:] &= word[:, 1:] != word[:, :-1]
    bank = (word % np.uint64(32)).astype(np.int64)
    counts = np.zeros((len(rows), 32), np.int64)
    row = np.broadcast_to(np.arange(len(rows))[:, None], word.shape)
    np.add.at(counts, (row[counted], bank[counted]), 1)
    return np.asarray(counts.max(axis=1))


# --- the L1 cache, before global and local memory -----------------------------------------------


def tag_wavefronts(rows: Addresses, size: int) -> Counts:
    """Count the passes through the tags of L1: one line in each of four sets a pass.

    An access takes as many passes as the fullest set has lines; at best a fourth of its lines.
    Which set holds a line depends on its whole address (`_SET_BITS`).

    Equals `l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld` and `_st` in all 172 cases of
    global memory (whose array lies behind 512 bytes of another), and the sums over 01_naive, whose
    warps read columns, within 4 in a million up to 1000³ and 2 in 100 000 at 4092³. Not fitted:
    example/matvec, 183 272, exact where its arrays' sizes place the matrix.
    """
    line = np.sort(_touched(rows, size, 7), axis=1)
    fresh = line != _LAST
    fresh[:, 1:] &= line[:, 1:] != line[:, :-1]
    number = _tag_set(line)
    return np.asarray(np.max([(fresh & (number == n)).sum(axis=1) for n in range(4)], axis=0))


def tag_turns(rows: Addresses) -> Iterator[Addresses]:
    """Yield the rows of an access's passes through the tags, none of whose lanes crosses a line.

    Each pass takes the next line of every set, in the order of their first lanes. An access whose
    data are yet to come goes through the data as through the tags: the sum of `wavefronts` over
    its turns is the `l1tex__data_pipe_lsu_wavefronts_mem_lgds` of all cases global_load32; wider
    loads, and stores, are between that and the count of the whole row.
    """
    active = rows != NOBODY
    line = rows >> np.uint64(7)
    same = line[:, :, None] == line[:, None, :]
    first = active & ~np.tril(same, -1).any(axis=2)
    number = _tag_set(line)
    of_set = (number[:, :, None] == number[:, None, :]) & first[:, None, :]
    place = np.tril(of_set, -1).sum(axis=2)  # among the lines of its set
    turn = np.where(active, np.take_along_axis(place, same.argmax(axis=2), axis=1), -1)
    for number_of_turn in range(1 + int(turn.max(initial=-1))):
        yield np.where(turn == number_of_turn, rows, NOBODY)


def global_wavefronts(rows: Addresses, size: int, *, placed: bool = False) -> Counts:
    """Cycles of the L1 for a global access that hits: its tags or its data, what takes longer.

    Data: 32 banks as in shared memory, by phases, without pairs. `placed`: the rows are addresses
    of the device; else they count from an unknown line on, and the tags are the mean over places.

    Source: the L1 of one H200 took this many cycles a load, within 0.1, for lanes 15 distances
    apart (benchmarks/results/calibration_nvidia_h200.json, stream-ldg32-l1-*). No counter is the
    larger of both; the data part equals `l1tex__data_pipe_lsu_wavefronts_mem_lgds` in all cases of
    global memory whose tags take one pass, and those of 01_naive at all sizes within 10 %.
    """
    banks = wavefronts(rows, size, load=False)
    if placed:
        return np.maximum(tag_wavefronts(rows, size), banks)
    spread = lines(rows, size) > banks  # the others' tags cannot take longer
    banks[spread] = np.maximum(tags_somewhere(rows[spread], size), banks[spread])
    return banks


def tags_somewhere(rows: Addresses, size: int) -> Counts:
    """Return the mean of the passes through the tags, rounded, over places of the row."""
    idle = rows == NOBODY
    moved = (np.where(idle, rows, rows + origin) for origin in _ORIGINS)
    passes = np.mean([tag_wavefronts(row, size) for row in moved], axis=0)
    return np.asarray(np.rint(passes).astype(np.int64))


def turns(rows: Addresses) -> Iterator[Addresses]:
    """Yield the rows of an atomic's turns: in each, every address has one lane at most.

    Sectors of a global atomic, summed over its turns, equal
    `l1tex__t_sectors_pipe_lsu_mem_global_op_atom` and `_red`, and its tag passes their
    `t_output_wavefronts`, in all 33 cases atom_global and red_global*.
    """
    same = rows[:, :, None] == rows[:, None, :]
    earlier = np.tril(same, -1).sum(axis=2)
    earlier[rows == NOBODY] = -1
    for turn in range(1 + int(earlier.max(initial=-1))):
        yield np.where(earlier == turn, rows, NOBODY)


def interleaved(rows: Addresses, size: int) -> tuple[Addresses, int]:
    """Return where local memory lies, and bytes a place: word w of a thread is beside the next's.

    Words of a wide access come one after the other, 32 places each. Sectors and tag passes of
    these places equal those of `l1tex__t_*_pipe_lsu_mem_local_op_st` in all 7 cases of local.

    Source: also CUDA C++ Programming Guide, Device Memory Accesses, Local Memory.
    """
    lanes = np.arange(32, dtype=np.uint64) * _WORD
    words = max(size // 4, 1)
    parts = []
    for word in range(words):
        start = rows // _WORD + np.uint64(word)
        place = start * np.uint64(LINE_BYTES) + lanes + rows % _WORD
        parts.append(np.where(rows == NOBODY, NOBODY, place))
    return np.concatenate(parts, axis=1), min(size, 4)


def _tag_set(line: Addresses) -> Counts:
    """Return which of the four sets holds the tag of each line."""
    low, high = (_parity(line & mask) for mask in _SET_MASKS)
    return low + 2 * high


def _parity(numbers: Addresses) -> Counts:
    """Return the parity of the low 16 bits of each number."""
    for shift in (8, 4, 2, 1):
        numbers = numbers ^ (numbers >> np.uint64(shift))
    return np.asarray((numbers & np.uint64(1)).astype(np.int64))

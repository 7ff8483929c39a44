"""Finds reads of shared memory that an asynchronous copy has yet to write: a wait is missing.

Or the copy was issued before all had read what was there. What it cannot see is a missing barrier
between a wait and the reads of other threads, where the warps run in an order that hides it.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt

from tilewright.emulator import state
from tilewright.emulator.faults import coordinates
from tilewright.emulator.observers import ATOMICS, LOADS, Batch
from tilewright.emulator.ops.accesses import access_bytes, is_copy
from tilewright.emulator.program import build
from tilewright.errors import RaceError, Site
from tilewright.launch import Launch
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.ptx.ir import Instruction

_WORD = 4
_SEGMENT = np.uint64(state.SEGMENT_SHIFT)
_OFFSETS = np.uint64(0xFFFFFFFF)
_MOST_BLOCKS = 256  # that are kept in mind: more never run at a time
Lanes = npt.NDArray[np.int64]


class EarlyReads:
    """An observer that ends the run, with a RaceError, at the first such read."""

    def __init__(self, artifact: Artifact, launch: Launch) -> None:
        program = build(artifact, launch, counting=True)
        self._kernel, self._launch = artifact.name, launch
        self._body = program.plan.function.body
        self._words = -(-program.layout.shared_bytes // _WORD)
        self._blocks: OrderedDict[int, _Block] = OrderedDict()
        self._copies = np.array([is_copy(ins) for ins in self._body], bool)
        waits = [ins.opcode == "cp" and not is_copy(ins) for ins in self._body]
        self._matters = np.array([_may_read(ins) for ins in self._body], bool) | waits

    def observe(self, batch: Batch) -> None:
        """Follow the events of one worker, in their order."""
        pcs = batch.events["pc"]
        matters = self._matters[pcs]
        matters[np.flatnonzero(self._copies[pcs])[1::2]] = True  # where each copy goes
        chosen = np.flatnonzero(matters & (batch.events["mask"] != 0))
        rows = batch.addresses(chosen)
        for event, row in zip(batch.events[chosen], rows, strict=True):
            lanes = np.flatnonzero(int(event["mask"]) >> np.arange(32) & 1)
            self._take(event, row, lanes)

    def _take(self, event: np.void, row: npt.NDArray[np.uint64], lanes: Lanes) -> None:
        ins, block = self._body[event["pc"]], self._block(int(event["block"]))
        warp = int(event["warp"])
        if self._copies[event["pc"]]:
            block.issue(warp, int(event["pc"]), lanes, _places(row[lanes], access_bytes(ins)))
        elif "commit_group" in ins.flags:
            block.groups[warp, lanes] += 1
        elif ins.opcode == "cp":
            block.wait(warp, lanes, int(event["base"].astype(np.int64)))
        elif ins.space == "shared" or row[lanes[0]] >> _SEGMENT == state.SHARED_SEGMENT:
            places = _places(row[lanes], max(access_bytes(ins), 1))
            early = np.argwhere(block.pending[places] >= 0)
            if early.size:
                lane, word = early[0]
                raise self._error(event, ins, int(lanes[lane]), int(places[lane, word]))

    def _block(self, number: int) -> _Block:
        if number not in self._blocks:
            warps = -(-self._launch.threads // 32)
            self._blocks[number] = _Block(self._words, warps)
            if len(self._blocks) > _MOST_BLOCKS:
                self._blocks.popitem(last=False)
        return self._blocks[number]

    def _error(self, event: np.void, ins: Instruction, lane: int, word: int) -> RaceError:
        number, threads = int(event["block"]), self._launch.block
        copy = self._body[self._blocks[number].pending[word]]
        place = f"{copy.location.file}:{copy.location.line}" if copy.location else "no source line"
        site = Site(
            kernel=self._kernel,
            instruction=ins.text,
            ptx_line=ins.ptx_line,
            source_file=ins.location.file if ins.location else None,
            source_line=ins.location.line if ins.location else None,
            block=coordinates(number, self._launch.grid),
            thread=coordinates(32 * int(event["warp"]) + lane, threads),
        )
        return RaceError(
            f"byte {_WORD * word} of shared memory is read while an asynchronous copy writes it "
            f"({place}, PTX line {copy.ptx_line}: {copy.text}): let the copying threads wait for "
            "it (cp.async.wait_group with fewer groups left) and the block meet at a barrier "
            "before the data is read, and meet again before the words are copied to anew",
            site,
        )


class _Block:
    """What is under way in one block: the copy that each word of shared memory waits for."""

    def __init__(self, words: int, warps: int) -> None:
        self.pending = np.full(words, -1, np.int32)  # the copy's pc
        self.groups = np.zeros((warps, 32), np.int64)
        # Of each warp: the copy's pc, and its lanes with their groups and words.
        self._copies: list[list[tuple[int, Lanes, Lanes, Lanes]]] = [[] for _ in range(warps)]

    def issue(self, warp: int, pc: int, lanes: Lanes, places: Lanes) -> None:
        """Note a copy of some lanes to their words."""
        self.pending[places] = pc
        self._copies[warp].append((pc, lanes, self.groups[warp, lanes].copy(), places))

    def wait(self, warp: int, lanes: Lanes, keep: int) -> None:
        """Complete the copies of some lanes but for those of their `keep` newest groups."""
        limit = np.full(32, -1, np.int64)
        limit[lanes] = self.groups[warp, lanes] - keep
        left = []
        for pc, these, groups, places in self._copies[warp]:
            done = groups < limit[these]
            self.pending[places[done]] = -1
            if not done.all():
                left.append((pc, these[~done], groups[~done], places[~done]))
        self._copies[warp] = left
        for pc, _, _, places in left:  # which may be words that are done, copied to anew
            self.pending[places] = pc


def _may_read(ins: Instruction) -> bool:
    return ins.opcode in LOADS | ATOMICS and ins.space in ("shared", None)


def _places(addresses: npt.NDArray[np.uint64], size: int) -> Lanes:
    """Return the words that each lane touches, [lanes, words]."""
    first = (addresses & _OFFSETS).astype(np.int64)[:, None]
    return np.asarray((first + np.arange(0, size, _WORD)) // _WORD)

"""A run of the PTX put on the machine code: every machine instruction with its counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.accesses import AccessKey, AccessSums, Integers, PtxCounts, Space
from tilewright.counters import Provenance
from tilewright.launch import Launch
from tilewright.model.anchors import kinds_of
from tilewright.model.executed import Executed, executed
from tilewright.model.kinds import merged
from tilewright.model.profile import AccessCounts, Counted, Loop, Profile, Way
from tilewright.model.widths import MACHINE, Image, Images, machine_bytes
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.resources import resources
from tilewright.toolchain.sass_flow import SassFlow

_LOCAL = {"LDL": "load", "STL": "store"}
_UNSURE = (
    "cp.async around L1 that fills with zeros alone, or wide through it with conflicts on both "
    "sides: its passes follow a rule that no reading of the profiler has settled"
)
_SUMS = ("requests", "sectors", "lines", "wavefronts", "ideal")


def bind(
    artifact: Artifact,
    images: Images,
    counts: PtxCounts,
    launch: Launch,
    *,
    blocks_run: int,
    sampled: bool = False,
) -> Profile:
    """Return the profile of a launch from the counts of all its blocks.

    `images` are those of the artifact, `counts` were taken with `images.widths()` and are already
    those of the whole grid; `blocks_run` is how many blocks they were taken from, and `sampled`
    whether those stand for others that may differ.
    """
    ran = executed(images, counts)
    accesses, beside, gaps = _accesses(images, counts, ran)
    threads = _threads(images, counts, ran)
    block_of = images.flow.block_of
    used = resources(artifact)
    provenance: dict[str, Provenance] = {"executed": "exact" if ran.exact else "derived"}
    provenance |= _provenance(gaps)
    notes = [*ran.gaps, *(text for _, text in gaps)]
    if sampled:
        provenance = dict.fromkeys(provenance, "derived")
        notes.append(
            f"{blocks_run} of {launch.blocks} blocks ran: the others are taken to be alike"
        )
    counted = tuple(
        Counted(
            instruction=ins,
            executed=ran.blocks[block_of[index]],
            threads=threads[index],
            access=accesses.get(index),
            beside=beside.get(index),
        )
        for index, ins in enumerate(images.flow.function.instructions)
    )
    return Profile(
        kernel=artifact.name,
        arch=artifact.arch,
        launch=launch,
        blocks_run=blocks_run,
        registers=used.registers,
        shared_bytes=used.shared_bytes + launch.shared_bytes,
        spill_bytes=max(used.local_bytes - images.local_bytes, 0),
        counted=counted,
        loops=_loops(images.flow, ran),
        edges=dict(ran.edges),
        kinds=merged(ran.kinds, images.flow),
        provenance=provenance,
        gaps=tuple(dict.fromkeys(notes)),
    )


def _provenance(gaps: Sequence[tuple[Space, str]]) -> dict[str, Provenance]:
    open_ = {space for space, _ in gaps}
    return {space: "derived" if space in open_ else "exact" for space in ("global", "shared")}


# --- accesses -------------------------------------------------------------------------------------


def _accesses(
    images: Images, counts: PtxCounts, ran: Executed
) -> tuple[dict[int, AccessCounts], dict[int, AccessCounts], list[tuple[Space, str]]]:
    """Share the accesses of each PTX line out to its machine accesses, by their executions.

    Returns also the shared side of copies, and what does not fit.
    """
    groups: dict[AccessKey, list[Image]] = {}
    for image in images.accesses:
        for key in counts.accesses:
            if key[0] == image.line and key[2] == image.width:
                groups.setdefault(key, []).append(image)
    found: dict[int, AccessCounts] = {}
    beside: dict[int, AccessCounts] = {}
    gaps: list[tuple[Space, str]] = []
    for key, group in groups.items():
        times = [ran.blocks[images.flow.block_of[image.index]] for image in group]
        sums = counts.accesses[key]
        for image, share in zip(group, _shares(sums, times), strict=True):
            each = _counts(images, image, key[1], share)
            (beside if each.way == "copy" else found)[image.index] = each
            if image.gap is not None and share.requests:
                gaps.append((key[1], image.gap))
    for index, ins in enumerate(images.flow.function.instructions):
        if ins.opcode in _LOCAL and index not in found:
            found[index] = _spill(images, index, ran.blocks[images.flow.block_of[index]])
    if counts.unsure:
        gaps.append(("shared", _UNSURE))
    return found, beside, gaps


def _counts(images: Images, image: Image, space: Space, share: AccessSums) -> AccessCounts:
    opcode = images.flow.function.instructions[image.index].opcode
    way: Way = "atomic"
    if opcode == "LDGSTS":
        way = "copy" if space == "shared" else "load"
    elif "ld" in MACHINE[opcode]:
        way = "load"
    elif "st" in MACHINE[opcode]:
        way = "store"
    sums = {name: getattr(share, name) for name in _SUMS}
    return AccessCounts(space=space, way=way, size=image.width.size, **sums)


def _shares(sums: AccessSums, times: Sequence[int]) -> list[AccessSums]:
    """Divide sums by executions; what fewer machine accesses than PTX accesses leave is dropped."""
    whole = max(sums.requests, sum(times))
    result = [dict.fromkeys(_SUMS, 0) for _ in times]
    for name in _SUMS:
        total = getattr(sums, name)
        ends = [total * sum(times[: n + 1]) // whole if whole else 0 for n in range(len(times))]
        if sum(times) >= sums.requests and ends:
            scale = sum(times) or 1
            ends = [total * sum(times[: n + 1]) // scale for n in range(len(times))]
        for n, end in enumerate(ends):
            result[n][name] = end - (ends[n - 1] if n else 0)
    return [AccessSums(**each) for each in result]


def _spill(images: Images, index: int, times: int) -> AccessCounts:
    """Count an access that the PTX does not have: a spilled register, one word of every lane."""
    ins = images.flow.function.instructions[index]
    words = max(machine_bytes(ins) // 4, 1)
    return AccessCounts(
        space="local",
        way="load" if ins.opcode == "LDL" else "store",
        size=machine_bytes(ins),
        requests=times,
        sectors=4 * words * times,
        lines=words * times,
        wavefronts=words * times,
        ideal=4 * words * times,
    )


# --- threads --------------------------------------------------------------------------------------


def _threads(images: Images, counts: PtxCounts, ran: Executed) -> list[int]:
    """Threads that executed each machine instruction, its predicate included where that is known.

    The threads of a PTX line are shared out to the machine instructions of its kind. A conditional
    jump has those that jump; another instruction as many an execution as the others of its block.
    """
    code, lanes = images.flow.function.instructions, _Lanes(counts)
    block_of = images.flow.block_of
    result: dict[int, int] = {}
    for line, indices in _of_a_kind(images).items():
        times = [ran.blocks[block_of[i]] for i in indices]
        total, everything = lanes.threads(line), sum(times)
        if total is not None and everything:
            total = min(total, 32 * everything)
            ends = [total * sum(times[: n + 1]) // everything for n in range(len(times))]
            result |= {i: ends[n] - (ends[n - 1] if n else 0) for n, i in enumerate(indices)}
    each = [_each(images, lanes, ran, result, n) for n in range(len(ran.blocks))]
    for number, block in enumerate(images.flow.cfg.blocks):
        for index in range(block.start, block.end):
            ins, times_here = code[index], ran.blocks[number]
            if index in result:
                continue
            result[index] = round(times_here * each[number])
            if ins.opcode == "BSYNC":  # lanes that come by different ways are together behind it
                behind = block.successors[0]
                result[index] = min(result[index], round(ran.blocks[behind] * each[behind]))
            if ins.predicate is None:
                continue
            if index == block.end - 1 and ins.opcode in ("BRA", "EXIT"):
                result[index] = _jumping(images.flow, ran, each, number)
            elif lanes.executed(ins.ptx_line) < times_here:  # a branch that became a predicate
                result[index] = lanes.threads(ins.ptx_line or 0) or 0
    return [result[index] for index in range(len(code))]


def _each(
    images: Images, lanes: _Lanes, ran: Executed, known: Mapping[int, int], number: int
) -> float:
    """Return how many threads execute an instruction of a block each time, on average."""
    block, code = images.flow.cfg.blocks[number], images.flow.function.instructions
    inside = [i for i in range(block.start, block.end) if code[i].predicate is None]
    if ran.blocks[number]:
        for index in inside:
            if known.get(index):
                return known[index] / ran.blocks[number]
    same = [i for i in inside if lanes.executed(code[i].ptx_line) == ran.blocks[number]]
    return next((e for i in same if (e := lanes.each(code[i].ptx_line))), lanes.usual)


def _jumping(graph: SassFlow, ran: Executed, each: Sequence[float], number: int) -> int:
    """Return the threads that leave a block by the conditional jump or exit at its end."""
    block = graph.cfg.blocks[number]
    whole = round(ran.blocks[number] * each[number])
    if block.leaves:  # those that are not in the next block any more
        after = number + 1
        return max(whole - round(ran.blocks[after] * each[after]), 0)
    taken = ran.edges.get((number, block.successors[0]))
    return whole if taken is None else min(round(taken * each[number]), whole)


def _of_a_kind(images: Images) -> dict[int, list[int]]:
    """Return the machine instructions that are each one PTX instruction, by its line."""
    found: dict[int, list[int]] = {}
    for image in images.accesses:
        found.setdefault(image.line, []).append(image.index)
    for index, ins in enumerate(images.flow.function.instructions):
        lines = images.ptx.get(ins.ptx_line or 0, ())
        if len(lines) == 1 and ins.opcode in kinds_of(lines[0]):
            found.setdefault(lines[0].ptx_line, []).append(index)
    return found


class _Lanes:
    """Threads by PTX line, summed over warps."""

    def __init__(self, counts: PtxCounts) -> None:
        self._places = {line: n for n, line in enumerate(counts.lines.tolist())}
        self._threads: Integers = counts.weights @ counts.threads
        self._executed: Integers = counts.weights @ counts.executed
        warps = int(counts.weights.sum())
        self.usual = float(counts.weights @ counts.lanes) / warps if warps else 32.0

    def threads(self, line: int) -> int | None:
        """Return the threads of a line; None for one that is not in the run."""
        place = self._places.get(line)
        return None if place is None else int(self._threads[place])

    def executed(self, line: int | None) -> int:
        """Return how often warps came to a line."""
        place = self._places.get(line or 0)
        return 0 if place is None else int(self._executed[place])

    def each(self, line: int | None) -> float | None:
        """Return the threads of each warp that executed a line; None if none did."""
        place = self._places.get(line or 0)
        if place is None or not self._executed[place]:
            return None
        return float(self._threads[place] / self._executed[place])


# --- loops ----------------------------------------------------------------------------------------


def _loops(graph: SassFlow, ran: Executed) -> tuple[Loop, ...]:
    """Return the loops of the machine code, by the order of their headers."""
    cfg = graph.cfg
    result = []
    for loop in cfg.loops:
        header = cfg.blocks[loop.header]
        body = [
            i for n in sorted(loop.blocks) for i in range(cfg.blocks[n].start, cfg.blocks[n].end)
        ]
        outside = [p for p in header.predecessors if p not in loop.blocks]
        inside = [p for p in header.predecessors if p in loop.blocks]
        trips = ran.blocks[loop.header]
        entries = _sum_of(ran.edges, outside, loop.header)
        if entries is None:
            back = _sum_of(ran.edges, inside, loop.header)
            entries = (
                trips - back
                if back is not None
                else min(trips, sum(ran.blocks[p] for p in outside))
            )
        result.append(
            Loop(
                header=header.start,
                body=tuple(body),
                depth=loop.depth,
                entries=entries,
                trips=trips,
            )
        )
    return tuple(result)


def _sum_of(
    edges: Mapping[tuple[int, int], int], sources: Sequence[int], target: int
) -> int | None:
    values = [edges.get((source, target)) for source in sources]
    return sum(v for v in values if v is not None) if None not in values else None

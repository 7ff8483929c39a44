"""A profile in the terms of the profiler and of the source: counters, inner loops, lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from tilewright.counters import Provenance
from tilewright.model.profile import AccessCounts, Counted, Loop, Profile
from tilewright.model.static import extent
from tilewright.toolchain.control import Control


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One counter of a launch. `metric` is the profiler's name of it, None where it has none."""

    name: str
    value: int
    metric: str | None
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerLoop:
    """A loop of the machine code that has none inside it.

    `instructions` are those of its body, `trips` its mean trip count, None where it never ran;
    `share` its part of all executed instructions, and `mix` how its own part among opcodes.
    `lines` are the first and last line of the source that it comes from, by file.
    `cycles_per_instruction` is the mean stall count of what is executed: how far apart one warp
    alone issues its instructions at best, None where the control fields were not given.
    """

    instructions: int
    trips: float | None
    share: float
    mix: Mapping[str, float]
    file: str | None
    lines: tuple[int, int] | None
    cycles_per_instruction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCounts:
    """What the machine code of one source line did.

    Units: `executed` warp-level instructions; the others as in `AccessCounts`, summed over the
    line's accesses to global memory (sectors) and to shared memory (wavefronts).
    """

    file: str
    line: int
    executed: int
    global_requests: int
    sectors: int
    ideal_sectors: int
    shared_requests: int
    wavefronts: int
    ideal_wavefronts: int

    @property
    def sectors_per_request(self) -> float | None:
        """Sectors a request to global memory; None without one."""
        return self.sectors / self.global_requests if self.global_requests else None

    @property
    def wavefronts_per_request(self) -> float | None:
        """Passes through the banks of a request to shared memory; None without one."""
        return self.wavefronts / self.shared_requests if self.shared_requests else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a reader of a profile looks at first."""

    counters: tuple[Figure, ...]
    loops: tuple[InnerLoop, ...]
    lines: tuple[LineCounts, ...]

    def value(self, name: str) -> int:
        """Return the counter `name`, 0 where the launch has none of it."""
        return next((f.value for f in self.counters if f.name == name), 0)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "counters": [asdict(figure) for figure in self.counters],
            "loops": [asdict(loop) for loop in self.loops],
            "lines": [asdict(line) for line in self.lines],
        }


def summarize(profile: Profile, control: Mapping[int, Control] | None = None) -> Summary:
    """Return the counters, inner loops and lines of a profile.

    `control` are the control fields of its instructions by address.
    """
    return Summary(
        counters=tuple(_counters(profile)),
        loops=tuple(_inner_loops(profile, control)),
        lines=tuple(_lines(profile.counted)),
    )


# Space, way, what is counted, and the profiler's name of the sum.
# Source: Nsight Compute, `ncu --query-metrics` and the Metrics Reference.
_L1 = "l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
_ACCESSES: Sequence[tuple[str, str, str, str | None]] = (
    ("global", "load", "requests", _L1.format(what="requests", op="ld")),
    ("global", "load", "sectors", _L1.format(what="sectors", op="ld")),
    ("global", "store", "requests", _L1.format(what="requests", op="st")),
    ("global", "store", "sectors", _L1.format(what="sectors", op="st")),
    ("global", "atomic", "requests", None),
    ("global", "atomic", "sectors", None),
    ("shared", "load", "requests", "smsp__inst_executed_op_shared_ld.sum"),
    ("shared", "load", "wavefronts", None),
    ("shared", "store", "requests", "smsp__inst_executed_op_shared_st.sum"),
    ("shared", "store", "wavefronts", None),
    ("shared", "copy", "requests", "smsp__inst_executed_op_ldgsts.sum"),
    ("shared", "copy", "wavefronts", None),
    ("shared", "atomic", "requests", None),
    ("shared", "atomic", "wavefronts", None),
    ("local", "load", "sectors", None),
    ("local", "store", "sectors", None),
)


def _counters(profile: Profile) -> Iterable[Figure]:
    counted = profile.counted
    provenance = profile.provenance
    ran = provenance.get("executed", "derived")
    executed = sum(c.executed for c in counted)
    yield Figure(
        name="warp instructions",
        value=executed,
        metric="smsp__inst_executed.sum",
        provenance=ran,
    )
    fused = sum(c.threads for c in counted if c.instruction.opcode == "FFMA")
    if fused:
        yield Figure(
            name="FFMA thread instructions",
            value=fused,
            metric="smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
            provenance=ran,
        )
    for space, way, what, metric in _ACCESSES:
        found = [a for a in _accesses(counted) if (a.space, a.way) == (space, way)]
        value = sum(getattr(a, what) for a in found)
        if found:
            origin = provenance.get(space, "derived")
            name = f"{space} {way} {what}"
            yield Figure(name=name, value=value, metric=metric, provenance=origin)
    shared = [a for a in _accesses(counted) if a.space == "shared"]
    if shared:
        for name, field, metric in (
            ("shared wavefronts", "wavefronts", "memory_l1_wavefronts_shared"),
            ("  the fewest possible", "ideal", "memory_l1_wavefronts_shared_ideal"),
        ):
            yield Figure(
                name=name,
                value=sum(getattr(a, field) for a in shared),
                metric=metric,
                provenance=provenance.get("shared", "derived"),
            )


def _accesses(counted: Iterable[Counted]) -> list[AccessCounts]:
    return [a for c in counted for a in (c.access, c.beside) if a is not None]


def _inner_loops(profile: Profile, control: Mapping[int, Control] | None) -> Iterable[InnerLoop]:
    """Yield the innermost loops, the busiest first."""
    everything = sum(c.executed for c in profile.counted) or 1
    found = []
    for loop in profile.loops:
        body = set(loop.body)
        if any(set(other.body) < body for other in profile.loops):
            continue
        inside = [profile.counted[i] for i in loop.body]
        executed = sum(c.executed for c in inside)
        found.append((executed, loop, inside))
    for executed, loop, inside in sorted(found, key=lambda each: -each[0]):
        file, lines = extent([c.instruction for c in inside])
        yield InnerLoop(
            instructions=len(loop.body),
            trips=_trips(loop),
            share=executed / everything,
            mix=_mix(inside, executed),
            file=file,
            lines=lines,
            cycles_per_instruction=_apart(inside, executed, control),
        )


def _apart(
    inside: Sequence[Counted], executed: int, control: Mapping[int, Control] | None
) -> float | None:
    if control is None or not executed:
        return None
    stalls = sum(max(control[c.instruction.address].stall, 1) * c.executed for c in inside)
    return stalls / executed


def _trips(loop: Loop) -> float | None:
    return loop.trips / loop.entries if loop.entries else None


def _mix(inside: Sequence[Counted], executed: int) -> dict[str, float]:
    times: Counter[str] = Counter()
    for counted in inside:
        times[counted.instruction.opcode] += counted.executed
    return {opcode: n / executed for opcode, n in times.most_common()} if executed else {}


def _lines(counted: Iterable[Counted]) -> Iterable[LineCounts]:
    """Yield the lines that the machine code comes from, in the order of files and lines."""
    groups: dict[tuple[str, int], list[Counted]] = defaultdict(list)
    for each in counted:
        place = each.instruction.location
        if place is not None:
            groups[place.file, place.line].append(each)
    for (file, line), group in sorted(groups.items()):
        far = [a for a in _accesses(group) if a.space == "global"]
        near = [a for a in _accesses(group) if a.space == "shared"]
        yield LineCounts(
            file=file,
            line=line,
            executed=sum(each.executed for each in group),
            global_requests=sum(a.requests for a in far),
            sectors=sum(a.sectors for a in far),
            ideal_sectors=sum(a.ideal for a in far),
            shared_requests=sum(a.requests for a in near),
            wavefronts=sum(a.wavefronts for a in near),
            ideal_wavefronts=sum(a.ideal for a in near),
        )

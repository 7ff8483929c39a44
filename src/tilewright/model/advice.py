"""What to change first: up to three suggestions, each with the gain that the model predicts.

Candidates come from the counts; those that answer what warps wait for are put to the time model
with the one cost taken away, which gives the most that mending it can give. What is really tried
(another tile, compiled and counted) comes in as it is and is ranked beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from tilewright.gpus import Gpu, Occupancy
from tilewright.model.candidates import Candidate, candidates
from tilewright.model.estimate import Estimate
from tilewright.model.neighbours import runs_of_neighbours
from tilewright.model.profile import Profile
from tilewright.model.summary import Summary
from tilewright.model.whatif import COMPARING, Case, most_by_bandwidth, narrowed, widened

MOST = 3
_MOST_RUNS = 3  # what-ifs that are simulated at most
_LEAST_GAIN = 1.02  # a smaller one is within what the model can tell
_BUSY = 0.6  # of the DRAM's time, from which fewer bytes are worth a word
_UNEVEN = 1.05  # rounds of blocks over those that even work would take
# Reasons that are no wait: the warp was ready, or issued.
_READY = frozenset({"selected"})

Basis = Literal["tried", "what-if", "counted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One thing to change, with what the model says it gives.

    `gain` is old time over new, modelled: of the kernel so changed where `basis` is "tried"; of
    one that loses the cost and pays nothing for it, "what-if", so it is the most there is to gain;
    None where the time was not asked ("counted"). `stall` is what warps wait for that it answers,
    and `place` the source line that costs most.
    """

    kind: str
    text: str
    basis: Basis
    gain: float | None = None
    stall: str | None = None
    place: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self) | {"provenance": "derived" if self.gain is None else "modelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A launch that the time model was asked about, with its answers.

    `rough` is simulated as what-ifs are, to compare with them; `estimate` is what is reported.
    """

    case: Case
    estimate: Estimate
    rough: Estimate


def advise(
    profile: Profile,
    summary: Summary,
    gpu: Gpu,
    occupancy: Occupancy,
    *,
    asked: Asked | None = None,
    tried: Callable[[], Sequence[Suggestion]] = tuple,
) -> tuple[Suggestion, ...]:
    """Return suggestions, the most promising first: by the model's gain where it was asked.

    `asked` is None where only counts are there; `tried` gives suggestions whose gains are known,
    and is asked last, since it may have to wait.
    """
    found = candidates(profile, summary, gpu, occupancy)
    if asked is None:
        by_share = sorted(found, key=lambda c: -c.share)
        plain = ("spills", "coalescing", "bank conflicts", "occupancy", "loop overhead")
        return tuple(_counted(c) for c in by_share if c.kind in plain)[:MOST]
    case, estimate = asked.case, asked.estimate
    waits = _waits(estimate)
    found += [*_wider(case), *_fewer_bytes(case, estimate)]
    scored = [(_score(c, waits, estimate), n, c) for n, c in enumerate(found)]
    shown = (each for each in scored if each[0] > 0 and each[2].change is not None)
    runs = sorted(shown, key=lambda each: (-each[0], each[1]))
    mended = [_what_if(c, asked, waits) for _, _, c in runs[:_MOST_RUNS]]
    return best([*tried(), *_uneven(profile, gpu, estimate), *_many(profile, estimate), *mended])


def best(found: Sequence[Suggestion]) -> tuple[Suggestion, ...]:
    """Return those that gain something, the largest gain first, at most `MOST`."""
    worth = [s for s in found if s.gain is not None and s.gain >= _LEAST_GAIN]
    return tuple(sorted(worth, key=lambda s: -(s.gain or 0.0))[:MOST])


def _waits(estimate: Estimate) -> dict[str, float]:
    """Return what part of the warps' time each stall is."""
    waits = {name: n for name, n in estimate.stalls.items() if name not in _READY}
    total = sum(waits.values())
    return {name: n / total for name, n in waits.items()} if total else {}


def _score(candidate: Candidate, waits: dict[str, float], estimate: Estimate) -> float:
    """Return how much of the waiting a change would answer, at first sight."""
    if candidate.kind == "fewer bytes":
        return estimate.demand.get("dram", 0.0) * candidate.share
    return candidate.share * sum(waits.get(stall, 0.0) for stall in candidate.stalls)


def _what_if(candidate: Candidate, asked: Asked, waits: dict[str, float]) -> Suggestion:
    before = asked.rough
    mended = candidate.change(asked.case) if candidate.change is not None else asked.case
    gain = before.seconds / mended.estimate(effort=COMPARING).seconds
    if candidate.kind == "prefetching":
        gain = min(gain, most_by_bandwidth(before))
    stall = max(candidate.stalls, key=lambda name: (waits.get(name, 0.0), name), default=None)
    return Suggestion(
        kind=candidate.kind,
        text=candidate.text,
        basis="what-if",
        gain=gain,
        stall=stall,
        place=candidate.place,
    )


def _counted(candidate: Candidate) -> Suggestion:
    return Suggestion(
        kind=candidate.kind, text=candidate.text, basis="counted", place=candidate.place
    )


def _wider(case: Case) -> list[Candidate]:
    runs = runs_of_neighbours(case.profile, case.flow)
    code = case.profile.counted
    saved = sum(code[i].executed for run in runs for i in run[1:])
    memory = sum(c.executed for c in code if c.access is not None)
    if not saved:
        return []
    worst = max(runs, key=lambda run: code[run[0]].executed)
    ins = code[worst[0]].instruction
    place = f"{ins.location.file}:{ins.location.line}" if ins.location else None
    words = len(worst) * (code[worst[0]].access.size // 4 if code[worst[0]].access else 1)  # type: ignore[union-attr]
    near = ins.opcode in ("LDS", "STS")
    return [
        Candidate(
            kind="wide accesses",
            text=(
                f"{place or 'the kernel'} moves {words} neighbouring words one by one "
                f"({len(worst)} {ins.mnemonic}): as a float{words} (reinterpret_cast of an "
                "aligned pointer) they are one instruction"
            ),
            place=place,
            stalls=frozenset({"mio_throttle", "short_scoreboard"})
            if near
            else frozenset({"lg_throttle", "long_scoreboard"}),
            share=saved / memory,
            change=lambda case: widened(case, runs),
        )
    ]


def _fewer_bytes(case: Case, estimate: Estimate) -> list[Candidate]:
    busy = min(estimate.demand.get("dram", 0.0), 1.0)
    if busy < _BUSY:
        return []
    return [
        Candidate(
            kind="fewer bytes",
            text=(
                f"the DRAM is busy {busy:.0%} of the time, so only fewer bytes help: keep the data "
                "in float16 or bfloat16, or join this kernel with the one that makes or reads it"
            ),
            place=None,
            stalls=frozenset({"long_scoreboard"}),
            share=0.5,
            change=narrowed,
        )
    ]


def _many(profile: Profile, estimate: Estimate) -> list[Suggestion]:
    """More blocks than can be started while the others run."""
    if not estimate.is_starting:
        return []
    cycles = estimate.cycles / estimate.clock_hz
    text = (
        f"{profile.launch.blocks:,} blocks take {1e6 * cycles:.3g} µs to start, one after the "
        "other: let as many as fit at a time each loop over the work"
    )
    rest = sorted(estimate.demand.values())[-2]  # of the busiest other unit
    bound = estimate.seconds / (estimate.seconds - cycles * (1 - rest))
    return [Suggestion(kind="many blocks", text=text, basis="what-if", gain=bound)]


def _uneven(profile: Profile, gpu: Gpu, estimate: Estimate) -> list[Suggestion]:
    """Blocks that leave SMs without work: in the only round, or in the last."""
    blocks, sms = profile.launch.blocks, gpu.sm_count
    rounds = -(-blocks // sms)
    gain = rounds * sms / blocks
    if gain < _UNEVEN:
        return []
    if rounds == 1:
        text = (
            f"only {blocks} of {sms} SMs get a block: smaller blocks of work, or several blocks "
            "for one sum (split along k), give every SM some"
        )
    else:
        text = (
            f"{blocks} blocks on {sms} SMs leave {rounds * sms - blocks} SMs idle at the end: "
            "another tile, or as many blocks as fit at a time that each loop over the work"
        )
    cycles = estimate.cycles / estimate.clock_hz
    fixed = estimate.seconds - cycles  # the launch itself
    bound = estimate.seconds / (fixed + cycles / gain)
    return [Suggestion(kind="idle SMs", text=text, basis="what-if", gain=bound)]

"""The ladder on whatever there is: a GPU, timed beside cuBLAS; or none, emulated. Both count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from tilewright.bench.emulated_ladder import EmulatedLadder, Progress
from tilewright.device import DeviceInfo, probe
from tilewright.errors import DeviceError, LaunchError
from tilewright.gpus import Gpu, by_device_name, gpu
from tilewright.kernels import Rung
from tilewright.problem import Problem
from tilewright.records import LadderRecord

Backend: TypeAlias = Literal["emulator", "device"]
# Called with the rung that starts; returns what to tell of its blocks.
Watch: TypeAlias = Callable[[Rung], Progress | None]

CHAPTER_GPU = "RTX A6000"
CHAPTER_SIZE = 4092


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to climb on: the GPU that kernels are compiled for, and where they run."""

    gpu: Gpu
    backend: Backend
    device: DeviceInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rung done: its record, and what its check found in a sentence."""

    record: LadderRecord
    message: str


def choose(
    name: str | None,
    backend: Literal["auto", "emulator", "device"],
    fallback: str = CHAPTER_GPU,
) -> Target:
    """Choose the GPU and the backend from what was asked for and what this machine has.

    `fallback` is the GPU to emulate where none was named.

    Raises:
        UnknownNameError: a GPU that is not in the table.
        UnsupportedError: a GPU that no compiler here reaches.
        DeviceError: a device was asked for, and there is none.
        LaunchError: a device was asked for, and it is another GPU than `name`.
    """
    asked = gpu(name) if name is not None else None
    found = None if backend == "emulator" else probe()
    card = by_device_name(found.name) if isinstance(found, DeviceInfo) else None
    if backend == "device":
        if not isinstance(found, DeviceInfo):
            raise DeviceError(f"no GPU to run on: {found}; leave --backend out")
        if card is None:
            raise DeviceError(f"{found.name} is not in the table of GPUs (tilewright gpus)")
        if asked is not None and asked != card:
            raise LaunchError(
                f"this machine has a {card.name}, not a {asked.name}: leave --gpu or --backend out"
            )
    if isinstance(found, DeviceInfo) and card is not None and asked in (None, card):
        return Target(gpu=card, backend="device", device=found)
    chosen = asked or gpu(fallback)
    chosen.require_arch()
    return Target(gpu=chosen, backend="emulator")


def climb(
    problem: Problem,
    rungs: Sequence[Rung],
    target: Target,
    *,
    full: bool = False,
    environment: str | None = None,
    watch: Watch = lambda _: None,
) -> Iterator[Step]:
    """Run rungs one after the other, as they are asked for.

    On a device each is verified and timed there, and its counts come from the emulator, which
    runs the same kernel with the same tile.

    Raises:
        ProblemError: operands that do not fit in memory.
        TilewrightError: what a kernel's compile, emulation or launch raises.
    """
    ladder = EmulatedLadder(problem, target.gpu, full=full, environment=environment)
    if target.backend == "emulator":
        for rung in rungs:
            done = ladder.measure(rung, progress=watch(rung))
            yield Step(
                record=done.record,
                message=done.verification.message((done.tile.bm, done.tile.bn)),
            )
        return
    from tilewright.bench.device_ladder import DeviceLadder

    with DeviceLadder(problem, environment=environment) as device:
        for rung in rungs:
            progress = watch(rung)
            measured = device.measure(rung)
            counted = ladder.measure(rung, progress=progress).record
            record = replace(
                measured.record,
                counters=counted.counters,
                sectors_per_request=counted.sectors_per_request,
                provenance={**counted.provenance, **measured.record.provenance},
            )
            tile = measured.tile
            message = measured.verification.message((tile.bm, tile.bn))
            yield Step(record=record, message=message)

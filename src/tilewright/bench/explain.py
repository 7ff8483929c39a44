"""One launch explained: what `tilewright explain` and `tilewright.explain` give."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tilewright.bench.profiling import profile_kernel, profile_rung, rung_launch
from tilewright.bench.timing_model import launch_case
from tilewright.bench.trials import MOST_TRIED, Trials
from tilewright.emulator.prepare import Prepared
from tilewright.errors import UnsupportedError
from tilewright.gpus import Gpu, Occupancy, occupancy
from tilewright.kernels import Rung
from tilewright.launch import Argument, Launch
from tilewright.model.advice import Asked, Suggestion, advise
from tilewright.model.estimate import Estimate
from tilewright.model.profile import Profile
from tilewright.model.roofline import Roofline, roofline
from tilewright.model.static import MachineCode, machine_code
from tilewright.model.summary import Summary, summarize
from tilewright.model.whatif import COMPARING
from tilewright.problem import Problem
from tilewright.toolchain import Artifact
from tilewright.toolchain.assembler import with_machine_code
from tilewright.toolchain.control import control_codes

# Blocks that are run where a launch has more; their counts then stand for all.
SAMPLED_BLOCKS = 256
# Instructions of warps after which fewer blocks do: a second's worth or two on one core.
SAMPLED_INSTRUCTIONS = 30_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What there is to say of one launch.

    `sources` are the texts of the source files, by the names that line information gives them.
    `estimate` is the time model's answer and `roofline` where that puts the launch, None where it
    was not asked; `suggestions` say what to change first, at most three.
    """

    profile: Profile
    summary: Summary
    gpu: Gpu
    occupancy: Occupancy
    sources: Mapping[str, str]
    estimate: Estimate | None = None
    roofline: Roofline | None = None
    suggestions: tuple[Suggestion, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        p, time = self.profile, self.estimate
        return {
            "kernel": p.kernel,
            "gpu": self.gpu.name,
            "arch": p.arch,
            "grid": list(p.launch.grid),
            "block": list(p.launch.block),
            "shared_bytes": p.launch.shared_bytes,
            "blocks_run": p.blocks_run,
            "registers": p.registers,
            "spill_bytes": p.spill_bytes,
            "estimate": None if time is None else asdict(time) | {"provenance": "modelled"},
            **self.summary.to_json(),
            "occupancy": self.occupancy.to_json(),
            "provenance": dict(p.provenance),
            "gaps": list(p.gaps),
            "roofline": None if self.roofline is None else self.roofline.to_json(),
            "suggestions": [each.to_json() for each in self.suggestions],
        }


def explain_kernel(
    ready: Prepared,
    args: Sequence[Argument],
    *,
    blocks: int | None = SAMPLED_BLOCKS,
    folders: Sequence[str | Path] = (),
    timed: bool = True,
) -> Explained:
    """Run a prepared launch and explain it. Arrays in `args` are written.

    `blocks` is how many blocks to run at most, spread over the grid, and fewer of them where
    those execute SAMPLED_INSTRUCTIONS; None runs all. `folders` are
    where the source and its includes are, to show their lines. `timed` asks the time
    model too.

    Raises:
        UnsupportedError: an instruction that the emulator lacks.
        ToolchainError: PTX, and nothing to assemble it with.
        LaunchError: arguments that do not fit the kernel.
        EmulationError: a fault of the kernel, with its source line, block and thread.
    """
    sample = spread(ready.launch, blocks)
    artifact = assembled(ready)
    enough = SAMPLED_INSTRUCTIONS
    profile = profile_kernel(artifact, ready.launch, args, sample=sample, enough=enough)
    text = artifact.source or artifact.ptx
    told = _explained(profile, ready.gpu, artifact, text, folders)
    return _timed(told, artifact, args) if timed else _advised(told)


def explain_rung(
    rung: Rung, problem: Problem, gpu: Gpu, *, timed: bool = True, tries: int = MOST_TRIED
) -> Explained:
    """Explain a rung of the ladder on a problem, exactly, and try what else could be launched.

    `tries` is how many others are tried: the next rung, then other tiles. Raises what
    `profile_rung` does.
    """
    with ProcessPoolExecutor(  # not a thread: most of the work is in Python
        1,
        mp_context=multiprocessing.get_context("spawn"),  # one with threads must not fork
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),  # it is the parent that stops
    ) as pool:
        trials = Trials(pool, rung, problem, gpu, tries if timed else 0)
        profile = profile_rung(rung, problem, gpu)
        artifact, _, args = rung_launch(rung, problem, gpu)
        told = _explained(profile, gpu, artifact, artifact.source, rung.include_dirs)
        return _timed(told, artifact, args, trials) if timed else _advised(told)


def _advised(told: Explained) -> Explained:
    found = advise(told.profile, told.summary, told.gpu, told.occupancy)
    return replace(told, suggestions=found)


def _timed(
    told: Explained,
    artifact: Artifact,
    args: Sequence[Argument],
    trials: Trials | None = None,
) -> Explained:
    """Add what the time model says; of a rung, with other tiles tried."""
    profile, gpu = told.profile, told.gpu
    case = launch_case(artifact, profile.launch, args, profile, gpu)
    modelled, rough = case.estimates(1.0, COMPARING)
    asked = Asked(case=case, estimate=modelled, rough=rough)
    tried = trials.start(asked) if trials is not None else tuple
    found = advise(profile, told.summary, gpu, told.occupancy, asked=asked, tried=tried)
    return replace(
        told,
        estimate=modelled,
        roofline=roofline(case, modelled.seconds),
        suggestions=found,
    )


def assembled(ready: Prepared) -> Artifact:
    """Return the artifact with machine code: PTX that was given as such has none yet."""
    artifact = ready.artifact
    return artifact if artifact.cubin else with_machine_code(artifact, ready.gpu.require_arch())


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticHalf:
    """What there is to say of a launch that cannot be run here: what its machine code tells.

    `reason` names the instruction that the emulator lacks, with its line.
    """

    launch: Launch
    gpu: Gpu
    code: MachineCode
    occupancy: Occupancy
    reason: str

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by the names that `Explained.to_json` has."""
        return {
            "kernel": self.code.kernel,
            "gpu": self.gpu.name,
            "arch": self.code.arch,
            "grid": list(self.launch.grid),
            "block": list(self.launch.block),
            "shared_bytes": self.code.needs.shared_bytes + self.launch.shared_bytes,
            "blocks_run": 0,
            "not_run": self.reason,
            "registers": self.code.needs.registers,
            "machine_code": self.code.to_json(),
            "occupancy": self.occupancy.to_json(),
        }


def static_half(ready: Prepared, error: UnsupportedError) -> StaticHalf:
    """Return what is known of a launch without running it. Raises what `machine_code` does."""
    code = machine_code(assembled(ready))
    return StaticHalf(
        launch=ready.launch,
        gpu=ready.gpu,
        code=code,
        occupancy=occupancy(
            gpu=ready.gpu,
            threads=ready.launch.threads,
            registers=code.needs.registers,
            shared_bytes=code.needs.shared_bytes,
            dynamic_shared_bytes=ready.launch.shared_bytes,
        ),
        reason=str(error),
    )


def spread(launch: Launch, most: int | None) -> list[int] | None:
    """Return at most `most` block numbers, evenly over the grid, the last among them.

    None stands for all blocks.
    """
    blocks = launch.blocks
    if most is None or blocks <= most:
        return None
    return sorted({(blocks - 1) * i // max(most - 1, 1) for i in range(most)})


def _explained(
    profile: Profile, gpu: Gpu, artifact: Artifact, text: str, folders: Sequence[str | Path]
) -> Explained:
    name = artifact.source_name
    summary = summarize(profile, control_codes(artifact))
    dynamic = profile.launch.shared_bytes
    return Explained(
        profile=profile,
        summary=summary,
        gpu=gpu,
        occupancy=occupancy(
            gpu=gpu,
            threads=profile.launch.threads,
            registers=profile.registers,
            shared_bytes=profile.shared_bytes - dynamic,
            dynamic_shared_bytes=dynamic,
        ),
        sources={name: text, **_texts({line.file for line in summary.lines} - {name}, folders)},
    )


def _texts(names: set[str], folders: Sequence[str | Path]) -> dict[str, str]:
    """Return the texts of the files of these names that are in one of the folders."""
    found = {}
    for name in sorted(names):
        for folder in folders:
            path = Path(folder) / name
            if path.is_file():
                found[name] = path.read_text(encoding="utf-8", errors="replace")
                break
    return found

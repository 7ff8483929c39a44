"""One launch explained: what `tilewright explain` and `tilewright.explain` give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tilewright.bench.explain import profile_kernel, profile_rung, rung_launch
from tilewright.bench.timing_model import estimate_launch
from tilewright.emulator.prepare import Prepared
from tilewright.gpus import Gpu, Occupancy, occupancy
from tilewright.kernels import Rung
from tilewright.launch import Argument, Launch
from tilewright.model.estimate import Estimate
from tilewright.model.findings import findings
from tilewright.model.profile import Profile
from tilewright.model.summary import Summary, summarize
from tilewright.problem import Problem
from tilewright.toolchain import Artifact, resources
from tilewright.toolchain.assembler import with_machine_code

# Blocks that are run where a launch has more; their counts then stand for all.
SAMPLED_BLOCKS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What there is to say of one launch.

    `sources` are the texts of the source files, by the names that line information gives them.
    `estimate` is the time model's answer, None where it was not asked.
    """

    profile: Profile
    summary: Summary
    gpu: Gpu
    occupancy: Occupancy
    sources: Mapping[str, str]
    estimate: Estimate | None = None

    @property
    def suggestions(self) -> list[str]:
        """What to look at first, at most three."""
        return findings(self.profile, self.summary, self.gpu, self.occupancy)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        p = self.profile
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
            "estimate": None if self.estimate is None else asdict(self.estimate),
            **self.summary.to_json(),
            "occupancy": self.occupancy.to_json(),
            "provenance": dict(p.provenance),
            "gaps": list(p.gaps),
            "suggestions": self.suggestions,
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

    `blocks` is how many blocks to run at most, spread over the grid; None runs all. `folders` are
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
    profile = profile_kernel(artifact, ready.launch, args, sample=sample)
    text = artifact.source or artifact.ptx
    told = _explained(profile, ready.gpu, artifact.source_name, text, folders)
    return _timed(told, artifact, args) if timed else told


def explain_rung(rung: Rung, problem: Problem, gpu: Gpu, *, timed: bool = True) -> Explained:
    """Explain a rung of the ladder on a problem, exactly. Raises what `profile_rung` does."""
    profile = profile_rung(rung, problem, gpu)
    artifact, _, args = rung_launch(rung, problem, gpu)
    told = _explained(profile, gpu, artifact.source_name, artifact.source, rung.include_dirs)
    return _timed(told, artifact, args) if timed else told


def _timed(told: Explained, artifact: Artifact, args: Sequence[Argument]) -> Explained:
    profile, gpu = told.profile, told.gpu
    modelled = estimate_launch(artifact, profile.launch, args, profile, gpu)
    return replace(told, estimate=modelled)


def assembled(ready: Prepared) -> Artifact:
    """Return the artifact with machine code: PTX that was given as such has none yet."""
    artifact = ready.artifact
    return artifact if artifact.cubin else with_machine_code(artifact, ready.gpu.require_arch())


def occupancy_of(ready: Prepared) -> Occupancy:
    """Return the occupancy of a launch from the machine code alone: nothing runs."""
    needs = resources(assembled(ready))
    return occupancy(
        gpu=ready.gpu,
        threads=ready.launch.threads,
        registers=needs.registers,
        shared_bytes=needs.shared_bytes,
        dynamic_shared_bytes=ready.launch.shared_bytes,
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
    profile: Profile, gpu: Gpu, name: str, text: str, folders: Sequence[str | Path]
) -> Explained:
    summary = summarize(profile)
    dynamic = profile.launch.shared_bytes
    return Explained(
        profile=profile,
        summary=summary,
        gpu=gpu,
        occupancy=occupancy(
            gpu=gpu,
            threads=profile.launch.threads,
            registers=profile.registers,
            shared_bytes=profile.shared_bytes,
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

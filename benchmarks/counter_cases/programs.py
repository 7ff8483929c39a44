"""Whole kernels: the rungs of the ladder with their H200 tiles, and the examples."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.kernels import RUNGS, Rung, Tile, rung
from tilewright.launch import Argument, Launch
from tilewright.launchfile import LaunchSpec, read_launch_file
from tilewright.problem import Problem
from tilewright.toolchain import Artifact, compile_cuda

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
GPU = "H200"
ARCH = "sm_90"
# As the public measurements do, C is read and blended; with beta below 1 it stays finite however
# often the profiler replays a launch.
ALPHA, BETA = 0.5, 0.5
# Cheap for the emulator, 1000 with ragged edges; then those whose stalls are of interest.
SMALL, LARGE = (256, 512, 1000), (4096, 4092)

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class RungCase:
    """One rung of the ladder on a problem of m = n = k = `size`."""

    name: str
    rung: Rung
    tile: Tile
    size: int

    @property
    def problem(self) -> Problem:
        """The problem that it computes."""
        return Problem(m=self.size, n=self.size, k=self.size, alpha=ALPHA, beta=BETA)

    def artifact(self) -> Artifact:
        """Compile the kernel."""
        return compile_cuda(
            self.rung.source,
            self.rung.expression(self.tile),
            arch=ARCH,
            include_dirs=self.rung.include_dirs,
        )

    def launch(self) -> Launch:
        """Return the launch that covers C."""
        return self.rung.launch(self.problem, self.tile)

    def arguments(self) -> list[Argument]:
        """Return the arguments: A and B shared between cases of one size, C fresh."""
        a, b, c = _operands(self.size)
        args = self.rung.arguments(self.problem, a, b, c.copy())
        return [*args, *self.rung.workspace(self.problem, self.tile)]

    def to_json(self) -> dict[str, object]:
        """Return what `from_json` takes."""
        return {"rung": self.rung.name, "tile": self.tile.to_json(), "size": self.size}

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> RungCase:
        """Rebuild a case from its record."""
        tile = Tile.from_json(data["tile"])
        return cls(name=name, rung=rung(data["rung"]), tile=tile, size=data["size"])


@functools.lru_cache(maxsize=1)
def _operands(size: int) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((size, size), np.float32) for _ in range(3))
    return a, b, c


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleCase:
    """One launch file of the examples."""

    name: str
    spec: LaunchSpec

    def artifact(self) -> Artifact:
        """Compile the kernel."""
        return compile_cuda(
            Path(self.spec.source),
            self.spec.kernel or only_kernel(Path(self.spec.source)),
            arch=ARCH,
            options=self.spec.options,
            include_dirs=self.spec.include_dirs,
        )

    def launch(self) -> Launch:
        """Return the launch that the file gives."""
        return self.spec.launch

    def arguments(self) -> list[Argument]:
        """Return fresh arguments."""
        return self.spec.make_arguments()

    def to_json(self) -> dict[str, object]:
        """Return what `from_json` takes: paths relative to the repository."""
        plain = self.spec.to_json()
        folders = [_relative(folder) for folder in self.spec.include_dirs]
        return plain | {"source": _relative(self.spec.source), "include_dirs": folders}

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> ExampleCase:
        """Rebuild a case from its record."""
        spec = LaunchSpec.from_json(data)
        source = str(ROOT / spec.source)
        folders = tuple(str(ROOT / folder) for folder in spec.include_dirs)
        return cls(name=name, spec=replace(spec, source=source, include_dirs=folders))


def only_kernel(source: Path) -> str:
    """Return the name of the file's kernel, where it has one."""
    from tilewright.toolchain.names import kernels_in_cuda

    found: Sequence[str] = list(kernels_in_cuda(source.read_text()))
    if len(found) != 1:
        raise SystemExit(f"{source}: {len(found)} kernels ({', '.join(found)}): name one")
    return found[0]


def _relative(path: str) -> str:
    return str(Path(path).resolve().relative_to(ROOT))


def rung_batches() -> Iterator[tuple[str, list[RungCase]]]:
    """Yield the rungs by batch: small sizes together, each rung's large ones apart."""
    for size in SMALL:
        yield f"rungs_{size}", [_rung_case(each, size) for each in RUNGS.values()]
    for each in reversed(list(RUNGS.values())):
        yield f"large_{each.name}", [_rung_case(each, size) for size in LARGE]


def _rung_case(each: Rung, size: int) -> RungCase:
    tile = each.tile_for(GPU)
    return RungCase(name=f"{each.name}/{size}", rung=each, tile=tile, size=size)


def example_cases() -> list[ExampleCase]:
    """Every launch file of the examples' folder that names CUDA C++; none where there is none."""
    found = []
    for path in sorted(EXAMPLES.rglob("*.toml")):
        spec = read_launch_file(path)
        if Path(spec.source).suffix in (".cu", ".cuh"):
            name = str(path.relative_to(EXAMPLES).with_suffix(""))
            found.append(ExampleCase(name=f"example/{name}", spec=spec))
    return found

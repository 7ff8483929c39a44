"""One warp, one kind of access, known addresses: what settles the rules of counting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counter_cases.patterns import ALL, COLUMN_STRIDES, COMMON, PATTERNS, Pattern
from tilewright.launch import Argument, Launch
from tilewright.toolchain import Artifact, compile_cuda

FOLDER = Path(__file__).parent
REPEATS = 16  # as pattern.cuh says
SHARED_BYTES = 32768
ARCH = "sm_90"


@dataclass(frozen=True, slots=True, kw_only=True)
class Micro:
    """REPEATS accesses of one warp.

    Units: `unit` and `start` are bytes: lane t's address is base + start + index[t] · unit, the
    base a multiple of 1024 in shared and of 256 in global memory. Each repetition moves on by
    `step` bytes.
    """

    name: str
    file: str
    kernel: str
    index: tuple[int, ...]
    unit: int
    start: int = 0
    mask: int = ALL
    step: int = 0

    def offsets(self) -> list[int]:
        """Offsets of the 32 lanes from the base, in bytes."""
        return [self.start + i * self.unit for i in self.index]

    def artifact(self) -> Artifact:
        """Compile the kernel."""
        return compile_cuda(FOLDER / self.file, self.kernel, arch=ARCH)

    def launch(self) -> Launch:
        """One block of one warp."""
        return Launch(grid=(1, 1, 1), block=(32, 1, 1))

    def arguments(self) -> list[Argument]:
        """Return fresh arguments, in the order of the kernels' parameters."""
        table = np.array(self.index, np.uint8).view(np.uint64)
        data = np.zeros((max(self.offsets()) + REPEATS * self.step + 1024) // 4, np.uint32)
        numbers = (np.uint32(n) for n in (self.mask, self.unit, self.start, self.step))
        return [*table, *numbers, data, np.zeros(32, np.uint32)]

    def to_json(self) -> dict[str, object]:
        """Return what `from_json` takes."""
        return {
            "file": self.file,
            "kernel": self.kernel,
            "index": list(self.index),
            "unit": self.unit,
            "start": self.start,
            "mask": self.mask,
        } | ({"step": self.step} if self.step else {})

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> Micro:
        """Rebuild a case from its record."""
        return cls(name=name, **{**data, "index": tuple(data["index"])})


def _case(family: str, file: str, kernel: str, name: str, pattern: Pattern, size: int) -> Micro:
    return Micro(
        name=f"{family}/{name}",
        file=file,
        kernel=kernel,
        index=pattern.index,
        unit=pattern.unit * size,
        mask=pattern.mask,
    )


def scalar_cases(space: str, way: str) -> Iterator[Micro]:
    """Yield loads or stores of one state space in all widths; shared loads in all patterns."""
    names = tuple(PATTERNS) if (space, way) == ("shared", "load") else COMMON
    for size in (4, 8, 16):
        family = f"{space}_{way}{8 * size}"
        for name in names:
            kernel = f"{space}_{way}<{size}>"
            yield _case(family, f"{space}.cu", kernel, name, PATTERNS[name], size)


def column_cases() -> Iterator[Micro]:
    """Yield global loads and stores down a column, and such that start off their alignment."""
    for way, size in (("load", 4), ("load", 16), ("store", 4)):
        family = f"global_{way}{8 * size}"
        kernel = f"global_{way}<{size}>"
        for stride in COLUMN_STRIDES:
            if 4 * stride % size == 0:
                yield Micro(
                    name=f"{family}/column{stride}",
                    file="global.cu",
                    kernel=kernel,
                    index=tuple(range(32)),
                    unit=4 * stride,
                )
    for way in ("load", "store"):
        for size, starts in ((4, (4, 16, 28, 100)), (8, (8, 16, 120)), (16, (16, 48, 112))):
            for start in starts:
                yield Micro(
                    name=f"global_{way}{8 * size}/start{start}",
                    file="global.cu",
                    kernel=f"global_{way}<{size}>",
                    index=tuple(range(32)),
                    unit=size,
                    start=start,
                )


# Rows of 16 bytes, by stride: 16 is dense, 32 and 64 conflict, 80 and 144 are padded, 128 is the
# worst.
_ROW_STRIDES = (16, 32, 64, 80, 128, 144)


def matrix_cases() -> Iterator[Micro]:
    """Ldmatrix and stmatrix of one, two and four matrices."""
    kernels = [(f"ldmatrix_x{n}", f"matrix_load<{n},false>") for n in (1, 2, 4)]
    kernels += [("ldmatrix_x4_trans", "matrix_load<4,true>")]
    kernels += [(f"stmatrix_x{n}", f"matrix_store<{n}>") for n in (1, 2, 4)]
    shared = ("uniform", "pairs1", "pairs2", "modulo8", "eights", "quarters", "transposed")
    for family, kernel in kernels:
        for stride in _ROW_STRIDES:
            dense = Pattern(index=tuple(range(32)), unit=stride)
            yield _case(family, "matrix.cu", kernel, f"rows{stride}", dense, 1)
        for name in shared:
            yield _case(family, "matrix.cu", kernel, name, PATTERNS[name], 16)


def async_cases() -> Iterator[Micro]:
    """Yield cp.async in its widths: the table places the shared side, then the global side."""
    names = ("unit", "stride2", "stride8", "stride32", "uniform", "pairs1", "halves", "even")
    for size, through in ((4, True), (8, True), (16, True), (16, False)):
        for shared in (True, False):
            kernel = f"async_copy<{size},{str(through).lower()},{str(shared).lower()}>"
            family = f"cp_async{'' if through else '_cg'}{size}_{'shared' if shared else 'global'}"
            for name in names:
                yield _case(family, "async.cu", kernel, name, PATTERNS[name], size)


def atomic_cases() -> Iterator[Micro]:
    """Yield additions of 4 bytes: with and without the old value, shared and global."""
    names = (
        *("uniform", "unit", "stride2", "stride8", "stride32", "pairs1", "quads", "eights"),
        *("modulo8", "even", "shuffled"),
    )
    for family, kernel in (
        ("atom_shared", "shared_atomic"),
        ("red_shared", "shared_reduce"),
        ("atom_global", "global_atomic"),
        ("red_global", "global_reduce<false>"),
        ("red_global_f32", "global_reduce<true>"),
    ):
        for name in names:
            yield _case(family, "atomic.cu", kernel, name, PATTERNS[name], 4)


def local_cases() -> Iterator[Micro]:
    """Yield an array in local memory; indices that differ between lanes are far apart there."""
    for name in ("uniform", "unit", "eights", "pairs1", "even", "low_half", "one_lane"):
        yield _case("local", "local.cu", "local_array", name, PATTERNS[name], 4)


def micro_batches() -> Mapping[str, list[Micro]]:
    """All micro cases, by batch: those of one batch go through one run of the profiler."""
    return {
        "micro_shared_load": list(scalar_cases("shared", "load")),
        "micro_global_load": list(scalar_cases("global", "load")),
        "micro_columns": list(column_cases()),
        "micro_shared_store": list(scalar_cases("shared", "store")),
        "micro_global_store": list(scalar_cases("global", "store")),
        "micro_matrix": list(matrix_cases()),
        "micro_async": list(async_cases()),
        "micro_atomic_local": [*atomic_cases(), *local_cases()],
    }

"""The operands of a benchmark: data of several kinds, on the host and in sets on the GPU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from tilewright.bench.timing import L2_MULTIPLE, rotation_sets
from tilewright.bench.verify import (
    Expected,
    Region,
    Verification,
    compare,
    expect,
    merge,
    sample_regions,
)
from tilewright.device.memory import ALIGNMENT, Arena
from tilewright.errors import ProblemError
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.kernels.gemm.product import Pointers
from tilewright.problem import Problem

Floats = npt.NDArray[np.float32]

# Standard normal; uniform in [0, 1); normal times exp(3 normal); normal, each row of A times
# exp(8 normal).
Kind: TypeAlias = Literal["normal", "uniform", "wide", "scaled"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# Numbers drawn for a matrix; a larger one repeats them. A prime, so that no row, tile or matrix of
# a batch repeats another: a kernel that reads the wrong one still errs.
_DRAWN = 16_777_213
# Four bytes of it are a NaN: what D holds before a launch that must write all of it.
_POISON = 0xFF
_BATCH_SAMPLE = 16
# The largest of few errors is luck: more are drawn, as long as it is cheap.
_ENOUGH = 2**16  # elements of D
_MOST_DRAWS, _MOST_FLOATS = 8, 2**22  # of one kind of data: how often, and how much of A and B


class Operands:
    """A, B and D of one operation on the host, packed as its strides say."""

    def __init__(self, operation: Operation, kind: Kind = "normal", seed: int = 0) -> None:
        o = operation
        self.operation = o
        self.kind = kind
        rng = np.random.default_rng([KINDS.index(kind), seed])
        self.a = _draw(extent(o.a, o.m, o.k, o.batch), kind, rng)
        self.b = _draw(extent(o.b, o.k, o.n, o.batch), kind, rng)
        self._expected: dict[int, list[tuple[Region, Expected]]] | None = None
        self.d_floats = extent(o.d, o.m, o.n, o.batch)
        if kind == "scaled":
            self._scale_rows(rng)

    def _scale_rows(self, rng: np.random.Generator) -> None:
        scales = np.exp(8 * rng.standard_normal(self.operation.m)).astype(np.float32)
        rows = scales[:, None]
        # A matrix that a batch repeats is scaled once.
        for index in range(self.operation.batch if self.operation.a.batch else 1):
            matrix = self.matrix("a", index)
            np.multiply(matrix, rows, out=matrix)

    @property
    def set_bytes(self) -> int:
        """What one set of A, B and D takes on the GPU, in bytes."""
        return sum(_padded(4 * n) for n in (self.a.size, self.b.size, self.d_floats))

    def matrix(self, name: Literal["a", "b"], index: int) -> Floats:
        """Return one matrix of the batch, as a view by its strides."""
        o = self.operation
        storage, strides, rows, cols = (
            (self.a, o.a, o.m, o.k) if name == "a" else (self.b, o.b, o.k, o.n)
        )
        return view(storage, strides, rows, cols, index)

    def judge(self, d: Floats) -> Verification:
        """Compare D with a float64 product: in sampled regions of sampled matrices of the batch.

        Outside of them it is checked for NaN, which D held before the launch.

        Raises:
            ProblemError: a k that no bound of float32 holds for.
        """
        o = self.operation
        if self._expected is None:
            self._expected = dict(self._expect())
        found: Verification | None = None
        for index, expected in self._expected.items():
            one = compare(expected, view(d, o.d, o.m, o.n, index))
            found = one if found is None else merge(found, one)
        assert found is not None
        return found if not np.isnan(d).any() else self._unwritten(d, found)

    def _expect(self) -> Iterator[tuple[int, list[tuple[Region, Expected]]]]:
        """Yield what sampled matrices of D should be in sampled regions: once for all results."""
        o = self.operation
        problem = Problem(m=o.m, n=o.n, k=o.k)
        for index in _sample(o.batch):
            a, b = self.matrix("a", index), self.matrix("b", index)
            parts = sample_regions(problem)
            yield index, [(part, expect(problem, a, b, None, part)) for part in parts]

    def _unwritten(self, d: Floats, found: Verification) -> Verification:
        """Return a check as failed by the NaN in D, the first of them as its worst element."""
        missing = np.isnan(d)
        first = int(np.argmax(missing)) % (self.operation.m * self.operation.n)
        return replace(
            found,
            ok=False,
            failed=int(np.count_nonzero(missing)),
            max_error=math.inf,
            bound_ratio=math.inf,
            worst=divmod(first, self.operation.n),
            got=math.nan,
            expected=math.nan,
        )


class DeviceSets:
    """As many copies of the operands on the GPU as it takes to find the L2 cold.

    Where even the most sets would stay in the L2, `cold` is False: the L2 must be emptied by
    `flush` before each measurement.
    """

    def __init__(self, arena: Arena, operands: Operands) -> None:
        info = arena.session.info
        size = operands.set_bytes
        self.count = rotation_sets(size, info.l2_bytes)
        self.cold = self.count * size >= L2_MULTIPLE * info.l2_bytes
        self._flush_bytes = L2_MULTIPLE * info.l2_bytes
        self._arena = arena
        self._operands = operands
        if self.count * size + self._flush_bytes > info.memory_bytes:
            o = operands.operation
            raise ProblemError(
                f"{o.key}: {self.count} sets of A, B and D take {self.count * size / 1e9:.3g} GB, "
                f"{info.name} has {info.memory_bytes / 1e9:.3g} GB: choose smaller sizes"
            )
        start = arena.allocate(self.count * size)
        self.pointers = [self._place(start + index * size) for index in range(self.count)]
        self._flushed = 0 if self.cold else arena.allocate(self._flush_bytes)
        self.fill(operands)
        for other in self.pointers[1:]:
            arena.copy(other.a, self.pointers[0].a, size)

    def _place(self, start: int) -> Pointers:
        b = start + _padded(self._operands.a.nbytes)
        return Pointers(a=start, b=b, d=b + _padded(self._operands.b.nbytes))

    def fill(self, operands: Operands) -> None:
        """Put other data of the same operation into the first set."""
        self._arena.write(self.pointers[0].a, operands.a)
        self._arena.write(self.pointers[0].b, operands.b)

    def poison(self) -> None:
        """Make D of the first set NaN."""
        self._arena.fill(self.pointers[0].d, _POISON, 4 * self._operands.d_floats)

    def result(self) -> Floats:
        """Return D of the first set, after all that is queued."""
        d = np.empty(self._operands.d_floats, np.float32)
        self._arena.read(d, self.pointers[0].d)
        return d

    def flush(self) -> None:
        """Queue what leaves nothing of the operands in the L2."""
        self._arena.fill(self._flushed, 0, self._flush_bytes)


def draws(operation: Operation) -> int:
    """Return how often operands of each kind should be drawn, to compare the largest errors."""
    o = operation
    floats = extent(o.a, o.m, o.k, o.batch) + extent(o.b, o.k, o.n, o.batch)
    needed = _ENOUGH // max(o.m * o.n * min(o.batch, _BATCH_SAMPLE), 1)
    return max(1, min(needed, _MOST_DRAWS, _MOST_FLOATS // floats))


def extent(strides: Strides, rows: int, cols: int, batch: int) -> int:
    """Return how many floats lie from a batch's first element to its last, both counted."""
    last = (rows - 1) * strides.row + (cols - 1) * strides.col + (batch - 1) * strides.batch
    return last + 1 if rows and cols else 1


def view(storage: Floats, strides: Strides, rows: int, cols: int, index: int) -> Floats:
    """Return matrix number `index` of a batch as an array of [rows, cols]."""
    steps = (4 * strides.row, 4 * strides.col)
    start = storage[index * strides.batch :]
    return np.lib.stride_tricks.as_strided(start, (rows, cols), steps)


def _draw(size: int, kind: Kind, rng: np.random.Generator) -> Floats:
    drawn = min(size, _DRAWN)
    if kind == "uniform":
        block = rng.random(drawn, np.float32)
    else:
        block = rng.standard_normal(drawn, np.float32)
        if kind == "wide":
            block *= np.exp(3 * rng.standard_normal(drawn, np.float32))
    return block if drawn == size else np.resize(block, size)


def _sample(batch: int) -> Iterator[int]:
    """Yield the matrices of a batch to look at: all of few; else the ends, and some at random."""
    if batch <= _BATCH_SAMPLE:
        yield from range(batch)
        return
    rng = np.random.default_rng(batch)
    inner: Sequence[int] = rng.integers(1, batch - 1, _BATCH_SAMPLE - 2).tolist()
    yield from sorted({0, batch - 1, *inner})


def _padded(size_bytes: int) -> int:
    return ALIGNMENT * math.ceil(size_bytes / ALIGNMENT)

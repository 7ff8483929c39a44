"""The production kernels on the emulator: an operation with a variant, on numpy arrays.

`emulate_gemm` is for checks of a kernel: it places the operands in memory exactly as the operation
says, with NaN wherever the kernel has no business, and holds the kernel to its contract.
`launch_emulated` is the launch alone, on memory that is there already.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tilewright.emulator import run
from tilewright.errors import ProblemError, TilewrightError
from tilewright.gpus import Gpu, gpu
from tilewright.kernels.gemm.build import compile_variant
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.kernels.gemm.product import PRODUCT, Pointers, pack
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.kernels.tiles import FLOAT_BYTES
from tilewright.launch import Run, Struct

_ALIGNMENT = 256  # of an allocation on a GPU

Floats = npt.NDArray[np.float32]


def emulate_gemm(
    operation: Operation,
    variant: Variant,
    a: Floats,
    b: Floats,
    c: Floats | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    on: str | Gpu = "H200",
) -> Floats:
    """Return D = alpha·A·B + beta·C, computed by a variant on the emulator.

    The arrays give values alone; where they lie in memory is the operation's to say. Gaps between
    rows, and D before the launch, hold NaN. A matrix whose `vector` is False starts one float past
    an aligned address, and memory ends with each matrix's last element.

    Shapes: a is [m, k] or [batch, m, k], b [k, n] or [batch, k, n], c [m, n] or [batch, m, n];
    where the operation repeats a matrix (a batch stride of 0) it has no batch. The result is
    [batch, m, n].

    Raises:
        ProblemError: shapes that are not the operation's, or a C where it has none.
        TileError: the kernel cannot run so.
        TilewrightError: the kernel wrote where it must not, or left its workspace counting.
        EmulationError: a fault of the kernel.
    """
    o = operation
    if (c is None) != (o.c is None):
        raise ProblemError("c: given where the operation has none, or the reverse")
    left = _Placed("a", a, (o.m, o.k), o.a, o.batch)
    right = _Placed("b", b, (o.k, o.n), o.b, o.batch)
    added = None if c is None or o.c is None else _Placed("c", c, (o.m, o.n), o.c, o.batch)
    empty = np.full((o.batch, o.m, o.n), np.nan, np.float32)
    result = _Placed("d", empty, (o.m, o.n), o.d, o.batch)
    needs = gemm_kernel(variant.kernel).workspace(o, variant)
    partial = np.full(needs.partial_bytes // FLOAT_BYTES, np.nan, np.float32)
    arrivals = np.zeros(needs.arrivals_bytes // 4, np.uint32)
    pointers = Pointers(
        a=left.address,
        b=right.address,
        c=0 if added is None else added.address,
        d=result.address,
        partial=partial.ctypes.data if partial.size else 0,
        arrivals=arrivals.ctypes.data if arrivals.size else 0,
    )
    launch_emulated(o, variant, pointers, alpha=alpha, beta=beta, on=on)
    if arrivals.any():
        raise TilewrightError(f"{variant}: left its count of arrivals at {arrivals.max()}, not 0")
    for placed in (left, right, added):
        if placed is not None:
            placed.check_unwritten(variant)
    return result.take(variant)


def launch_emulated(
    operation: Operation,
    variant: Variant,
    pointers: Pointers,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    on: str | Gpu = "H200",
) -> Run:
    """Compile a variant and run it on the emulator; `pointers` are addresses in this process.

    Raises:
        TileError: the kernel cannot run so.
        EmulationError: a fault of the kernel, an access outside the operands among them.
    """
    target = on if isinstance(on, Gpu) else gpu(on)
    artifact = compile_variant(operation, variant, target.require_arch())
    launch = gemm_kernel(variant.kernel).launch_on(operation, variant, target)
    argument = emulated_argument(operation, variant, pointers, alpha=alpha, beta=beta)
    return run(artifact, launch, [argument])


def emulated_argument(
    operation: Operation, variant: Variant, pointers: Pointers, *, alpha: float, beta: float
) -> Struct:
    """Return the kernel's argument for the emulator, which sees each operand's memory alone."""
    o = operation
    needs = gemm_kernel(variant.kernel).workspace(o, variant)
    packed = pack(
        o, pointers, splits=variant.splits, workers=variant.workers, alpha=alpha, beta=beta
    )
    values: dict[str, object] = dict(
        zip(PRODUCT.names or (), np.frombuffer(packed, PRODUCT)[0], strict=True)
    )
    behind: list[tuple[str, int, Iterable[tuple[int, int]]]] = [
        ("a", pointers.a, _steps(o.a, o.m, o.k, o.batch)),
        ("b", pointers.b, _steps(o.b, o.k, o.n, o.batch)),
        ("d", pointers.d, _steps(o.d, o.m, o.n, o.batch)),
        ("partial", pointers.partial, [(needs.partial_bytes // FLOAT_BYTES, 1)]),
        ("arrivals", pointers.arrivals, [(needs.arrivals_bytes // FLOAT_BYTES, 1)]),
    ]
    if o.c is not None:
        behind.append(("c", pointers.c, _steps(o.c, o.m, o.n, o.batch)))
    for name, address, steps in behind:
        if address and all(size for size, _ in steps):
            low, high = _span(steps)
            values[name] = (_memory(address, low, high), -low * FLOAT_BYTES)
    return Struct(PRODUCT, values)


def _steps(strides: Strides, rows: int, cols: int, batch: int) -> list[tuple[int, int]]:
    """Return (size, stride) along the batch, the rows and the columns."""
    return [(batch, strides.batch), (rows, strides.row), (cols, strides.col)]


def _span(steps: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the elements from the lowest to past the highest, counted from the first."""
    ends = [(size - 1) * stride for size, stride in steps]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends) + 1


def _memory(address: int, low: int, high: int) -> npt.NDArray[np.generic]:
    """Return the floats `low` to before `high` from an address as an array.

    It is a view of one that begins at a multiple of 256 below, so that the emulator knows how
    the address is aligned.
    """
    first = address + low * FLOAT_BYTES
    start = first - first % _ALIGNMENT
    skew, odd = divmod(first - start, FLOAT_BYTES)
    assert odd == 0, "a float's address is a multiple of 4"
    whole = (ctypes.c_float * (skew + high - low)).from_address(start)
    return np.ctypeslib.as_array(whole)[skew:]


class _Placed:
    """A matrix, or a batch of them, laid out by strides in storage of its own."""

    def __init__(
        self, name: str, values: Floats, shape: tuple[int, int], strides: Strides, batch: int
    ) -> None:
        repeats = batch if strides.batch else 1
        if values.shape not in ((repeats, *shape), *([shape] if repeats == 1 else [])):
            raise ProblemError(f"{name} has shape {values.shape}: expected {(repeats, *shape)}")
        self.name = name
        steps = _steps(strides, *shape, repeats)
        low, high = _span(steps) if values.size else (0, 1)
        storage = np.full(high - low + _ALIGNMENT, np.nan, np.float32)
        # Where the first element goes: it is what `vector` speaks of.
        misplaced = storage.ctypes.data // FLOAT_BYTES - low - (0 if strides.vector else 1)
        first = -low + -misplaced % (_ALIGNMENT // FLOAT_BYTES)
        self._storage = storage[first + low : first + high]
        self.address = storage[first:].ctypes.data
        byte_steps = [FLOAT_BYTES * stride for _, stride in steps]
        self._view = np.lib.stride_tricks.as_strided(storage[first:], (repeats, *shape), byte_steps)
        self._view[:] = values
        self._before = self._storage.copy()

    def check_unwritten(self, variant: Variant) -> None:
        """Raise if the memory changed."""
        if self._storage.tobytes() != self._before.tobytes():
            raise TilewrightError(f"{variant}: wrote into {self.name}, which is an input")

    def take(self, variant: Variant) -> Floats:
        """Return the matrices, or raise if anything between them changed."""
        values = self._view.copy()
        self._view[:] = np.nan
        if self._storage.tobytes() != self._before.tobytes():
            raise TilewrightError(f"{variant}: wrote between the rows of {self.name}")
        return values

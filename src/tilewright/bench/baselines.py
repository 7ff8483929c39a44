"""What our kernels are measured against, by name; frameworks are imported here alone.

All of them compute in float32 with TF32 off, on our stream and our buffers:

- cublas: cublasSgemm with the algorithm that it chooses itself, which is what torch calls;
- cublaslt: the fastest of the algorithms that cublasLt's heuristic offers;
- torch: torch.matmul into a given result;
- triton: a kernel of ours in Triton (input_precision "ieee"), the fastest of a few tiles.
"""
# ruff: noqa: ANN001 - the arguments of a Triton kernel have no types

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any

from tilewright.bench.contenders import Contender, CublasContender, Way
from tilewright.bench.cublaslt import CublasLt
from tilewright.bench.operands import extent
from tilewright.device.memory import Arena
from tilewright.errors import DeviceError, TilewrightError, UnknownNameError, UnsupportedError
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.kernels.gemm.product import Pointers

REFERENCE = "cublas"

# (rows of a block, columns, step along k, warps, stages) of the Triton kernel.
_TRITON_TILES = (
    (128, 128, 16, 8, 3),
    (128, 128, 32, 8, 2),
    (128, 256, 16, 8, 3),
    (128, 64, 16, 4, 3),
    (64, 128, 16, 4, 3),
    (64, 64, 32, 4, 3),
    (32, 64, 32, 4, 4),
    (64, 32, 32, 4, 4),
    (16, 64, 64, 4, 4),
    (64, 16, 64, 4, 4),
    (16, 16, 128, 2, 4),
)
# Blocks of a tile past which a larger tile is the better one, and this one is not tried.
_TRITON_MOST_BLOCKS = 8192
# Neighbouring blocks that work on the same columns of B, for the L2.
_TRITON_GROUP = 8


class Torch:
    """torch.matmul, on the session's stream."""

    name = "torch"

    def __init__(self, arena: Arena) -> None:
        torch = _torch()
        self._stream = torch.cuda.ExternalStream(int(arena.session.stream_handle))
        self.label = f"torch {torch.__version__}, float32"

    def close(self) -> None:
        """Do nothing: torch keeps its handles."""

    def ways(self, operation: Operation, arena: Arena) -> Sequence[Way]:
        """Return the one way."""
        return [Way(name="matmul", bind=functools.partial(self._bind, operation))]

    def _bind(self, operation: Operation, pointers: Pointers) -> Callable[[], None]:
        torch = _torch()
        a, b, d = _tensors(operation, pointers)

        def queue() -> None:
            with torch.cuda.stream(self._stream):
                torch.matmul(a, b, out=d)

        return queue


class Triton:
    """A float32 kernel in Triton, in a few tiles."""

    name = "triton"

    def __init__(self, arena: Arena) -> None:
        torch = _torch()
        try:
            import triton
        except ImportError as error:
            raise DeviceError(f"no Triton ({error}): pip install triton") from error
        self._kernel = triton_kernel()
        self._stream = torch.cuda.ExternalStream(int(arena.session.stream_handle))
        self.label = f"Triton {triton.__version__}, float32, the fastest of its tiles"

    def close(self) -> None:
        """Do nothing: kernels stay loaded."""

    def ways(self, operation: Operation, arena: Arena) -> Sequence[Way]:
        """Return a way for each tile that is neither much larger than the result nor tiny in it.

        Raises:
            UnsupportedError: a matrix whose elements 32-bit offsets do not reach.
        """
        o = operation
        sides = ((o.a, o.m, o.k), (o.b, o.k, o.n), (o.d, o.m, o.n))
        if any(extent(strides, rows, cols, 1) >= 2**31 for strides, rows, cols in sides):
            raise UnsupportedError("the Triton kernel takes matrices of less than 2^31 elements")
        return [
            Way(
                name=f"{bm}x{bn}x{bk}, {warps} warps, {stages} stages",
                bind=functools.partial(self._bind, operation, (bm, bn, bk, warps, stages)),
            )
            for bm, bn, bk, warps, stages in _TRITON_TILES
            if bm <= max(16, 2 * o.m)
            and bn <= max(16, 2 * o.n)
            and (bm >= 64 or -(-o.m // bm) * -(-o.n // bn) <= _TRITON_MOST_BLOCKS)
        ]

    def _bind(
        self, operation: Operation, tile: tuple[int, int, int, int, int], pointers: Pointers
    ) -> Callable[[], None]:
        torch = _torch()
        o = operation
        bm, bn, bk, warps, stages = tile
        grid = (-(-o.m // bm) * -(-o.n // bn), o.batch)
        strides = [s for x in (o.a, o.b, o.d) for s in (x.row, x.col, x.batch)]
        tensors = _tensors(operation, pointers)
        start = self._kernel[grid]

        def queue() -> None:
            with torch.cuda.stream(self._stream):
                start(
                    *tensors, o.m, o.n, o.k, *strides,
                    BM=bm, BN=bn, BK=bk, GROUP=_TRITON_GROUP, WHOLE_K=o.k % bk == 0,
                    num_warps=warps, num_stages=stages,
                )  # fmt: skip

        return queue


def triton_kernel() -> Any:  # noqa: ANN401 - a triton.JITFunction
    """Return D = A · B by strides: one block of D a program, a matrix of the batch a grid row."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def product(  # type: ignore[no-untyped-def]  # noqa: ANN202
        a, b, d, m, n, k,
        a_row, a_col, a_batch, b_row, b_col, b_batch, d_row, d_col, d_batch,
        BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
        GROUP: tl.constexpr, WHOLE_K: tl.constexpr,
    ):  # fmt: skip
        """Rows and columns past the edge are read from inside it, and never written."""
        matrix = tl.program_id(1).to(tl.int64)
        block = tl.program_id(0)
        across = tl.cdiv(n, BN)
        down = tl.cdiv(m, BM)
        group = block // (GROUP * across)
        height = min(down - group * GROUP, GROUP)
        inside = block % (GROUP * across)
        top = (group * GROUP + inside % height) * BM
        left = (inside // height) * BN
        rows = (top + tl.arange(0, BM)) % m
        cols = (left + tl.arange(0, BN)) % n
        steps = tl.arange(0, BK)
        a_at = a + matrix * a_batch + rows[:, None] * a_row + steps[None, :] * a_col
        b_at = b + matrix * b_batch + steps[:, None] * b_row + cols[None, :] * b_col
        total = tl.zeros((BM, BN), tl.float32)
        for first in range(0, k, BK):
            if WHOLE_K:
                x = tl.load(a_at)
                y = tl.load(b_at)
            else:
                x = tl.load(a_at, mask=steps[None, :] < k - first, other=0.0)
                y = tl.load(b_at, mask=steps[:, None] < k - first, other=0.0)
            total = tl.dot(x, y, total, input_precision="ieee")
            a_at += BK * a_col
            b_at += BK * b_row
        rows = top + tl.arange(0, BM)
        cols = left + tl.arange(0, BN)
        d_at = d + matrix * d_batch + rows[:, None] * d_row + cols[None, :] * d_col
        tl.store(d_at, total, mask=(rows[:, None] < m) & (cols[None, :] < n))

    return product


def _torch() -> Any:  # noqa: ANN401 - a module
    try:
        import torch
    except ImportError as error:
        raise DeviceError(f"no PyTorch ({error}): pip install torch") from error
    if not torch.cuda.is_available():
        raise DeviceError(f"this PyTorch ({torch.__version__}) has no CUDA: install one that has")
    if torch.get_float32_matmul_precision() != "highest":
        raise DeviceError(
            "torch.set_float32_matmul_precision was called: PyTorch rounds float32 to TF32; "
            "measure in a process that leaves it at 'highest'"
        )
    return torch


class _Memory:
    """Floats at a device address, for what knows the CUDA array interface."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
        }


def _tensors(operation: Operation, pointers: Pointers) -> list[Any]:
    """Return A, B and D as tensors over our buffers."""
    torch = _torch()
    o = operation

    def tensor(address: int, strides: Strides, rows: int, cols: int) -> Any:  # noqa: ANN401
        memory = _Memory(address, extent(strides, rows, cols, o.batch))
        flat = torch.as_tensor(memory, device="cuda")
        shape, steps = (rows, cols), (strides.row, strides.col)
        if o.batch > 1:
            shape, steps = (o.batch, *shape), (strides.batch, *steps)  # type: ignore[assignment]
        return torch.as_strided(flat, shape, steps)

    return [
        tensor(pointers.a, o.a, o.m, o.k),
        tensor(pointers.b, o.b, o.k, o.n),
        tensor(pointers.d, o.d, o.m, o.n),
    ]


BASELINES: Mapping[str, Callable[[Arena], Contender]] = MappingProxyType(
    {"cublas": CublasContender, "cublaslt": CublasLt, "torch": Torch, "triton": Triton}
)


def check_baselines(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, each once.

    Raises:
        UnknownNameError: no such baseline; suggests the nearest.
    """
    found = tuple(dict.fromkeys(names))
    for name in found:
        if name not in BASELINES:
            raise UnknownNameError("baseline", name, BASELINES)
    return found


@contextmanager
def opened_baselines(
    arena: Arena, names: Iterable[str]
) -> Iterator[tuple[list[Contender], dict[str, str]]]:
    """Yield the baselines that this machine has, and why it has not the others.

    Raises:
        UnknownNameError: no such baseline.
    """
    found: list[Contender] = []
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        for name in check_baselines(names):
            try:
                found.append(BASELINES[name](arena))
            except TilewrightError as error:
                absent[name] = str(error)
            else:
                stack.callback(found[-1].close)
        yield found, absent

"""`matmul` and `gemm`: of any library's arrays, on the device where they are.

The first product of its shapes, strides and alignments is checked, a kernel chosen for it and
loaded; that is remembered, so that the next costs a look-up, an allocation and a launch.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import replace
from typing import Any, cast

from tilewright.device.gemm import gemm_device
from tilewright.errors import DeviceError, ProblemError
from tilewright.frameworks.face import FACES, Array, Face, GpuFace, HostFace, Operand, common_face
from tilewright.frameworks.launches import plan_launches, writable
from tilewright.frameworks.overlap import Guard
from tilewright.frameworks.plans import Empty, OnGpu, OnHost, Plan
from tilewright.frameworks.shapes import ProductShape, product_shape
from tilewright.frameworks.views import packed
from tilewright.frameworks.workspace import Allocator
from tilewright.kernels.gemm.kernel import Workspace

_FLOAT32_MAX = 3.4028235677973366e38  # larger ones round to infinity
_MOST_PLANS = 1 << 14  # a plan is some kilobytes, and a program has far fewer shapes
_plans: dict[object, Plan] = {}


def matmul(
    a: Any,  # noqa: ANN401 - any library's arrays
    b: Any,  # noqa: ANN401
    *,
    out: Any = None,  # noqa: ANN401
    batch_invariant: bool = False,
) -> Any:  # noqa: ANN401
    """Return the matrix product A·B of float32 arrays, in full float32 precision.

    Arrays of torch and cupy on a GPU are multiplied there by tilewright's kernels, on the caller's
    current stream; numpy arrays and tensors of the CPU by the host's BLAS. Transposed, sliced and
    broadcast arrays are read where they lie, without a copy. The result is the same from run to
    run. It may be called while a CUDA graph is captured, if it was with the same shapes before.

    Shapes: a [..., m, k] and b [..., k, n] give [..., m, n], as the array API's matmul does: the
    batches before the last two sizes broadcast, a vector is one row on the left, one column on the
    right. With k = 0 the result is zeros. `out` has the result's shape and any strides; the
    kernels write along rows or columns, and to other strides a copy follows.

    `batch_invariant` asks, on a GPU, for a kernel whose rows have the same bits whatever other rows
    are computed with them: it is slower where m and n are small and k is long.

    Raises:
        ProblemError: shapes that do not fit, arrays of two libraries or devices, another dtype
            than float32, an `out` that shares memory with an operand, a tensor that needs
            gradients, batch_invariant on the CPU.
        DeviceError: the GPU has no memory left, is lost or cannot be used.

    Example:
        >>> import numpy as np
        >>> import tilewright
        >>> a = np.arange(6, dtype=np.float32).reshape(2, 3)
        >>> tilewright.matmul(a, a.T).tolist()
        [[5.0, 14.0], [14.0, 50.0]]
    """
    return _multiply(a, b, None, out, 1.0, 0.0, batch_invariant)


def gemm(
    a: Any,  # noqa: ANN401 - any library's arrays
    b: Any,  # noqa: ANN401
    c: Any = None,  # noqa: ANN401
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    out: Any = None,  # noqa: ANN401
    batch_invariant: bool = False,
) -> Any:  # noqa: ANN401
    """Return alpha·A·B + beta·C of float32 arrays; otherwise as `matmul`.

    As in BLAS, c is not read where beta is 0, nor a and b where alpha is 0: what they hold does not
    matter then, NaN included. `out` may be c itself.

    Shapes: as `matmul`; c broadcasts to the result's shape.

    Raises:
        ProblemError: as `matmul`; an alpha or beta that is no number, or a beta without a c.
        DeviceError: as `matmul`.

    Example:
        >>> import numpy as np
        >>> import tilewright
        >>> one = np.ones((2, 2), np.float32)
        >>> tilewright.gemm(one, one, one, alpha=0.5, beta=-1).tolist()
        [[0.0, 0.0], [0.0, 0.0]]
    """
    scalars = _scalar(alpha, "alpha"), _scalar(beta, "beta")
    return _multiply(a, b, c, out, *scalars, batch_invariant)


def _multiply(
    a: Array,
    b: Array,
    c: Array | None,
    out: Array | None,
    alpha: float,
    beta: float,
    batch_invariant: bool,
) -> Array:
    face = FACES.get(type(a))
    if (
        face is None
        or FACES.get(type(b)) is not face
        or (c is not None and FACES.get(type(c)) is not face)
        or (out is not None and FACES.get(type(out)) is not face)
    ):
        face = common_face(_given(a, b, c, out))
    signature = face.signature
    key = (
        signature(a),
        signature(b),
        None if c is None else signature(c),
        None if out is None else signature(out),
        alpha == 0,
        beta == 0,
        batch_invariant,
    )
    plan = _plans.get(key)
    if plan is None:
        plan = _make_plan(face, _given(a, b, c, out), alpha, beta, batch_invariant)
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan.run(a, b, c, out, alpha, beta)


def _given(a: Array, b: Array, c: Array | None, out: Array | None) -> dict[str, Array]:
    arrays = {"a": a, "b": b, "c": c, "out": out}
    return {name: array for name, array in arrays.items() if array is not None or name in "ab"}


def _scalar(value: object, name: str) -> float:
    # The look at the class alone first: `numbers.Real` is a slow one to ask.
    if type(value) is not float and not isinstance(value, numbers.Real):
        raise ProblemError(
            f"{name} is a {type(value).__name__}: expected a number; one that a GPU holds has to "
            "be fetched with .item()"
        )
    number = float(value)
    if math.isfinite(number) and abs(number) >= _FLOAT32_MAX:
        raise ProblemError(f"{name} = {number:g} is past the range of float32")
    return number


def _make_plan(
    face: Face, arrays: dict[str, Array], alpha: float, beta: float, batch_invariant: bool
) -> Plan:
    """Check a product and choose how it is computed."""
    operands = {name: face.describe(array, name) for name, array in arrays.items()}
    _check_devices(operands)
    shape = product_shape(operands["a"].view.shape, operands["b"].view.shape)
    _check_c(operands.get("c"), shape, beta)
    _check_out(operands.get("out"), shape)
    if beta == 0:
        operands.pop("c", None)
    if 0 in (*shape.batch, shape.m, shape.n):
        return Empty(face=face, shape=shape.result)
    gpu = operands["a"].gpu
    if gpu is None:
        if batch_invariant:
            raise ProblemError(
                "batch_invariant: the host's BLAS says nothing of its order of additions; pass "
                "arrays on a GPU, or leave it out"
            )
        return OnHost(face=cast(HostFace, face), guard=_guard(operands))
    shape = replace(shape, k=shape.k if alpha else 0)
    return _gpu_plan(cast(GpuFace, face), operands, shape, gpu, batch_invariant)


def _gpu_plan(
    face: GpuFace,
    operands: dict[str, Operand],
    shape: ProductShape,
    gpu: int,
    batch_invariant: bool,
) -> OnGpu:
    from tilewright.tuning.choice import choose

    try:
        device = gemm_device(gpu)
    except DeviceError as error:
        raise DeviceError(
            f"{error}; numpy arrays and tensors of the CPU are multiplied without a GPU"
        ) from error
    views = {name: operand.view for name, operand in operands.items()}
    apart = "out" in views and not writable(shape, views["out"])
    target = packed(shape.result) if apart or "out" not in views else views["out"]
    planned = plan_launches(shape, views["a"], views["b"], views.get("c"), target)
    variant = choose(planned.operation, device.gpu, batch_invariant=batch_invariant).variant
    prepared = device.prepare(planned.operation, variant, stream=face.stream(gpu))
    return OnGpu(
        face=face,
        device=device,
        prepared=prepared,
        workspace=Allocator(prepared.workspace, face, device),
        guard=_guard(operands),
        result=packed(shape.result),
        offsets=planned.offsets,
        swapped=planned.swapped,
        apart=apart,
        gpu=gpu,
        single=len(planned.offsets) == 1 and prepared.workspace == Workspace(),
    )


def _guard(operands: dict[str, Operand]) -> Guard | None:
    views = {name: operand.view for name, operand in operands.items()}
    return Guard(views) if "out" in views else None


def _check_devices(operands: dict[str, Operand]) -> None:
    first = operands["a"].device
    for name, operand in operands.items():
        if operand.device != first:
            raise ProblemError(
                f"a is on {first} and {name} on {operand.device}: move one of them to the other's "
                "device"
            )


def _check_c(c: Operand | None, shape: ProductShape, beta: float) -> None:
    if c is None:
        if beta:
            raise ProblemError(f"beta = {beta:g}, but there is no c to multiply by it: give c")
        return
    result = shape.result
    given = c.view.shape
    fits = len(given) <= len(result) and all(
        size in (1, whole) for size, whole in zip(reversed(given), reversed(result), strict=False)
    )
    if not fits:
        raise ProblemError(
            f"c has shape {given} and the product {result}: c must have that shape, or broadcast "
            "to it"
        )


def _check_out(out: Operand | None, shape: ProductShape) -> None:
    if out is None:
        return
    if out.view.shape != shape.result:
        raise ProblemError(
            f"out has shape {out.view.shape}, the product has {shape.result}: give an out of that "
            "shape, or none"
        )
    if not out.writable:
        raise ProblemError("out is read-only: give an array that can be written")
    if out.view.overlaps_itself:
        raise ProblemError(
            f"out has elements that share memory (strides {out.view.strides}): give an array "
            "with a place for each element, such as a copy"
        )

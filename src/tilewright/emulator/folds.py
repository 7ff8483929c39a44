"""Integer instructions computed on arrays, for operands that are known when a kernel is compiled.

Operands are int64 as their PTX type reads them, and results are cut to the result's width by the
caller, so that arithmetic modulo 2^64 will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = "npt.NDArray[np.int64]"
Fold: TypeAlias = Callable[[Sequence[Numbers], str], Numbers]


def _shift_left(args: Sequence[Numbers], kind: str) -> Numbers:
    return np.where(args[1] >= int(kind[1:]), 0, args[0] << np.minimum(args[1], 63))


def _shift_right(args: Sequence[Numbers], _kind: str) -> Numbers:
    """Past the width only copies of the sign are left, and unsigned numbers have none."""
    return np.right_shift(args[0], np.minimum(args[1], 63))


def _divide(args: Sequence[Numbers], _kind: str) -> Numbers:
    """Divide towards zero; by zero, the all ones that compiled code gives too."""
    divisor = np.where(args[1] == 0, 1, args[1])
    sign = np.sign(args[0]) * np.sign(divisor)
    return np.where(args[1] == 0, -1, np.abs(args[0]) // np.abs(divisor) * sign)


def _remainder(args: Sequence[Numbers], kind: str) -> Numbers:
    rest = args[0] - _divide(args, kind) * args[1]
    return np.where(args[1] == 0, -1, rest)


def _insert(args: Sequence[Numbers], kind: str) -> Numbers:
    """Replace a field of the second operand by the first's low bits: place and size are bytes."""
    bits = int(kind[1:])
    place, size = (np.minimum(a & 255, bits) for a in args[2:])
    field = _shift_left((_shift_left((np.ones_like(size), size), "b64") - 1, place), "b64")
    return args[1] & ~field | _shift_left((args[0], place), "b64") & field


FOLDS: dict[str, Fold] = {
    "add": lambda a, _: a[0] + a[1],
    "sub": lambda a, _: a[0] - a[1],
    "and": lambda a, _: a[0] & a[1],
    "or": lambda a, _: a[0] | a[1],
    "xor": lambda a, _: a[0] ^ a[1],
    "not": lambda a, _: ~a[0],
    "neg": lambda a, _: -a[0],
    "min": lambda a, _: np.minimum(a[0], a[1]),
    "max": lambda a, _: np.maximum(a[0], a[1]),
    "shl": _shift_left,
    "shr": _shift_right,
    "div": _divide,
    "rem": _remainder,
    "mov": lambda a, _: a[0],
    "cvt": lambda a, _: a[0],
    "mul": lambda a, _: a[0] * a[1],
    "mad": lambda a, _: a[0] * a[1] + a[2],
    "bfi": _insert,
}
COMPARISONS: dict[str, Callable[..., npt.NDArray[np.bool_]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}

"""The names that `tilewright layout --instruction` takes for the maps of instructions."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.errors import LayoutError
from tilewright.layouts import Layout
from tilewright.layouts.instructions import Fragment, ldmatrix, mma, wgmma

NAMES = "ldmatrix.x4[.trans], mma.m16n8k16.bf16.a|b|c, wgmma.n64.bf16.a|d"


class Held(NamedTuple):
    """Who holds what: (thread, value) to a place of the tile."""

    layout: Layout
    tile: Layout


def held(name: str) -> Held:
    """Return what an instruction's threads hold, by a name such as `mma.m16n8k16.bf16.c`.

    Raises:
        LayoutError: a name of no such form, or numbers that the instruction does not take.
        UnknownNameError: a shape or a dtype that the instruction lacks.
    """
    match name.split("."):
        case ["ldmatrix", count, *rest] if count[:1] == "x" and rest in ([], ["trans"]):
            matrices = _number(name, count[1:])
            maps = ldmatrix(matrices, trans=bool(rest))
            return Held(maps.target, Layout((8 * matrices, 8), (8, 1)))
        case ["mma", shape, dtype, "a" | "b" | "c" as part]:
            return _of(getattr(mma(shape, dtype), part))
        case ["wgmma", n, dtype, "a" | "d" as part] if n[:1] == "n":
            return _of(getattr(wgmma(_number(name, n[1:]), dtype), part))
    raise LayoutError(f"instruction {name!r}: give one of the form {NAMES}")


def _of(fragment: Fragment) -> Held:
    return Held(fragment.layout, Layout((fragment.rows, fragment.cols)))


def _number(name: str, digits: str) -> int:
    if not digits.isdecimal():
        raise LayoutError(f"instruction {name!r}: give one of the form {NAMES}")
    return int(digits)

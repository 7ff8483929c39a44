"""The operations of `tilewright layout`, one after the other in the order they were given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from typer.core import TyperCommand

from tilewright.errors import LayoutError

if TYPE_CHECKING:
    from tilewright.layouts import AnyLayout

_ORDER = "tilewright.layout.order"


class Ordered(TyperCommand):
    """A command that keeps the order in which its options were given, repeats included."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        """Parse as ever, and leave the names of the parameters in `ctx.meta`."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


class Step(NamedTuple):
    """A layout and how it came about."""

    caption: str
    layout: AnyLayout


def steps(first: Step, ctx: typer.Context, bits: int) -> list[Step]:
    """Return the step to start from, and what each operation of the command line makes of it.

    Units: bits an element, for the swizzles of the hardware.

    Raises:
        LayoutError: an operand that does not parse, or an operation that has no answer; the
            message starts with the option.
    """
    operands = {name: iter(ctx.params[name] or ()) for name in _OPERATIONS if name != "coalesce"}
    done = [first]
    for name in ctx.meta[_ORDER]:
        if name not in _OPERATIONS:
            continue
        operand = next(operands[name]) if name in operands else ""
        try:
            layout = _OPERATIONS[name](done[-1].layout, operand, bits)
        except LayoutError as error:
            raise LayoutError(f"--{name}: {error}") from None
        done.append(Step(f"{_WORDS[name]} {operand}".rstrip(), layout))
    return done


def _swizzle(layout: AnyLayout, operand: str, bits: int) -> AnyLayout:
    from tilewright.layouts import ComposedLayout, Layout, parse_swizzle, recast
    from tilewright.layouts.instructions import byte_swizzle

    if isinstance(layout, ComposedLayout):
        raise LayoutError(f"{layout} is behind a swizzle already; start from the plain layout")
    span = operand.upper().removesuffix("B")
    if span.isdecimal():
        on_bytes = ComposedLayout(byte_swizzle(int(span)), 0, Layout(1, 0))
        return ComposedLayout(recast(on_bytes, 8, bits).swizzle, 0, layout)
    return ComposedLayout(parse_swizzle(operand), 0, layout)


def _compose(layout: AnyLayout, operand: str, _: int) -> AnyLayout:
    from tilewright.layouts import composition, parse_tiler

    return composition(layout, parse_tiler(operand))


def _divide(layout: AnyLayout, operand: str, _: int) -> AnyLayout:
    from tilewright.layouts import logical_divide, parse_tiler

    return logical_divide(layout, parse_tiler(operand))


def _product(layout: AnyLayout, operand: str, _: int) -> AnyLayout:
    from tilewright.layouts import logical_product, parse_tiler

    return logical_product(layout, parse_tiler(operand))


def _complement(layout: AnyLayout, operand: int, _: int) -> AnyLayout:
    from tilewright.layouts import ComposedLayout, complement

    if isinstance(layout, ComposedLayout):
        raise LayoutError(f"{layout} has no complement that is a layout; give the plain layout")
    if operand < 1:
        raise LayoutError(f"{operand}: give a size of at least 1")
    return complement(layout, operand)


def _coalesce(layout: AnyLayout, _: str, __: int) -> AnyLayout:
    from tilewright.layouts import coalesce

    return coalesce(layout)


_OPERATIONS: Mapping[str, Callable[[AnyLayout, Any, int], AnyLayout]] = {
    "swizzle": _swizzle,
    "compose": _compose,
    "divide": _divide,
    "product": _product,
    "complement": _complement,
    "coalesce": _coalesce,
}
_WORDS = {
    "swizzle": "swizzled by",
    "compose": "composed with",
    "divide": "divided by",
    "product": "repeated by",
    "complement": "complement up to",
    "coalesce": "coalesced",
}

"""`tilewright layout`: a layout as a picture, and what each operation makes of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.layout_steps import Step, steps
from tilewright.cli.output import (
    WIDTH,
    JsonOption,
    check_file,
    check_json,
    output_json,
    output_text,
    print_note,
)
from tilewright.errors import LayoutError

if TYPE_CHECKING:
    from tilewright.layouts import Colouring, Drawing, Layout, Memory

# What TMA and ldmatrix move at a time, and a swizzle of shared memory keeps together.
_PIECE_BITS = 128

_COLOURS: tuple[Colouring, ...] = ("index", "thread", "value", "bank")


def layout(
    ctx: typer.Context,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="LAYOUT", help="As CuTe prints it: (4,8):(8,1), Sw<3,4,3> o 0 o (8,64):(64,1)."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help=f"What colours stand for: {', '.join(_COLOURS)}; default: index, or thread where "
            "there are any."
        ),
    ] = None,
    bits: Annotated[int, typer.Option(help="Bits of an element.")] = 32,
    banks: Annotated[int, typer.Option(help="Banks of shared memory, 32 bits each.")] = 32,
    access: Annotated[
        int | None,
        typer.Option(
            metavar="BITS",
            help="Draw the pieces that an access of so many bits takes, not single elements; "
            "with --swizzle the default is 128.",
        ),
    ] = None,
    swizzle: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODE", help="Swizzle shared memory: 32B, 64B, 128B, or Sw<bits,base,shift>."
        ),
    ] = None,
    compose: Annotated[
        list[str] | None, typer.Option(metavar="LAYOUT", help="Compose with a layout or a tiler.")
    ] = None,
    divide: Annotated[
        list[str] | None, typer.Option(metavar="TILER", help="Divide: (4,8), 4:2 or <4:2,8:1>.")
    ] = None,
    product: Annotated[
        list[str] | None, typer.Option(metavar="TILER", help="Repeat in the tiler's order.")
    ] = None,
    complement: Annotated[
        list[int] | None, typer.Option(metavar="SIZE", help="The layout of what is left out.")
    ] = None,
    coalesce: Annotated[bool, typer.Option("--coalesce", help="Join modes where they go on.")] = (
        False
    ),
    thread_value: Annotated[
        str | None,
        typer.Option(
            metavar="TILE",
            help="The result maps (thread, value) to places of this tile: (16,8), or with strides.",
        ),
    ] = None,
    instruction: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Who holds what of ldmatrix.x4[.trans], mma.m16n8k16.bf16.a|b|c, "
            "wgmma.n64.bf16.a|d.",
        ),
    ] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the picture as SVG.")
    ] = None,
    html: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write a page to point into, which needs no network."),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Draw a layout: the index at each coordinate; operations step by step, in the order given.

    Example: tilewright layout '(8,64):(64,1)' --swizzle 128B --bits 16 --by bank
    """
    check_json(json)
    check_file("--svg", svg)
    check_file("--html", html)
    colours = _colouring(by)
    from tilewright.layouts import Memory

    first, tile = _first(text, thread_value, instruction)
    done = steps(first, ctx, bits)
    if tile is not None and access is not None:
        raise LayoutError("--access draws pieces of memory, not what threads hold: leave it out")
    if swizzle and access is None:
        access = _PIECE_BITS
    memory = Memory(bits=bits, banks=banks)
    drawings = _drawn(done, tile, colours, memory, access)
    if svg is not None:
        from tilewright.report.layout_svg import svg_picture

        output_text(svg_picture(drawings), "--svg", svg)
    if html is not None:
        from tilewright.report.layout_html import html_page

        output_text(html_page(drawings), "--html", html)
    if json is not None:
        output_json({"steps": [drawing.to_json() for drawing in drawings]}, json)
    if json != "-":
        _print(drawings)


def _colouring(by: str | None) -> Colouring | None:
    for known in _COLOURS:
        if by == known:
            return known
    if by is not None:
        raise LayoutError(f"--by {by!r}: choose one of {', '.join(_COLOURS)}")
    return None


def _first(
    text: str | None, thread_value: str | None, instruction: str | None
) -> tuple[Step, Layout | None]:
    """Return the layout to start from, and the tile of a thread-value layout."""
    from tilewright.layouts import parse, parse_layout

    if instruction is not None:
        if text is not None or thread_value is not None:
            raise LayoutError(
                "--instruction brings its own layout and tile: leave LAYOUT and --thread-value out"
            )
        from tilewright.cli.fragments import held

        found = held(instruction)
        return Step(instruction, found.layout), found.tile
    if text is None:
        raise LayoutError("no layout: give one, such as '(4,8):(8,1)', or --instruction")
    tile = None if thread_value is None else parse_layout(thread_value)
    return Step("layout", parse(text)), tile


def _drawn(
    done: Sequence[Step],
    tile: Layout | None,
    by: Colouring | None,
    memory: Memory,
    access: int | None,
) -> list[Drawing]:
    """Draw each step; what threads hold is the last one's to show."""
    from tilewright.layouts import draw, draw_thread_value

    owned = tile is not None
    plain: Colouring = "index" if by is None or (owned and by in ("thread", "value")) else by
    drawings = [
        draw(step.layout, by=plain, memory=memory, access=access, caption=step.caption)
        for step in (done[:-1] if owned else done)
    ]
    if tile is not None:
        last = done[-1]
        shown = by or "thread"
        drawings.append(
            draw_thread_value(last.layout, tile, by=shown, memory=memory, caption=last.caption)
        )
    return drawings


def _print(drawings: Sequence[Drawing]) -> None:
    from rich.console import Console

    from tilewright.report.layout_text import layout_lines, legend_line

    console = Console(
        width=min(WIDTH, Console().width) if sys.stdout.isatty() else WIDTH, highlight=False
    )
    # With 16 colours some of the eight would fall together.
    coloured = console.color_system in ("256", "truecolor") and not console.no_color
    if not coloured:
        console.no_color = True
    for number, drawing in enumerate(drawings):
        if number:
            typer.echo("")
        print_note(f"{drawing.caption}: {drawing.layout}")
        for line in layout_lines(drawing, console.width):
            if not coloured:
                line.rstrip()
            console.print(line, no_wrap=True, overflow="ignore", crop=False)
        typer.echo("")
        if coloured:
            console.print(legend_line(drawing))
        for note in drawing.notes:
            print_note(note)

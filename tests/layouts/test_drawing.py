"""Drawings: each cell's index, bank, owner and colour, against formulas written out by hand."""

import pytest

from tilewright.errors import LayoutError
from tilewright.layouts import (
    Cell,
    Drawing,
    Layout,
    Memory,
    Swizzle,
    composition,
    draw,
    draw_thread_value,
    logical_divide,
    parse,
)
from tilewright.report.palette import QUALITATIVE, SEQUENTIAL


def labels(drawing: Drawing) -> list[list[str]]:
    return [[cell.label if cell else "" for cell in line] for line in drawing.grid()]


def at(drawing: Drawing, row: int, column: int) -> Cell:
    cell = drawing.grid()[row][column]
    assert cell is not None
    return cell


def test_a_cell_shows_the_index_of_its_row_and_column() -> None:
    drawing = draw(Layout((2, 3), (10, 2)))
    assert labels(drawing) == [["0", "2", "4"], ["10", "12", "14"]]
    assert (drawing.rows, drawing.columns, drawing.layout) == (2, 3, "(2,3):(10,2)")
    assert drawing.notes == ("2 × 3 cells: indices 0 to 14, 9 not reached.",)


def test_one_mode_is_a_row_and_more_than_two_go_side_by_side() -> None:
    assert labels(draw(Layout(4, 3))) == [["0", "3", "6", "9"]]
    three = draw(Layout((2, 2, 3), (1, 10, 100)))
    assert labels(three)[1] == ["1", "11", "101", "111", "201", "211"]
    assert at(three, 1, 3).coordinate == "(1,1,1)"
    assert three.column_breaks == (2, 4)
    assert "Columns: the other modes, the first of them fastest." in three.notes[1]


def test_hierarchical_coordinates_are_natural_and_tiles_end_where_the_first_mode_does() -> None:
    divided = draw(logical_divide(Layout((4, 8), (8, 1)), (2, 4)))
    assert (divided.row_breaks, divided.column_breaks) == ((2,), (4,))
    assert at(divided, 3, 6).coordinate == "((1,1),(2,1))"
    assert at(divided, 3, 6).index == 3 * 8 + 6
    whole = draw(Layout((4, 8), (8, 1)))
    assert (whole.row_breaks, whole.column_breaks) == ((), ())


def test_indices_are_coloured_in_eight_steps_from_first_to_last() -> None:
    row_major = draw(Layout((8, 4), (4, 1)))
    assert [[c.colour for c in line if c] for line in row_major.grid()] == [
        [r] * 4 for r in range(8)
    ]
    assert row_major.legend[2] == (2, "index 8-11")
    assert {cell.colour for cell in draw(Layout(4, 0)).cells} == {0}


@pytest.mark.parametrize(("bits", "bank"), [(32, 67 % 32), (16, 67 // 2 % 32), (64, 134 % 32)])
def test_the_bank_is_the_word_modulo_32(bits: int, bank: int) -> None:
    cell = draw(Layout(68), by="bank", memory=Memory(bits=bits)).cells[67]
    wide = bits // 64  # a 64-bit element lies in two banks
    assert cell.banks == (bank, bank + wide)
    assert cell.colour == bank // 4
    last = f"banks {bank} to {bank + 1}" if wide else f"bank {bank}"
    assert cell.sentence == f"67 → index 67 → {last}"


def test_the_128_byte_swizzle_is_an_xor_of_piece_and_row() -> None:
    tile = composition(Swizzle(3, 3, 3), Layout((8, 64), (64, 1)))
    drawing = draw(tile, by="bank", memory=Memory(bits=16), access=128)
    assert (drawing.rows, drawing.columns) == (8, 8)
    for row in range(8):
        for piece in range(8):
            first = 4 * (piece ^ row)
            cell = at(drawing, row, piece)
            assert cell.banks == (first, first + 3)
            assert cell.label == f"{first}-{first + 3}"
            assert cell.index == 8 * row + (piece ^ row)
            assert cell.colour == piece ^ row
    assert drawing.notes[1:] == (
        "Down a column: 1 word a bank at most, as few as can be.",
        "Along a row: 1 word a bank at most, as few as can be.",
    )
    plain = draw(tile.layout, by="bank", memory=Memory(bits=16), access=128)
    assert plain.notes[1] == "Down a column: up to 8 words in one bank, where 1 would do."


def test_padding_by_one_float_frees_the_columns() -> None:
    square = draw(Layout((32, 32), (32, 1)), by="bank")
    assert "Down a column: up to 32 words in one bank, where 1 would do." in square.notes
    padded = draw(Layout((32, 32), (33, 1)), by="bank")
    assert "Down a column: 1 word a bank at most, as few as can be." in padded.notes
    assert "32 × 32 cells: indices 0 to 1054, 31 not reached." in padded.notes


def test_another_number_of_banks() -> None:
    drawing = draw(Layout(20), by="bank", memory=Memory(banks=16))
    assert [cell.banks[0] for cell in drawing.cells] == [*range(16), 0, 1, 2, 3]
    assert drawing.legend[0] == (0, "bank 0-1")


def test_the_accumulator_of_mma_m16n8_is_where_ptx_says() -> None:
    """PTX ISA, mma.m16n8k16: groupID = lane >> 2, row = groupID (+ 8 for c2, c3), two columns."""
    held = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    drawing = draw_thread_value(held, Layout((16, 8)))
    for lane in range(32):
        for value in range(4):
            row = (lane >> 2) + 8 * (value >= 2)
            column = lane % 4 * 2 + value % 2
            cell = at(drawing, row, column)
            assert cell.owners == ((lane, value),)
            assert cell.label == f"T{lane} V{value}"
            assert cell.colour == lane % 8
    assert drawing.legend[1] == (1, "thread 1, 9, … 25")
    by_value = draw_thread_value(held, Layout((16, 8)), by="value")
    assert [number for number, _ in by_value.legend] == [0, 1, 2, 3]
    assert at(by_value, 8, 1).colour == 3
    assert at(by_value, 8, 1).sentence == "(8,1) → thread 0 value 3 → index 24 → bank 24"


def test_places_of_nobody_and_of_several() -> None:
    drawing = draw_thread_value(Layout((4, 2), (0, 2)), Layout((2, 2), (2, 1)))
    assert labels(drawing) == [["T0 V0+3", ""], ["T0 V1+3", ""]]
    assert at(drawing, 1, 0).owners == ((0, 1), (1, 1), (2, 1), (3, 1))
    assert "2 held by none, 2 by several" in drawing.notes[0]


def test_json_holds_every_cell() -> None:
    data = draw(Layout((2, 2), (2, 1)), by="bank", caption="start").to_json()
    assert data["caption"] == "start"
    assert data["cells"][2] == {
        "row": 1,
        "column": 0,
        "coordinate": "(1,0)",
        "index": 2,
        "banks": (2, 2),
        "owners": (),
        "label": "2",
        "colour": 0,
    }


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: draw(Layout(8), by="thread"), "names no threads; draw it as a thread-value"),
        (lambda: draw(Layout((128, 129))), "16512 cells, a drawing at most 16384"),
        (lambda: draw(Layout((4, 33), (33, 1)), access=128), "upcast of"),
        (lambda: draw_thread_value(Layout(8), Layout(8)), "has one mode"),
        (lambda: draw_thread_value(Layout((4, 4)), Layout((2, 4))), "thread 0, value 2 of"),
        (lambda: draw_thread_value(Layout((2, 2)), Layout((2, 2), (0, 1))), "an index twice"),
        (lambda: draw_thread_value(Layout((256, 65), (0, 0)), Layout(1)), "at most 16384"),
        (lambda: Memory(bits=0), "bits = 0: give at least 1"),
        (lambda: Memory(banks=-1), "banks = -1: give at least 1"),
        (lambda: parse("Sw<3,4>"), "expected ','"),
    ],
)
def test_what_cannot_be_drawn_is_said(attempt: object, message: str) -> None:
    with pytest.raises(LayoutError) as refused:
        attempt()  # type: ignore[operator]
    assert message in str(refused.value)


def _linear(colour: str) -> list[float]:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def _luminance(colour: str) -> float:
    """WCAG 2, relative luminance."""
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), _linear(colour), strict=True))


@pytest.mark.parametrize("fill", [*QUALITATIVE, *SEQUENTIAL])
def test_text_on_every_colour_has_the_contrast_that_wcag_asks_for(fill: object) -> None:
    low, high = sorted((_luminance(fill.ground), _luminance(fill.ink)))
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_indices_get_darker() -> None:
    shades = [_luminance(fill.ground) for fill in SEQUENTIAL]
    assert shades == sorted(shades, reverse=True)


# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
DEFICIENCIES = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


def _lab(linear: list[float]) -> list[float]:
    """CIE L*a*b* of linear sRGB, white D65."""
    to_xyz = (
        (0.4124, 0.3576, 0.1805),
        (0.2126, 0.7152, 0.0722),
        (0.0193, 0.1192, 0.9505),
    )
    white = (0.9505, 1.0, 1.089)
    ratios = [
        max(sum(w * p for w, p in zip(row, linear, strict=True)) / n, 0)
        for row, n in zip(to_xyz, white, strict=True)
    ]
    x, y, z = (r ** (1 / 3) if r > 0.008856 else 7.787 * r + 16 / 116 for r in ratios)
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_colours_are_told_apart_without_red_or_green_cones(deficiency: str) -> None:
    matrix = DEFICIENCIES[deficiency]
    seen = []
    for fill in QUALITATIVE:
        rgb = _linear(fill.ground)
        seen.append(_lab([sum(w * p for w, p in zip(row, rgb, strict=True)) for row in matrix]))
    for i, one in enumerate(seen):
        for other in seen[:i]:
            distance = sum((p - q) ** 2 for p, q in zip(one, other, strict=True)) ** 0.5
            assert distance > 6  # 2.3 is what is just noticed

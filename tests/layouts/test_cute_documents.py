"""The values of the examples in CuTe's public documentation of layouts, document by document.

CUTLASS 4.7.0, media/docs/cpp/cute/*.md and media/docs/cutlass_compiler/cute_concepts/**/*.rst.
"""

from __future__ import annotations

import pytest

from tilewright import layouts
from tilewright.layouts import (
    IntTuple,
    Layout,
    compatible,
    composition,
    concat,
    congruent,
    crd2idx,
    flat_divide,
    idx2crd,
    is_contiguous,
    is_injective,
    is_surjective,
    logical_divide,
    parse,
    parse_layout,
    parse_tiler,
    zipped_divide,
)
from tilewright.layouts.int_tuple import depth, product, rank

# Each row is an operation, its operands, and what the document says that CuTe prints. An operand
# in quotes is a layout or a tiler in CuTe's own form.
LAYOUT = [
    ("parse", "(2,4)", "(2,4):(1,2)"),
    ("row_major", 2, 4, "(2,4):(4,1)"),
    ("row_major", 2, (2, 2), "(2,(2,2)):(4,(2,1))"),
    ("column_major", 2, (2, 2), "(2,(2,2)):(1,(2,4))"),
    ("select", "(2,3,5,7)", 1, 3, "(3,7):(2,30)"),
    ("select", "(2,3,5,7)", 0, 1, 3, "(2,3,7):(1,2,30)"),
    ("select", "(2,3,5,7)", 2, "(5):(6)"),
    ("take", "(2,3,5,7)", 1, 3, "(3,5):(2,6)"),
    ("take", "(2,3,5,7)", 1, 4, "(3,5,7):(2,6,30)"),
    ("concat", "3:1", "4:3", "(3,4):(1,3)"),
    ("concat", "4:3", "3:1", "(4,3):(3,1)"),
    ("concat", "(3,4):(1,3)", "(4,3):(3,1)", "((3,4),(4,3)):((1,3),(3,1))"),
    ("concat", "3:1", "(3):(1)"),
    ("concat", "(3):(1)", "((3)):((1))"),
    ("concat", "3:1", "(3):(1)", "3:1", "(3,(3),3):(1,(1),1)"),
    ("append", "3:1", "4:3", "(3,4):(1,3)"),
    ("prepend", "3:1", "4:3", "(4,3):(3,1)"),
    ("append", "(3,4):(1,3)", "(3,4):(1,3)", "(3,4,(3,4)):(1,3,(1,3))"),
    ("replace", "(3,4,(3,4)):(1,3,(1,3))", 2, "4:3", "(3,4,4):(1,3,3)"),
    ("group", "(2,3,5,7)", 0, 2, "((2,3),5,7):((1,2),6,30)"),
    ("group", "((2,3),5,7):((1,2),6,30)", 1, 3, "((2,3),(5,7)):((1,2),(6,30))"),
    ("flatten", "((2,3),5,7):((1,2),6,30)", "(2,3,5,7):(1,2,6,30)"),
    ("flatten", "((2,3),(5,7)):((1,2),(6,30))", "(2,3,5,7):(1,2,6,30)"),
]
ALGEBRA = [
    ("coalesce", "(2,(1,6)):(1,(6,2))", "12:1"),
    ("coalesce", "(2,(1,6)):(1,(6,2))", (1, 1), "(2,6):(1,2)"),
    ("composition", "(6,2):(8,2)", "(4,3):(3,1)", "((2,2),3):((24,2),8)"),
    ("composition", "(6,2):(8,2)", "4:3", "(2,2):(24,2)"),
    ("composition", "(6,2):(8,2)", "3:1", "3:8"),
    ("composition", "20:2", "(5,4):(4,1)", "(5,4):(8,2)"),
    ("composition", "20:2", "5:4", "5:8"),
    ("composition", "20:2", "4:1", "4:2"),
    ("composition", "(10,2):(16,4)", "(5,4):(1,5)", "(5,(2,2)):(16,(80,4))"),
    ("composition", "(12,(4,8)):(59,(13,1))", "<3:4,8:2>", "(3,(2,4)):(236,(26,1))"),
    ("composition", "(12,(4,8)):(59,(13,1))", "<3,8>", "(3,(4,2)):(59,(13,1))"),
    # (3,6,2,8):(w,x,y,z) o 16:9 = (1,2,2,4):(9w,3x,y,z), here for w, x, y, z = 1, 5, 7, 1000.
    ("composition", "(3,6,2,8):(1,5,7,1000)", "16:9", "(2,2,4):(15,7,1000)"),
    ("composition", "(3,6,2,8):(1,5,7,1000)", "4:72", "4:2000"),
    ("complement", "4:1", 24, "6:4"),
    ("complement", "6:4", 24, "4:1"),
    ("complement", "(4,6):(1,4)", 24, "1:0"),
    ("complement", "4:2", 24, "(2,3):(1,8)"),
    ("complement", "(2,4):(1,6)", 24, "3:2"),
    ("complement", "(2,2):(1,6)", 24, "(3,2):(2,12)"),
    ("logical_divide", "(4,2,3):(2,1,8)", "4:2", "((2,2),(2,3)):((4,1),(2,8))"),
    (
        "logical_divide",
        "(9,(4,8)):(59,(13,1))",
        "<3:3,(2,4):(1,8)>",
        "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))",
    ),
    (
        "zipped_divide",
        "(9,(4,8)):(59,(13,1))",
        "<3:3,(2,4):(1,8)>",
        "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))",
    ),
    ("complement", "(2,2):(4,1)", 24, "(2,3):(2,8)"),
    ("composition", "(2,3):(2,8)", "6:1", "(2,3):(2,8)"),
    ("logical_product", "(2,2):(4,1)", "6:1", "((2,2),(2,3)):((4,1),(2,8))"),
    ("logical_product", "(2,2):(4,1)", "(4,2):(2,1)", "((2,2),(4,2)):((4,1),(8,2))"),
    ("blocked_product", "(2,5):(5,1)", "(3,4):(1,3)", "((2,3),(5,4)):((5,10),(1,30))"),
    ("raked_product", "(2,5):(5,1)", "(3,4):(1,3)", "((3,2),(4,5)):((10,5),(30,1))"),
    ("logical_product", "(2,5):(5,1)", "<3:5,4:6>", "((2,3),(5,4)):((5,10),(1,30))"),
    ("logical_divide", "1000:1", 128, "(128,8):(1,128)"),  # 0y_predication.md
]
CONCEPTS = [
    ("parse", "(4,2)", "(4,2):(1,4)"),
    ("coalesce", "(3,(4,5)):(8,(1,4))", (1, 1), "(3,20):(8,1)"),
    ("composition", "(4,8):(1,4)", "(2,4)", "(2,4):(1,4)"),
    ("composition", "(6,4):(4,1)", "<(2):(1),(2):(1)>", "((2),(2)):((4),(1))"),
    ("complement", "(2,2):(4,1)", "2:2"),
    ("right_inverse", "(2,4,6):(4,1,8)", "(4,2,6):(2,1,8)"),
    ("left_inverse", "(2,4,6):(4,1,8)", "(4,2,6):(2,1,8)"),
    ("right_inverse", "(2,4):(4,1)", "(4,2):(2,1)"),
    ("left_inverse", "(2,4):(4,1)", "(4,2):(2,1)"),
    ("left_inverse", "(2,3):(1,2)", "6:1"),
    ("group", "(4,5,6):(1,4,20)", 0, 2, "((4,5),6):((1,4),20)"),
    ("group", "(4,5,6):(1,4,20)", 1, 3, "(4,(5,6)):(1,(4,20))"),
    ("group", "(4,5,6):(1,4,20)", 0, 3, "((4,5,6)):((1,4,20))"),
    ("recast", "(32,4):(1,32)", 8, 32, "(8,4):(1,8)"),
    ("recast", "(8,4):(1,8)", 32, 8, "(32,4):(1,32)"),
    ("recast", "(8,4):(1,8)", 32, 32, "(8,4):(1,8)"),
    ("recast", "(8,4):(1,8)", 6, 4, "(12,4):(1,12)"),
    ("logical_product", "(2,2):(4,1)", "6:1", "((2,2),(2,3)):((4,1),(2,8))"),
    ("logical_product", "(2,2):(4,1)", "(3,2):(2,1)", "((2,2),(3,2)):((4,1),(8,2))"),
    ("logical_product", "(3,4):(4,1)", "(2,5):(1,2)", "((3,4),(2,5)):((4,1),(12,24))"),
    ("zipped_product", "(3,4):(4,1)", "(2,5):(1,2)", "((3,4),(2,5)):((4,1),(12,24))"),
    ("tiled_product", "(3,4):(4,1)", "(2,5):(1,2)", "((3,4),2,5):((4,1),12,24)"),
    ("flat_product", "(3,4):(4,1)", "(2,5):(1,2)", "(3,4,2,5):(4,1,12,24)"),
    ("blocked_product", "(3,4):(4,1)", "(2,5):(1,2)", "((3,2),(4,5)):((4,12),(1,24))"),
    ("raked_product", "(3,4):(4,1)", "(2,5):(1,2)", "((2,3),(5,4)):((12,4),(24,1))"),
    ("tile_to_shape", "(2,2):(1,2)", (8, 8), "((2,4),(2,4)):((1,4),(2,16))"),
    ("logical_divide", "(6,8):(8,1)", "<3,4>", "((3,2),(4,2)):((8,24),(1,4))"),
    ("logical_divide", "(6,8):(8,1)", "<(3):(1),(4):(1)>", "(((3),2),((4),2)):(((8),24),((1),4))"),
    ("zipped_divide", "(6,8):(8,1)", "<3,4>", "((3,4),(2,2)):((8,1),(24,4))"),
    ("tiled_divide", "(6,8):(8,1)", "<3,4>", "((3,4),2,2):((8,1),24,4)"),
    ("flat_divide", "(6,8):(8,1)", "<3,4>", "(3,4,2,2):(8,1,24,4)"),
    ("logical_divide", "(6,8):(8,1)", "(3,4):(1,3)", "((3,(2,2)),4):((8,(24,1)),2)"),
    ("ordered", (4, 2), (0, 1), "(4,2):(1,4)"),
    ("ordered", (4, 2), (1, 0), "(4,2):(2,1)"),
    ("ordered", (4, 3, 8, 2), (2, 1, 3, 0), "(4,3,8,2):(6,2,24,1)"),
    ("like", "8:2", "8:1"),
    ("like", "(4,2):(1,4)", "(4,2):(1,4)"),
    ("like", "(4,2):(4,1)", "(4,2):(2,1)"),
    ("like", "(2,(3,4)):(1,(2,8))", "(2,(3,4)):(1,(2,6))"),
    ("like", "(2,3,4,5):(0,42,1,0)", "(2,3,4,5):(0,4,1,0)"),
    ("select", "(4,2,8):(1,4,8)", 2, 0, "(8,4):(8,1)"),
    ("select", "(4,8):(1,4)", 0, "(4):(1)"),
]


@pytest.mark.parametrize(
    "row", [*LAYOUT, *ALGEBRA, *CONCEPTS], ids=lambda row: f"{row[0]} {row[-1]}"
)
def test_documented_result(row: tuple[object, ...]) -> None:
    name, *operands, printed = row
    if name == "parse":
        assert str(parse(str(operands[0]))) == printed
        return
    # A first operand without strides is a layout; any other is a shape, and so a tiler.
    first = parse(operands[0]) if isinstance(operands[0], str) else operands[0]
    rest = [parse_tiler(o) if isinstance(o, str) else o for o in operands[1:]]
    assert str(getattr(layouts, str(name))(first, *rest)) == printed


@pytest.mark.parametrize(
    ("layout", "rows"),
    [
        ("(2,4)", [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ("(2,4):(12,1)", [[0, 1, 2, 3], [12, 13, 14, 15]]),
        ("(2,(2,2)):(1,(2,4))", [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ("(2,(2,2)):(4,(2,1))", [[0, 2, 1, 3], [4, 6, 5, 7]]),
        ("(4,2):(1,4)", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("(4,2):(2,1)", [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ("((2,2),2):((4,1),2)", [[0, 2], [4, 6], [1, 3], [5, 7]]),
        (
            "(3,(2,3)):(3,(12,1))",
            [[0, 12, 1, 13, 2, 14], [3, 15, 4, 16, 5, 17], [6, 18, 7, 19, 8, 20]],
        ),
    ],
)
def test_documented_tables(layout: str, rows: list[list[int]]) -> None:
    table = parse(layout)
    assert [[table(i, j) for j in range(len(row))] for i, row in enumerate(rows)] == rows


@pytest.mark.parametrize(
    ("layout", "row"),
    [
        ("8:1", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("8:2", [0, 2, 4, 6, 8, 10, 12, 14]),
        ("((4,2)):((2,1))", [0, 2, 4, 6, 1, 3, 5, 7]),
        ("((4,2)):((1,4))", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("(2,4):(12,1)", [0, 12, 1, 13, 2, 14, 3, 15]),
        ("(2,(2,2)):(4,(2,1))", [0, 4, 2, 6, 1, 5, 3, 7]),
        ("(2,4):(4,1)", [0, 4, 1, 5, 2, 6, 3, 7]),
        ("((2,2),3):((24,2),8)", [0, 24, 2, 26, 8, 32, 10, 34, 16, 40, 18, 42]),
    ],
)
def test_documented_rows(layout: str, row: list[int]) -> None:
    assert parse(layout).indices() == row
    assert [parse(layout)(i) for i in range(len(row))] == row


def test_documented_tuples() -> None:
    assert (rank((4, 3)), depth(6), depth((4, 3)), depth((3, (6, 2), 8))) == (2, 0, 1, 2)
    assert product((3, (6, 2), 8)) == 288
    assert Layout((4, (16, 32)), (1, (4, 64))).size == 2048
    assert Layout((4, (16, 32)), (1, (4, 64)))[1].size == 512
    assert Layout((4, 3, 2), (1, 4, 12)).cosize == 24


def test_documented_compatibility() -> None:
    yes: list[tuple[IntTuple, IntTuple]] = [
        (24, (4, 6)),
        ((4, 6), ((2, 2), 6)),
        (((2, 2), 6), ((2, 2), (3, 2))),
        (24, ((2, 2), (3, 2))),
        (24, ((2, 3), 4)),
        (24, (24,)),
    ]
    no: list[tuple[IntTuple, IntTuple]] = [
        (24, 32),
        (((2, 3), 4), ((2, 2), (3, 2))),
        (((2, 2), (3, 2)), ((2, 3), 4)),
        ((24,), 24),
        ((24,), (4, 6)),
    ]
    assert all(compatible(a, b) for a, b in yes)
    assert not any(compatible(a, b) for a, b in no)
    assert congruent((2, (2, 2)), (4, (2, 1)))
    assert not congruent((2, (2, 2)), (4, 2, 1))


def test_documented_coordinates() -> None:
    shape, stride = (3, (2, 3)), (3, (12, 1))
    for index, middle, natural in [
        (0, (0, 0), (0, (0, 0))),
        (5, (2, 1), (2, (1, 0))),
        (6, (0, 2), (0, (0, 1))),
        (16, (1, 5), (1, (1, 2))),
        (17, (2, 5), (2, (1, 2))),
    ]:
        for coordinate in (index, middle, natural):
            assert idx2crd(coordinate, shape) == natural
            assert crd2idx(coordinate, shape, stride) == Layout(shape, stride)(coordinate)
    assert crd2idx(16, shape, stride) == 17


def test_documented_sublayouts_and_slices() -> None:
    a = Layout((4, (3, 6)))
    assert [str(a[0]), str(a[1]), str(a[1, 0]), str(a[1, 1])] == [
        "4:1",
        "(3,6):(4,12)",
        "3:4",
        "6:12",
    ]
    b = parse_layout("((3,2),(2,5,2)):((4,1),(2,13,100))")
    for coordinate, kept, offset in [
        ((2, None), "((2,5,2)):((2,13,100))", 8),
        ((None, 5), "((3,2)):((4,1))", 2 + 2 * 13),
        (((None, None), 5), "(3,2):(4,1)", 2 + 2 * 13),
        (((None, 1), (0, None, 1)), "(3,5):(4,13)", 1 + 100),
        (((2, None), (None, 3, None)), "(2,2,2):(1,2,100)", 8 + 3 * 13),
    ]:
        layout, base = b.slice(*coordinate)
        assert (str(layout), base) == (kept, offset)


def test_documented_tiles_of_a_divide() -> None:
    a = parse_layout("(9,(4,8)):(59,(13,1))")
    tiler = parse_tiler("<3:3,(2,4):(1,8)>")
    zipped = zipped_divide(a, tiler)
    assert zipped[0] == composition(a, tiler)
    assert [mode.size for part in zipped for mode in part] == [3, 8, 3, 4]
    # Tile 7 is tile (1, 2): the row and the column that the rest of the tiler gives.
    assert zipped(0, 7) == zipped(0, (1, 2)) == a(1, 4)
    assert [mode.size for mode in flat_divide(a, tiler)] == [3, 8, 3, 4]
    assert logical_divide(a, (3, None))[1] == a[1]


def test_documented_thread_value_partition() -> None:
    threads_values = parse_layout("((2,4),(2,2)):((8,1),(4,16))")
    rows = composition(layouts.row_major(4, 8), threads_values)
    assert rows.shape == ((2, 4), (2, 2))
    assert sorted(rows.indices()) == list(range(32))
    # Thread 0 has values (0,0), (0,1), (0,4), (0,5) of the 4 x 8 matrix; thread 1 those 2 right.
    assert [rows(0, v) for v in range(4)] == [0, 1, 4, 5]
    assert [rows(1, v) for v in range(4)] == [2, 3, 6, 7]
    assert rows(2, 0) == 8


def test_documented_mma_maps() -> None:
    volta = parse_layout("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))")
    assert [volta(t, 0) for t in range(8)] == [0, 1, 16, 17, 4, 5, 20, 21]
    assert [volta(0, v) for v in range(8)] == [0, 8, 2, 10, 32, 40, 34, 42]
    assert is_contiguous(volta)
    assert is_contiguous(parse_layout("((4,8,4),(2,2,16)):((128,1,16),(64,8,512))"))
    assert parse_layout("(4,2):(1,16)").indices() == [0, 1, 2, 3, 16, 17, 18, 19]


def test_documented_kinds_of_functions() -> None:
    assert is_injective(parse_layout("(4,8):(1,4)"))
    assert not is_injective(parse_layout("(4,8):(1,0)"))
    assert not is_surjective(parse_layout("(2,2):(4,1)"))
    assert sorted(parse_layout("(2,2):(4,1)").indices()) == [0, 1, 4, 5]
    assert is_contiguous(parse_layout("(4,8):(1,4)"))
    assert is_contiguous(parse_layout("(4,8):(8,1)"))
    assert is_surjective(concat(parse_layout("4:2"), parse_layout("(2,3):(1,8)")))

"""`tilewright layout`: the grid in the terminal, the files, the order of operations, refusals."""

import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from tilewright.cli import app

SWIZZLED = ["(8,64):(64,1)", "--swizzle", "128B", "--bits", "16", "--by", "bank"]
SVG = "{http://www.w3.org/2000/svg}"


def succeed(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["layout", *arguments])
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 100 or arguments[-1] == "-"
    return done.stdout


def refuse(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["layout", *arguments])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    return done.stderr.removeprefix("error: ")


def grids(out: str) -> list[list[list[str]]]:
    """Return the grids printed, as rows of words; the head line and the row numbers left out."""
    found = []
    for block in out.split("\n\n"):
        lines = [line.replace("│", " ").split() for line in block.splitlines() if "─" not in line]
        if len(lines) > 1 and lines[0][:1] == ["0"]:
            found.append([line[1:] for line in lines[1:]])
    return found


def test_the_grid_of_a_row_major_tile() -> None:
    out = succeed("(8,8):(8,1)")
    assert out.startswith("layout: (8,8):(8,1)\n")
    assert grids(out) == [[[str(8 * row + column) for column in range(8)] for row in range(8)]]
    assert "8 × 8 cells: indices 0 to 63." in out
    assert not [line for line in out.splitlines() if line != line.rstrip()]


def test_one_command_draws_the_swizzled_tile_beside_the_plain_one() -> None:
    plain, swizzled = grids(succeed(*SWIZZLED))
    for row in range(8):
        for piece in range(8):
            assert plain[row][piece] == f"{4 * piece}-{4 * piece + 3}"
            first = 4 * (piece ^ row)
            assert swizzled[row][piece] == f"{first}-{first + 3}"


def test_a_swizzle_may_be_in_the_layout_or_by_its_numbers() -> None:
    text = "Sw<3,3,3> o 0 o (8,64):(64,1)"
    data = json.loads(succeed(text, "--bits", "16", "--access", "128", "--json", "-"))
    by_mode = json.loads(succeed(*SWIZZLED[:5], "--json", "-"))
    by_numbers = json.loads(succeed("(8,64):(64,1)", "--swizzle", "Sw<3,3,3>", "--bits", "16",
                                    "--json", "-"))  # fmt: skip
    cells = data["steps"][0]["cells"]
    assert cells == by_mode["steps"][1]["cells"] == by_numbers["steps"][1]["cells"]
    assert cells[9]["index"] == 8  # row 1, piece 1: 1 ^ 1 = 0


@pytest.mark.parametrize(
    ("mode", "bits", "swizzle"),
    [("32B", "16", "Sw<1,3,3>"), ("64b", "8", "Sw<2,4,3>"), ("128", "4", "Sw<3,5,3>")],
)
def test_the_modes_on_elements_of_other_sizes(mode: str, bits: str, swizzle: str) -> None:
    """The mode's base is 4 on bytes: 16 bytes stay together, 2^base elements."""
    out = succeed("(8,256):(256,1)", "--swizzle", mode, "--bits", bits)
    assert f"swizzled by {mode}: {swizzle} o 0 o (8,256):(256,1)" in out


def test_operations_go_in_the_order_given_and_may_repeat() -> None:
    out = succeed("(4,8):(8,1)", "--coalesce", "--divide", "(2,4)", "--compose", "(4,2)",
                  "--divide", "2", "--coalesce")  # fmt: skip
    captions = [line for line in out.splitlines() if re.match(r"^[a-z ]+[(\d),]*: \(?", line)]
    assert [caption.split(":")[0] for caption in captions] == [
        "layout",
        "coalesced",
        "divided by (2,4)",
        "composed with (4,2)",
        "divided by 2",
        "coalesced",
    ]
    assert "divided by (2,4): ((2,2),(4,2)):((8,16),(1,4))" in out


def test_each_operation() -> None:
    assert "complement up to 24: 6:4" in succeed("4:1", "--complement", "24")
    assert "repeated by 6: ((2,2),(2,3)):((4,1),(2,8))" in succeed("(2,2):(4,1)", "--product", "6")
    composed = succeed("(6,2):(8,2)", "--compose", "(4,3):(3,1)")
    assert "composed with (4,3):(3,1): ((2,2),3):((24,2),8)" in composed
    assert "coalesced: 12:1" in succeed("(2,(1,6)):(1,(6,2))", "--coalesce")


def test_colours_come_where_a_terminal_has_enough_of_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    app(["layout", "(1,2):(2,1)", "--by", "bank"], standalone_mode=False)
    out = capsys.readouterr().out
    ground = "48;2;119;170;221m"  # #77aadd, the colour of banks 0 to 3
    assert f"{ground} 0 " in out
    assert re.search(rf"{ground}  .*bank\xa00-3", out)
    monkeypatch.setenv("COLORTERM", "")
    app(["layout", "(1,2):(2,1)", "--by", "bank"], standalone_mode=False)
    assert "48;" not in capsys.readouterr().out


def test_tiles_are_ruled_off() -> None:
    lines = succeed("(4,8):(8,1)", "--divide", "(2,4)").splitlines()
    assert "0   0   1   2   3 │  4   5   6   7" in lines
    assert "  ────────────────┼────────────────" in lines


def test_a_wide_grid_comes_in_bands_of_whole_tiles() -> None:
    out = succeed("(2,64):(64,1)", "--divide", "(2,8)")
    heads = [line for line in out.splitlines() if re.match(r"^ +\d+ +\d+ ", line)]
    bands = [[int(n) for n in re.findall(r"\d+", head)] for head in heads[-4:]]
    assert [band[0] for band in bands] == [0, 16, 32, 48]
    assert list(itertools.chain(*bands)) == list(range(64))


def test_a_large_grid_is_cut_short_and_says_so() -> None:
    out = succeed("(100,100)")
    assert "rows 0 to 63 of 100, columns 0 to 63 of 100; --svg and --html draw all" in out


def test_threads_and_values() -> None:
    (grid,) = grids(succeed("((4,8),(2,2)):((32,1),(16,8))", "--thread-value", "(16,8)"))
    assert grid[9][4:6] == ["T5", "V2"]
    assert grids(succeed("--instruction", "mma.m16n8k16.bf16.c")) == [grid]


def test_ldmatrix_gives_a_thread_two_neighbours_of_a_row() -> None:
    """PTX ISA, ldmatrix: lane 4 · r + i holds elements 2 · i and 2 · i + 1 of row r."""
    data = json.loads(succeed("--instruction", "ldmatrix.x1", "--json", "-"))
    for cell in data["steps"][0]["cells"]:
        row, column = cell["row"], cell["column"]
        assert cell["owners"] == [[4 * row + column // 2, column % 2]]
    turned = json.loads(succeed("--instruction", "ldmatrix.x1.trans", "--json", "-"))
    for cell in turned["steps"][0]["cells"]:
        row, column = cell["row"], cell["column"]
        assert cell["owners"] == [[4 * column + row // 2, row % 2]]


def test_wgmma_has_four_warps_of_sixteen_rows() -> None:
    data = json.loads(succeed("--instruction", "wgmma.n8.bf16.d", "--json", "-"))
    cells = {(c["row"], c["column"]): c["owners"] for c in data["steps"][0]["cells"]}
    assert cells[16, 0] == [[32, 0]]
    assert len(cells) == 64 * 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["(4,8):(8,x)"], "expected a stride or '('\n  (4,8):(8,x)\n           ^\n"),
        (["(4,8)", "--divide", "(2,x)"], "--divide: expected a size or '('\n  (2,x)\n     ^\n"),
        (["(4,8)", "--swizzle", "Sw<1,2>"], "--swizzle: expected ',' and the shift"),
        (["(4,8)", "--swizzle", "48B"], "--swizzle: a swizzle of 48 bytes: give 32, 64 or 128"),
        (["(4,8)", "--swizzle", "wide"], "--swizzle: expected Sw<bits,base,shift>\n  wide\n  ^"),
        (["(8,64)", "--swizzle", "128B", "--swizzle", "64B"], "is behind a swizzle already"),
        (["Sw<1,2,3> o 8:1", "--complement", "9"], "--complement: Sw<1,2,3> o 0 o 8:1 has no"),
        (["8:1", "--complement", "0"], "--complement: 0: give a size of at least 1"),
        (["(6,2):(8,2)", "--compose", "5:3"], "Nearest that would do: 5:1 or 4:3"),
        (["8:1", "--by", "lane"], "--by 'lane': choose one of index, thread, value, bank"),
        (["8:1", "--by", "thread"], "names no threads; draw it as a thread-value layout"),
        (["8:1", "--bits", "0", "--by", "bank"], "bits = 0: give at least 1"),
        (["(4,4):(4,1)", "--thread-value", "(2,2)"], "which is no place of the tile (2,2):(1,2)"),
        (["(4,4)", "--thread-value", "(4,4)", "--access", "128"], "--access draws pieces"),
        (["8:1", "--instruction", "ldmatrix.x4"], "--instruction brings its own layout"),
        (["--instruction", "ldmatrix.4"], "instruction 'ldmatrix.4': give one of the form"),
        (["--instruction", "ldmatrix.x3"], "ldmatrix of 3 matrices: give 1, 2 or 4"),
        (["--instruction", "wgmma.nx.bf16.d"], "give one of the form"),
        (["--instruction", "mma.m16n8k16.f32.c"], "unknown dtype of mma.sync 'f32'"),
        ([], "no layout: give one, such as '(4,8):(8,1)', or --instruction"),
        (["(200,100)"], "20000 cells, a drawing at most 16384"),
    ],
)
def test_bad_input_is_refused_in_clear_words(arguments: list[str], message: str) -> None:
    assert message in refuse(*arguments)


@pytest.mark.parametrize("option", ["--svg", "--html", "--json"])
def test_a_file_that_cannot_be_written_stops_before_anything_is(
    option: str, tmp_path: Path
) -> None:
    first = tmp_path / "first.svg"
    given = ["--svg", str(first)] if option != "--svg" else []
    assert f"{option} {tmp_path}: that is a folder" in refuse("8:1", *given, option, str(tmp_path))
    assert not first.exists()


def test_a_full_disk_is_said() -> None:
    assert refuse("8:1", "--svg", "/dev/full") == "--svg /dev/full: No space left on device\n"


def svg(tmp_path: Path, *arguments: str) -> ElementTree.Element:
    target = tmp_path / "a.svg"
    succeed(*arguments, "--svg", str(target))
    return ElementTree.parse(target).getroot()


def test_the_svg_says_what_it_shows(tmp_path: Path) -> None:
    root = svg(tmp_path, *SWIZZLED)
    names = root.get("aria-labelledby", "").split()
    texts = {node.get("id"): node.text for node in root if node.get("id")}
    assert root.get("role") == "img"
    assert texts[names[0]] == (
        "layout: (8,64):(64,1); swizzled by 128B: Sw<3,3,3> o 0 o (8,64):(64,1)"
    )
    assert "Row 1: 4-7, 0-3, 12-15, 8-11, 20-23, 16-19, 28-31, 24-27." in texts[names[1]]
    cells = root.findall(f"{SVG}g")
    assert len(cells) == 2 * 64
    assert cells[64 + 9].findtext(f"{SVG}title") == "(1,1) → index 8 → banks 0 to 3"
    assert cells[64 + 9].findtext(f"{SVG}text") == "0-3"
    assert float(root.get("width", "")) <= 400


def test_the_svg_stands_alone_in_light_and_dark(tmp_path: Path) -> None:
    root = svg(tmp_path, "(4,8):(8,1)", "--divide", "(2,4)")
    text = ElementTree.tostring(root, encoding="unicode")
    assert "prefers-color-scheme: dark" in text
    assert "url(" not in text
    assert "href" not in text
    boxes = [node for node in root.iter(f"{SVG}rect") if "x" in node.attrib]
    right = max(float(b.get("x", 0)) + float(b.get("width", 0)) for b in boxes)
    bottom = max(float(b.get("y", 0)) + float(b.get("height", 0)) for b in boxes)
    assert right <= float(root.get("width", 0))
    assert bottom <= float(root.get("height", 0))


def test_the_lines_between_tiles_span_the_grid(tmp_path: Path) -> None:
    root = svg(tmp_path, "(4,8):(8,1)", "--divide", "(2,4)")
    boxes = root.findall(f"{SVG}g/{SVG}rect")[-32:]
    x, y, wide, high = (
        [float(box.get(name, 0)) for box in boxes] for name in ("x", "y", "width", "height")
    )
    right, bottom = x[-1] + wide[-1], y[-1] + high[-1]
    across, down = x[4], y[16]  # before column 4, before row 2
    assert [path.get("d") for path in root.findall(f"{SVG}path")] == [
        f"M{across:g} {y[0]:g}V{bottom:g}",
        f"M{x[0]:g} {down:g}H{right:g}",
    ]


class Page(HTMLParser):
    """Collects the cells, and whatever would need a network."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[dict[str, str | None]] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "td":
            self.cells.append(dict(attrs))
        self.outside += [f"{tag} {k}" for k, _ in attrs if k in ("src", "href", "srcset")]


def test_the_page_needs_no_network_and_says_where_each_cell_leads(tmp_path: Path) -> None:
    target = tmp_path / "a.html"
    succeed(*SWIZZLED, "--html", str(target))
    text = target.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.outside == []
    assert "http" not in text
    assert "$" not in text
    assert len(page.cells) == 2 * 64
    assert page.cells[64 + 9]["data-says"] == "(1,1) → index 8 → banks 0 to 3"
    assert [n for n, cell in enumerate(page.cells) if cell["tabindex"] == "0"] == [0, 64]

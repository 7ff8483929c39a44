"""The figure of a tile beside the layouts of its rung, the emulator's counters and the claims."""

import json
from collections import defaultdict
from functools import cache

import pytest

from tilewright.bench.profiling import rung_launch
from tilewright.bench.tile_figure import Access, Site, TileFigure
from tilewright.bench.tile_steps import tile_figure
from tilewright.emulator import run
from tilewright.errors import UnsupportedError
from tilewright.gpus import gpu
from tilewright.kernels import HISTORY, RUNGS, rung
from tilewright.kernels.tile_layouts import layouts_of, shared_tiles
from tilewright.problem import Problem

GPU = gpu("RTX A6000")
LADDER = [name for name in RUNGS if not RUNGS[name].tile_for(GPU.name).workers]
SHOWN = [*LADDER, *HISTORY]
STAGED = [name for name in LADDER if RUNGS[name].default.bk and not RUNGS[name].default.stages]


@cache
def made(name: str) -> TileFigure:
    return tile_figure(rung(name), GPU)


def lanes(figure: TileFigure, access: Access) -> list[tuple[int, int, int]]:
    """(thread, first byte, first element) of every lane that takes part."""
    found = []
    for place, warp in enumerate(access.warps):
        bytes_, elements = (
            figure.patterns[column[place]] for column in (access.pattern, access.places)
        )
        for lane in range(32):
            byte, element = bytes_[lane], elements[lane]
            if byte is not None and element is not None:
                thread = 32 * warp + lane
                found.append((thread, access.base[place] + byte, access.element[place] + element))
    return found


def floats(site: Site, first: int) -> list[int]:
    return [first + n * site.step for n in range(site.bytes // 4)]


@pytest.mark.parametrize("name", SHOWN)
def test_who_stores_an_output_is_who_owns_it(name: str) -> None:
    figure = made(name)
    try:
        owner = layouts_of(rung(name), rung(name).tile_for(GPU.name)).owner
    except UnsupportedError:
        pytest.skip("no layouts describe this kernel")
    found = defaultdict(set)
    for moment in figure.moments:
        for access in moment.accesses:
            site = figure.sites[access.site]
            if site.operand == "C":
                for thread, _, first in lanes(figure, access):
                    found[thread] |= set(floats(site, first))
    for thread in range(figure.threads):
        places = (owner(thread, value) for value in range(owner[1].size))
        expected = {
            (figure.row + place % figure.bm) * figure.ld["C"] + figure.column + place // figure.bm
            for place in places
        }
        assert found[thread] == expected


@pytest.mark.parametrize("name", STAGED)
def test_words_of_shared_memory_hold_what_the_layouts_say(name: str) -> None:
    figure, each = made(name), rung(name)
    tile = each.tile_for(GPU.name)
    layouts = dict(zip("AB", shared_tiles(tile, transposed=each.use.vector), strict=True))
    start = {"A": 0, "B": figure.shared_bytes // 4 - tile.bk * tile.bn}
    if not each.use.vector:
        start = {}  # the compiler lays the arrays out: the first word stored tells
    checked = 0
    for moment in figure.moments:
        for access in moment.accesses:
            site = figure.sites[access.site]
            if site.space != "shared":
                continue
            ld = figure.ld[site.operand]
            for _, byte, first in lanes(figure, access):
                for n, element in enumerate(floats(site, first)):
                    row, col = divmod(element, ld)
                    if site.operand == "A":
                        inside = (row - figure.row, col % tile.bk)
                    else:
                        inside = (row % tile.bk, col - figure.column)
                    place = byte // 4 + n - layouts[site.operand](*inside)
                    assert place == start.setdefault(site.operand, place), (site, byte, element)
                    checked += 1
    assert checked


@pytest.mark.parametrize("name", SHOWN)
def test_costs_are_those_that_the_emulator_counts(name: str) -> None:
    figure, each = made(name), rung(name)
    problem = Problem(
        m=figure.m, n=figure.n, k=figure.k, lda=figure.ld["A"], ldb=figure.ld["B"],
        ldc=figure.ld["C"],
    )  # fmt: skip
    artifact, launch, args = rung_launch(each, problem, GPU)
    counters = run(artifact, launch, args, sample=[figure.block], count=True).counters
    assert counters is not None
    sums: dict[str, int] = defaultdict(int)
    for moment in figure.moments:
        for access in moment.accesses:
            site = figure.sites[access.site]
            way = site.way
            if way == "copy":
                way = "load" if site.space == "global" else "store"
            unit = "sectors" if site.space == "global" else "wavefronts"
            sums[f"{site.space}_{way}_requests"] += len(access.warps)
            sums[f"{site.space}_{way}_{unit}"] += sum(access.cost)
            assert all(n <= m for n, m in zip(access.least, access.cost, strict=True))
    expected = {name: getattr(counters, name) for name in sums}
    if each.default.stages:  # copies that bring zeros in the last steps are left out
        for key in ("shared_store_requests", "shared_store_wavefronts"):
            assert sums.pop(key) <= expected.pop(key)
    assert dict(sums) == expected


@pytest.mark.parametrize("name", SHOWN)
def test_a_thread_reads_what_its_outputs_need_at_each_step_along_k(name: str) -> None:
    figure = made(name)
    read = defaultdict(set)
    stored = set()
    for moment in figure.moments:
        for access in moment.accesses:
            site = figure.sites[access.site]
            for thread, _, first in lanes(figure, access):
                for element in floats(site, first):
                    if moment.kind in ("read", "direct"):
                        row, col = divmod(element, figure.ld[site.operand])
                        assert moment.k == (col if site.operand == "A" else row)
                        read[thread, site.operand, moment.k].add(
                            row if site.operand == "A" else col
                        )
                    elif site.operand == "C":
                        stored.add((thread, *divmod(element, figure.ld["C"])))
    for thread, row, col in stored:
        for k in range(figure.k):
            assert row in read[thread, "A", k]
            assert col in read[thread, "B", k]


def test_every_tile_along_k_is_between_barriers() -> None:
    moments = made("03_shared_tile").moments
    assert [(m.phase, m.kind, m.k) for m in moments if m.kind != "read"] == [
        (0, "copy", 0),
        (2, "copy", 32),
        (4, "store", 0),
    ]
    assert [m.k for m in moments if m.phase == 3] == list(range(32, 64))


def test_a_large_problem_is_shown_by_a_small_one_that_costs_as_much() -> None:
    large = Problem(m=4092, n=4092, k=4092)
    figure = tile_figure(rung("05"), GPU, problem=large)
    tile = rung("05").tile_for(GPU.name)
    assert figure.asked == (4092, 4092, 4092)
    assert (figure.m, figure.n, figure.k) == (2 * tile.bm, 2 * tile.bn, 2 * tile.bk)
    # Rows begin as far from a line of 128 bytes as those of 4092 floats do.
    assert {name: ld % 32 for name, ld in figure.ld.items()} == dict.fromkeys("ABC", 4092 % 32)
    assert all(figure.ld[name] >= row for name, row in zip("ABC", (16, 256, 256), strict=True))


def test_a_small_problem_is_shown_as_it_is() -> None:
    figure = tile_figure(rung("06"), GPU, problem=Problem(m=50, n=70, k=5))
    assert figure.asked is None
    assert (figure.m, figure.n, figure.k) == (50, 70, 5)
    assert (figure.bm, figure.bn, figure.block) == (50, 70, 0)
    outputs = {
        element
        for moment in figure.moments
        for access in moment.accesses
        if figure.sites[access.site].operand == "C"
        for _, _, first in lanes(figure, access)
        for element in floats(figure.sites[access.site], first)
    }
    assert outputs == {row * 70 + col for row in range(50) for col in range(70)}


def test_a_kernel_whose_blocks_stay_is_shown_with_a_block_a_tile() -> None:
    name = next((n for n, each in RUNGS.items() if each.default.workers), None)
    if name is None:
        pytest.skip("no such rung")
    figure = made(name)
    assert figure.blocks == 4
    stored = [m for m in figure.moments if m.kind == "store"]
    assert len(stored) == 1
    assert {m.k for m in figure.moments if m.kind == "read"} == set(range(figure.k))


def test_the_json_has_every_access_and_no_column_twice() -> None:
    figure = made("04_register_1d")
    data = json.loads(json.dumps(figure.to_json()))
    for moment, told in zip(figure.moments, data["moments"], strict=True):
        assert told["title"] == moment.title
        for access, columns in zip(moment.accesses, told["accesses"], strict=True):
            for name in Access.__slots__:
                value, column = getattr(access, name), columns[name]
                many = column if isinstance(column, list) else [column] * len(access.warps)
                assert many == list(value) if isinstance(value, tuple) else column == value


def test_sites_name_the_line_of_the_source() -> None:
    codes = {site.code for site in made("03_shared_tile").sites}
    assert any("smem_a[row][kk]" in code for code in codes)
    assert all(codes)

"""An explained kernel's page in a browser: it sorts, draws accesses, and works occupancy out."""

import itertools
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pages.conftest import WIDTHS, Open
from tilewright.bench.access_samples import sample_launch, sample_rung
from tilewright.bench.explain import Explained, assembled, explain_kernel, explain_rung, static_half
from tilewright.emulator.prepare import prepare_launch
from tilewright.emulator.samples import Execution, Sampled
from tilewright.errors import LaunchError, UnsupportedError
from tilewright.gpus import GPUS, gpu, occupancy
from tilewright.kernels import rung
from tilewright.launchfile import launch_from_flags
from tilewright.problem import Problem
from tilewright.report.explain_page import explain_page, limits_data, source_lines, static_page

COMPILERS = Path(__file__).parents[1] / "toolchain" / "data" / "compilers"
SMALL = Problem(m=256, n=256, k=256)


@cache
def explained() -> tuple[Explained, tuple[Sampled, ...]]:
    each, chosen = rung("05"), gpu("H200")
    return explain_rung(each, SMALL, chosen, tries=0), sample_rung(each, SMALL, chosen)


def shown(visit: Open, folder: Path, text: str | None = None, **how: Any) -> Any:
    path = folder / "explain.html"
    path.write_text(explain_page(*explained()) if text is None else text, encoding="utf-8")
    return visit(path, **how)


def column(page: Any, place: int) -> list[str]:
    cells = page.locator(f".sortable tbody tr td:nth-child({place})").all()
    return [str(cell.get_attribute("data-key")) for cell in cells]


def test_lines_have_the_counts_and_the_worst_is_first(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    lines = source_lines(*explained())
    assert page.locator(".sortable tbody tr").count() == len(lines)
    costs = [float(each) for each in column(page, 2)]
    assert costs == sorted(costs, reverse=True)
    for row, line in zip(page.locator(".sortable tbody tr").all(), lines, strict=True):
        cells = row.locator("td").all_inner_texts()
        assert cells[0] == f"{line.file}:{line.line}"
        assert cells[2] == f"{line.executed:,}"
        assert cells[6].strip() == line.code
        if line.sectors is not None:
            assert cells[3].split(" ")[0] == f"{line.sectors:.3g}"
        if line.wavefronts is not None:
            assert cells[4].split(" ")[0] == f"{line.wavefronts:.3g}"
    told = explained()[0].summary.lines
    assert sum(line.executed for line in lines) == sum(line.executed for line in told)


@pytest.mark.parametrize(("name", "place"), [("instructions", 3), ("conflicts", 6), ("line", 1)])
def test_a_header_sorts_and_turns_around(
    visit: Open, tmp_path: Path, name: str, place: int
) -> None:
    page = shown(visit, tmp_path)
    button = page.locator(".sortable th").get_by_role("button", name=name)

    def keys() -> list[Any]:
        return [text if name == "line" else float(text) for text in column(page, place)]

    button.press("Enter")
    assert keys() == sorted(keys(), reverse=True)
    button.click()
    assert keys() == sorted(keys())
    assert (
        page.locator(f".sortable th:nth-child({place})").get_attribute("aria-sort") == "ascending"
    )


def bank_words(sample: Sampled, execution: Execution) -> list[int]:
    """Words a bank, by quarters of a warp with 16 bytes a lane; by halves where two agree."""
    lanes = execution.lanes
    parts = {4: 1, 16: 4}[sample.size]
    if parts > 1 and any(lanes == tuple(lanes[n ^ step] for n in range(32)) for step in (1, 2)):
        parts //= 2
    sums = [0] * 32
    for first in range(0, 32, 32 // parts):
        part = lanes[first : first + 32 // parts]
        for word in {at // 4 + n for at in part if at is not None for n in range(sample.size // 4)}:
            sums[word % 32] += 1
    return sums


def test_every_access_is_drawn_with_its_own_banks_or_sectors(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    samples = explained()[1]
    assert {sample.array for sample in samples} == {0, 1, 2, 3}
    for number, sample in enumerate(samples):
        page.locator("#heat select").select_option(str(number))
        rows = page.locator("#heat tbody tr").all()
        assert len(rows) == len(sample.executions)
        for row, execution in zip(rows, sample.executions, strict=True):
            cells = row.locator("td").all_inner_texts()
            assert cells[1].split(" ")[0] == str(execution.cost)
            bytes_ = {
                at + n for at in execution.lanes if at is not None for n in range(sample.size)
            }
            if sample.array == 0:
                expected = bank_words(sample, execution)
                assert max(expected) == execution.cost  # here every part has its worst in one bank
            else:
                used = sorted({byte // 32 for byte in bytes_})
                expected = [sum(byte // 32 == sector for byte in bytes_) for sector in used]
                assert len(used) == execution.cost
            found = [int(cell or 0) for cell in cells[2 : 2 + len(expected)]]
            assert found == expected


def test_an_access_of_a_line_is_one_click_away(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    button = page.locator("button[data-access]").first
    number = button.get_attribute("data-access")
    button.click()
    assert page.locator("#heat select").input_value() == number
    sample = explained()[1][int(number)]
    assert f"{sample.file}:{sample.line}" in page.locator("#heat p").first.inner_text()


def test_costs_drawn_are_those_that_are_counted() -> None:
    """05 reads B by lanes 8 floats apart, 16 bytes each: 8 passes where 4 would do."""
    told, samples = explained()
    for sample in samples:
        lines = [
            line
            for line in told.summary.lines
            if (line.file, line.line) == (sample.file, sample.line)
        ]
        assert len(lines) == 1
    wide = [s for s in samples if s.array == 0 and s.size == 16 and s.executions[0].cost == 8]
    assert wide
    assert all(e.least == 4 for s in wide for e in s.executions)


def points() -> list[tuple[str, int, int, int]]:
    threads = (1, 31, 32, 33, 96, 128, 160, 256, 384, 512, 513, 768, 1024, 1056)
    registers = (1, 16, 24, 32, 33, 40, 64, 65, 80, 96, 128, 129, 168, 255)
    shared = (0, 1, 1024, 4096, 8191, 16384, 16640, 33000, 49152, 65536, 99 * 1024, 227 * 1024 + 1)
    every = itertools.product([g.name for g in GPUS], threads, registers, shared)
    rng = np.random.default_rng(0)
    pool = list(every)
    return [pool[n] for n in sorted(rng.choice(len(pool), 3000, replace=False))]


def test_occupancy_is_pythons_for_every_gpu(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    asked = points()
    limits = {each.name: limits_data(each) for each in GPUS}
    found = page.evaluate(
        """([limits, points]) => points.map(([name, threads, registers, shared]) =>
        occupancy(limits[name], { threads, registers, shared }))""",
        [limits, asked],
    )
    launched = 0
    for (name, threads, registers, shared), told in zip(asked, found, strict=True):
        point = (name, threads, registers, shared)
        try:
            right = occupancy(
                gpu=name, threads=threads, registers=registers, dynamic_shared_bytes=shared
            )
        except LaunchError:
            assert "refused" in told, point
            continue
        launched += 1
        assert told["active_blocks"] == right.active_blocks, point
        assert told["active_warps"] == right.active_warps, point
        assert told["fraction"] == right.fraction, point
        assert told["limits"] == dict(right.limits), point
        assert told["limiters"] == list(right.limiters), point
    assert 1000 < launched < len(asked)


def test_sliders_recompute_and_come_back(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    says = page.locator("#occupancy output")
    own = explained()[0].occupancy
    assert says.inner_text().startswith(f"{own.fraction:.0%} occupancy: {own.active_blocks} block")
    page.locator("#slide-registers").fill("32")
    page.locator("#slide-shared").fill("60000")
    right = occupancy(gpu="H200", threads=own.threads, registers=32, dynamic_shared_bytes=60000)
    assert f"{right.active_warps} of 64 warps" in says.inner_text()
    assert "limited by shared memory" in says.inner_text()
    rows = page.locator("#occupancy tbody tr").all_inner_texts()
    assert [row.split("\t")[1] for row in rows] == [str(n) for n in right.limits.values()]
    page.locator("#slide-threads").press("End")
    page.locator("#slide-registers").press("End")
    assert says.inner_text() == (
        "It would not launch: with 1024 threads a block has at most 64 registers a thread."
    )
    page.get_by_role("button", name="Back to this launch").click()
    assert f"{own.active_warps} of 64 warps" in says.inner_text()


def test_charts_name_what_they_show(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    told = explained()[0]
    texts = page.locator("svg text").all_text_contents()
    assert told.roofline is not None
    assert told.estimate is not None
    assert any(f"{told.roofline.share:.0%} of its roof" in text for text in texts)
    assert max(told.estimate.demand, key=lambda unit: told.estimate.demand[unit]) in texts
    for name in page.locator("svg[role=img]").all():
        label = name.get_attribute("aria-labelledby")
        assert page.locator(f"#{label}").inner_text()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_window(visit: Open, tmp_path: Path, width: int, dark: bool) -> None:
    page = shown(visit, tmp_path, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (tmp_path / "explain.html").stat().st_size < 2_000_000


def test_a_kernel_without_lines_is_named_by_its_ptx(visit: Open, tmp_path: Path) -> None:
    flags = [
        "f32=2",
        *(["i64=0", "i64=0", "i64=512", "i64=4", "f32[512]:normal", "i64=512", "i64=4"] * 2),
    ]
    rest: dict[str, object] = {"kernel": None, "gpu": "H200", "options": None, "include_dirs": None}
    spec = launch_from_flags(
        str(COMPILERS / "numba_saxpy.ptx"), grid="4", block="128", args=flags, rest=rest
    )
    ready = prepare_launch(spec)
    told = explain_kernel(ready, spec.make_arguments())
    samples = sample_launch(assembled(ready), ready.launch, spec.make_arguments())
    page = shown(visit, tmp_path, explain_page(told, samples))
    data = json.loads(page.locator("#accesses").text_content())
    assert [(each["array"], each["way"]) for each in data] == [
        (1, "load"),
        (2, "load"),
        (2, "store"),
    ]
    assert all(each["executions"][0]["cost"] == 4 for each in data)
    first = page.locator("#heat option").first.text_content()
    assert first == f"PTX:{data[0]['ptx_line']}, 4 B global load, array argument 1"
    linked = page.locator("button[data-access]").all()
    assert [each.get_attribute("data-access") for each in linked] != []


def test_a_kernel_that_cannot_run_still_has_its_occupancy(visit: Open, tmp_path: Path) -> None:
    flags = ["f16[4096]", "f16[4096]", "f16[4096]", *["i32=64"] * 3, "i32=64", "i32=64", "i32=64"]
    rest: dict[str, object] = {"kernel": None, "gpu": "H200", "options": None, "include_dirs": None}
    spec = launch_from_flags(
        str(COMPILERS / "triton_matmul_fp16.ptx"), grid="1", block="128", args=flags, rest=rest
    )
    ready = prepare_launch(spec)
    half = static_half(ready, UnsupportedError("mma.sync is not emulated <yet>"))
    page = shown(visit, tmp_path, static_page(half))
    assert "mma.sync is not emulated <yet>" in page.locator("main").inner_text()
    assert "warps an SM" in page.locator("#occupancy output").inner_text()
    assert page.locator("#heat").count() == 0

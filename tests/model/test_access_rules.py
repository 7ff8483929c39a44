"""The rules of counting against what Nsight Compute read on an H200, one warp at a time."""

import json
from pathlib import Path

import numpy as np
import pytest
from calibration import measured
from counter_cases.cases import Case, batches, kind_of, rebuild
from counter_cases.micro import REPEATS, Micro, micro_batches
from counter_cases.programs import RungCase
from counter_cases.record import NAME, Record
from readings import BASE, READ, compare, micro, recorded, row

from tilewright.emulator import run as emulate
from tilewright.emulator.rules import (
    NOBODY,
    fewest_sectors,
    fewest_wavefronts,
    global_wavefronts,
    interleaved,
    lane_wavefronts,
    lines,
    matrix_wavefronts,
    profiled_wavefronts,
    sectors,
    tag_turns,
    tag_wavefronts,
    turns,
    wavefronts,
)
from tilewright.errors import TilewrightError
from tilewright.toolchain import resources

BANKS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
LGDS = "l1tex__data_pipe_lsu_wavefronts_mem_lgds.sum"
OPS = {"load": "ld", "store": "st"}
SIZES = {"32": 4, "64": 8, "128": 16}


@pytest.mark.parametrize("bits", SIZES)
@pytest.mark.parametrize("way", ["load", "store"])
def test_shared_accesses(way: str, bits: str) -> None:
    def rule(case: Micro) -> dict[str, int]:
        passes = {"size": SIZES[bits], "load": way == "load"}
        return {
            f"smsp__inst_executed_op_shared_{OPS[way]}.sum": 1,
            BANKS.format(OPS[way]): int(wavefronts(row(case), **passes)[0]),
            "memory_l1_wavefronts_shared": int(profiled_wavefronts(row(case), **passes)[0]),
            "memory_l1_wavefronts_shared_ideal": int(fewest_wavefronts(row(case), **passes)[0]),
        }

    compare(f"shared_{way}{bits}", rule)


@pytest.mark.parametrize("bits", SIZES)
@pytest.mark.parametrize("way", ["load", "store"])
def test_global_accesses(way: str, bits: str) -> None:
    def rule(case: Micro) -> dict[str, int]:
        size = SIZES[bits]
        touched = int(sectors(row(case), size)[0])
        return {
            READ.format("requests", OPS[way]): 1,
            READ.format("sectors", OPS[way]): touched,
            READ.format("output_wavefronts", OPS[way]): int(tag_wavefronts(row(case), size)[0]),
            "memory_l2_theoretical_sectors_global": touched,
            "memory_l2_theoretical_sectors_global_ideal": int(fewest_sectors(row(case), size)[0]),
            "memory_l1_tag_requests_global": int(lines(row(case), size)[0]),
        }

    compare(f"global_{way}{bits}", rule)


@pytest.mark.parametrize("bits", SIZES)
@pytest.mark.parametrize("way", ["load", "store"])
def test_data_wavefronts_of_global_accesses_whose_tags_take_one_pass(way: str, bits: str) -> None:
    def rule(case: Micro) -> dict[str, int]:
        if tag_wavefronts(row(case), SIZES[bits])[0] > 1:
            return {}
        return {LGDS: int(global_wavefronts(row(case), SIZES[bits], placed=True)[0])}

    compare(f"global_{way}{bits}", rule)


@pytest.mark.parametrize("bits", SIZES)
@pytest.mark.parametrize("way", ["load", "store"])
def test_data_wavefronts_of_global_accesses_by_passes_through_the_tags(way: str, bits: str) -> None:
    """The data of a load of 4 bytes come behind the tags; of others some come with them."""
    size = SIZES[bits]
    for each, case in micro(f"global_{way}{bits}"):
        if any(offset % size for offset in case.offsets()):
            continue
        most = sum(int(wavefronts(turn, size, load=False)[0]) for turn in tag_turns(row(case)))
        least = int(wavefronts(row(case), size, load=False)[0])
        found = each.metrics[LGDS] / REPEATS
        assert found == most if (way, bits) == ("load", "32") else least <= found <= most, each.name


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("way", ["ldmatrix", "stmatrix"])
def test_matrices_go_row_by_row(way: str, count: int) -> None:
    def rule(case: Micro) -> dict[str, int]:
        passes = int(matrix_wavefronts(row(case), count)[0])
        return {
            BANKS.format(way[:2]): passes,
            "memory_l1_wavefronts_shared": passes,
            "memory_l1_wavefronts_shared_ideal": count,
        }

    compare(f"{way}_x{count}", rule)
    if (way, count) == ("ldmatrix", 4):
        compare("ldmatrix_x4_trans", rule)


@pytest.mark.parametrize("family", ["atom_shared", "red_shared"])
def test_shared_atomics_serve_one_lane_a_bank(family: str) -> None:
    def rule(case: Micro) -> dict[str, int]:
        passes = int(lane_wavefronts(row(case), 4)[0])
        return {BANKS.format("atom"): passes, "memory_l1_wavefronts_shared": passes}

    compare(family, rule)


@pytest.mark.parametrize("family", ["atom_global", "red_global", "red_global_f32"])
def test_global_atomics_go_in_turns(family: str) -> None:
    def rule(case: Micro) -> dict[str, int]:
        op = family.split("_")[0]
        parts = list(turns(row(case)))
        return {
            READ.format("requests", op): 1,
            READ.format("sectors", op): sum(int(sectors(part, 4)[0]) for part in parts),
            READ.format("output_wavefronts", op): sum(
                int(tag_wavefronts(part, 4)[0]) for part in parts
            ),
            "memory_l2_theoretical_sectors_global": int(sectors(row(case), 4)[0]),
            "memory_l2_theoretical_sectors_global_ideal": int(fewest_sectors(row(case), 4)[0]),
        }

    compare(family, rule)


def test_local_words_lie_beside_those_of_the_next_thread() -> None:
    read = 0
    for each, case in micro("local"):
        offsets = np.where(row(case) == NOBODY, NOBODY, row(case) - BASE)
        places, size = interleaved(offsets, 4)
        for op in ("ld", "st"):
            requests = each.metrics[f"l1tex__t_requests_pipe_lsu_mem_local_op_{op}.sum"]
            for what, count in (("sectors", sectors), ("output_wavefronts", tag_wavefronts)):
                total = each.metrics[f"l1tex__t_{what}_pipe_lsu_mem_local_op_{op}.sum"]
                assert total == requests * int(count(places, size)[0]), (each.name, op, what)
                read += 1
    assert read


@pytest.mark.parametrize(("size", "error"), [(256, 0), (512, 4e-6), (1000, 4e-7)])
def test_tag_passes_of_a_kernel_that_reads_columns(size: int, error: float) -> None:
    metric = READ.format("output_wavefronts", "ld")
    (each,) = (r for r in recorded() if r.name == f"01_naive/{size}")
    columns = _tags_of_columns(size, size)
    # A by columns for every column of B, one element of B a load, and C once, as A.
    expected = size * columns + size * -(-size // 32) * size + columns
    assert each.metrics[metric] == pytest.approx(expected, rel=error)


def test_tag_passes_of_a_matrix_times_a_vector() -> None:
    (each,) = (r for r in recorded() if r.name == "example/matvec")
    # The 6144 bytes before A hold x and y, 500 and 1000 floats; x takes one pass a load.
    expected = _tags_of_columns(1000, 500, base=2048 + 4096) + 500 * 32
    assert each.metrics[READ.format("output_wavefronts", "ld")] == expected


def _tags_of_columns(size: int, columns: int, base: int = 0) -> int:
    """Tag passes of warps that read a row-major matrix of float32, each lane along its own row."""
    total = 0
    for first in range(0, size, 32):
        starts = np.full(32, NOBODY, np.uint64)
        lanes = np.arange(first, min(first + 32, size), dtype=np.uint64)
        starts[: len(lanes)] = 4 * columns * lanes + np.uint64(base)
        steps = 4 * np.arange(columns, dtype=np.uint64)[:, None]
        total += int(tag_wavefronts(np.where(starts == NOBODY, NOBODY, starts + steps), 4).sum())
    return total


def columns_timed() -> list[tuple[int, float]]:
    prefix = "stream-ldg32-l1-column"
    return [
        (int(name.removeprefix(prefix)), cycles["16"])
        for name, cycles in measured().items()
        if name.startswith(prefix)
    ]


@pytest.mark.parametrize(("placed", "error"), [(True, 0.1), (False, 1.05)])
def test_cycles_of_loads_of_a_column(placed: bool, error: float) -> None:
    timed = columns_timed()
    assert len(timed) == 15
    for floats, cycles in timed:
        lanes = np.arange(32, dtype=np.uint64) * np.uint64(4 * floats)
        rows = lanes + np.arange(0, 64, 4, dtype=np.uint64)[:, None]  # 16 steps along the rows
        expected = global_wavefronts(rows, 4, placed=placed).mean()
        assert cycles == pytest.approx(expected, abs=error), floats


def test_rungs_execute_the_multiply_adds_that_the_registry_derives() -> None:
    metric = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
    found = 0
    for each in recorded():
        case = each.case
        if isinstance(case, RungCase) and metric in each.metrics:
            found += 1
            expected = case.rung.ffma_thread_instructions(case.problem, case.tile)
            assert each.metrics[metric] == expected, each.name
    assert found


def test_the_recorded_machine_code_is_what_ran() -> None:
    for each in recorded():
        assert resources(each.artifact).registers == each.registers, each.name
        # A thread has 16 registers at least, and is given them by eights (compute capability 9.0).
        told = max(each.registers, 16)
        for metric, count in (("", told), ("_allocated", -(-told // 8) * 8)):
            got = each.metrics.get(f"launch__registers_per_thread{metric}", count)
            assert got == count, each.name


def test_the_source_page_adds_up() -> None:
    for each in recorded():
        total = each.metrics.get("smsp__inst_executed.sum")
        if each.sass and total is not None:
            found = sum(int(line[1]) for line in each.sass)
            # Lane 0 of a block of 10_persistent comes to a WARPSYNC later than the others, and not
            # equally so in each of the profiler's passes.
            varies = each.name.startswith("10_persistent")
            assert found == pytest.approx(total, rel=1e-3 if varies else 0), each.name


# --- the cases themselves, without readings -----------------------------------------------------


def test_every_case_is_rebuilt_from_its_record() -> None:
    names = set()
    for cases in batches().values():
        for case in cases:
            kept = json.loads(json.dumps(case.to_json()))
            assert rebuild(kind_of(case), case.name, kept) == case
            names.add(case.name)
    assert len(names) == sum(len(cases) for cases in batches().values())


def cases_of(prefix: str) -> list[Micro]:
    return [c for cases in micro_batches().values() for c in cases if c.name.startswith(prefix)]


@pytest.mark.parametrize(
    ("prefix", "requests", "passes"),
    [
        ("shared_load", "shared_load_requests", "shared_load_wavefronts"),
        ("shared_store", "shared_store_requests", "shared_store_wavefronts"),
        ("global_load", "global_load_requests", "global_load_sectors"),
        ("global_store", "global_store_requests", "global_store_sectors"),
    ],
)
def test_kernels_access_what_their_case_says(prefix: str, requests: str, passes: str) -> None:
    for case in cases_of(prefix):
        counters = emulate(case.artifact(), case.launch(), case.arguments(), count=True).counters
        assert counters is not None
        size = SIZES[case.name.split("/")[0].removeprefix(prefix)]
        if prefix.startswith("shared"):
            cost = wavefronts(row(case), size, load=prefix.endswith("load"))
        else:
            cost = sectors(row(case), size)
        assert getattr(counters, requests) == REPEATS, case.name
        assert getattr(counters, passes) == REPEATS * int(cost[0]), case.name


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("shared_load64/pairs1", [0, 0, 8, 8, 16, 16]),
        ("shared_load128/pairs2", [0, 16, 0, 16, 32, 48]),
        ("shared_load32/quads", [0, 0, 0, 0, 4, 4]),
        ("global_load32/column4096", [0, 16384, 32768, 49152]),
        ("global_load32/start4", [4, 8, 12]),
        ("ldmatrix_x4/rows144", [0, 144, 288]),
    ],
)
def test_patterns_place_the_lanes(name: str, addresses: list[int]) -> None:
    case = next(c for c in cases_of(name.split("/")[0]) if c.name == name)
    assert case.offsets()[: len(addresses)] == addresses


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    from counter_cases.ncu import Result, SourcePage

    case: Case = cases_of("shared_load32/unit")[0]
    record = Record()
    page = SourcePage(kernel="k", rows=[["LDS", 16, 512], ["EXIT", 1]])
    record.add(case, "b", "s", Result(kernel="k", metrics={"b": 1, "a": 2.5}), page)
    record.write(tmp_path / NAME)
    (back,) = Record.read(tmp_path / NAME).recorded()
    assert back.case == case
    assert back.metrics == {"a": 2.5, "b": 1}
    assert back.sass == (("LDS", 16, 512, 0, 0, 0, 0, 0), ("EXIT", 1, 0, 0, 0, 0, 0, 0))
    assert back.artifact.cubin == case.artifact().cubin
    assert back.artifact.ptx == case.artifact().ptx


def test_a_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"schema": 0}')
    with pytest.raises((SystemExit, TilewrightError), match="schema 0"):
        Record.read(tmp_path / NAME)

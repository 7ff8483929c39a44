"""The rungs: names, figures, launches and arguments, and what the compiler makes of each."""

import difflib
import functools
import itertools
import re
from fractions import Fraction

import numpy as np
import pytest

from tilewright.errors import ProblemError, TileError, UnknownNameError
from tilewright.kernels import HISTORY, PUBLISHED_CUBLAS_GFLOPS, RUNGS, Rung, Tile, rung
from tilewright.kernels.tuned import tuned_tiles
from tilewright.problem import Problem
from tilewright.toolchain import Artifact, SassInstruction, compile_cuda, disassemble, resources

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
KERNELS = tuple(r for r in RUNGS.values() if r.name != "07_autotuned")  # which is 06's kernel
FILES = (*KERNELS, HISTORY["volkov_2008"])  # the other of 2008 is 04's kernel


@functools.cache
def compiled(name: str, arch: str) -> Artifact:
    each = rung(name)
    return compile_cuda(
        each.source,
        each.expression(each.default),
        include_dirs=each.include_dirs,
        arch=arch,
        cache=None,
    )


def test_the_ladder_is_the_published_one() -> None:
    # The table of design: rung, idea, GFLOP/s on an RTX A6000. Nobody has published 09 and 10.
    assert [(r.name, r.idea, r.published_gflops.get("RTX A6000")) for r in RUNGS.values()] == [
        ("01_naive", "one thread, one output", 309.0),
        ("02_coalesced", "consecutive threads, consecutive addresses", 1986.5),
        ("03_shared_tile", "stage tiles of A and B on chip", 2980.3),
        ("04_register_1d", "a column of outputs a thread", 8474.7),
        ("05_register_2d", "a square of outputs a thread", 15971.7),
        ("06_vectorized", "128-bit memory instructions", 18237.3),
        ("07_autotuned", "tile sizes by search", 19721.0),
        ("08_warptiled", "tiles a warp", 21779.3),
        ("09_pipelined", "copies ahead of the arithmetic", None),
        ("10_persistent", "blocks stay, tiles are shared evenly", None),
    ]
    assert list(RUNGS) == [r.name for r in RUNGS.values()]
    assert PUBLISHED_CUBLAS_GFLOPS["RTX A6000"] == 23249.6


@pytest.mark.parametrize("name", ["05_register_2d", "05", "register_2d", " Register_2D "])
def test_a_rung_goes_by_each_of_its_names(name: str) -> None:
    assert rung(name) is RUNGS["05_register_2d"]


@pytest.mark.parametrize("name", ["volkov_2008", "Volkov", "both_shared"])
def test_a_kernel_beside_the_ladder_goes_by_its_name_without_the_year(name: str) -> None:
    assert rung(name) in HISTORY.values()
    assert not set(HISTORY) & set(RUNGS)


@pytest.mark.parametrize("name", ["2008", "5", "", "2d", "05_register_1d", "11_tensor"])
def test_an_unknown_rung_lists_the_known(name: str) -> None:
    with pytest.raises(UnknownNameError, match="known: 01_naive, 02_coalesced"):
        rung(name)


def test_a_misspelt_rung_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean '08_warptiled'"):
        rung("8_warptile")


def test_tiles_by_gpu() -> None:
    # The published settings for the A6000, as NCU names the kernel: <128,128,16,64,64,4,8,4,128>.
    warp = rung("08").tile_for("RTX A6000")
    assert (warp.bm, warp.bn, warp.bk, warp.wm, warp.wn) == (128, 128, 16, 64, 64)
    assert (warp.wniter, warp.tm, warp.tn, warp.threads) == (4, 8, 4, 128)
    tuned = rung("07").choice_for("RTX A6000")
    assert (tuned.tile.bm, tuned.tile.bn, tuned.tile.bk) == (128, 128, 16)
    assert (tuned.tile.tm, tuned.tile.tn, tuned.provenance) == (8, 8, "published")


def test_a_gpu_without_a_choice_gets_the_default_and_is_told_so() -> None:
    choice = rung("07").choice_for("T4")
    assert (choice.gpu, choice.provenance) == ("default", "default")
    assert "T4" in choice.source
    assert choice.tile == rung("07").default


def test_every_choice_is_a_legal_tile_of_a_rung_with_a_source() -> None:
    for (name, gpu), choice in tuned_tiles().items():
        RUNGS[name].check(choice.tile)
        assert choice.provenance in ("published", "searched")
        assert choice.source
        assert (choice.rung, choice.gpu) == (name, gpu)


@pytest.mark.parametrize(
    ("name", "m", "n", "grid", "block"),  # k = 1
    [
        ("01", 4092, 4092, (128, 128, 1), 1024),  # 4092 = 127 * 32 + 28
        ("02", 1, 33, (2, 1, 1), 1024),
        ("03", 4096, 64, (2, 128, 1), 1024),
        ("04", 65, 64, (1, 2, 1), 512),
        ("05", 128, 129, (2, 1, 1), 256),
        ("06", 4092, 4092, (32, 32, 1), 256),
        ("08", 127, 4096, (32, 1, 1), 128),
        # 93750 rows of tiles do not fit into y, which ends at 65535: twice 46875 do.
        ("02", 3_000_000, 1, (1, 46875, 2), 1024),
        # 2^31 - 1 rows are 67108864 rows of tiles: 1025 times 65473 cover them, 65472 would not.
        ("01", 2**31 - 1, 5, (1, 65473, 1025), 1024),
        ("05", 5, 2**31 - 1, (16777216, 1, 1), 256),
        ("09", 129, 257, (2, 2, 1), 256),
        # 132 blocks share 16 * 32 tiles; 2 * 2 tiles of one step each are shared by four.
        ("10", 4096, 4096, (132, 1, 1), 256),
        ("10", 129, 257, (4, 1, 1), 256),
    ],
)
def test_launch(name: str, m: int, n: int, grid: tuple[int, int, int], block: int) -> None:
    each = rung(name)
    launch = each.launch(Problem(m=m, n=n, k=1), each.default)
    assert (launch.grid, launch.block) == (grid, (block, 1, 1))
    # Four stages of 8 rows of 128 + 8 and 256 floats, or nothing but what is static.
    assert launch.shared_bytes == (4 * 4 * 8 * 392 if name in ("09", "10") else 0)


def test_launch_and_expression_refuse_a_tile_of_another_rung() -> None:
    problem = Problem(m=8, n=8, k=8)
    for refused in (rung("01").expression, functools.partial(rung("01").launch, problem)):
        with pytest.raises(TileError, match="01_naive"):
            refused(rung("08").default)


def test_ffma_by_hand() -> None:
    # 4096³ multiply-adds and 4096² to blend, as the profiler counted of the naive kernel.
    cube = Problem(m=4096, n=4096, k=4096)
    assert rung("01").ffma_thread_instructions(cube, rung("01").default) == 68_736_253_952
    # 130 x 257 is 2 x 3 tiles of 128 x 128, all computed; 130 * 257 outputs are blended.
    ragged = Problem(m=130, n=257, k=31)
    assert rung("05").ffma_thread_instructions(ragged, rung("05").default) == (
        6 * 16384 * 31 + 130 * 257
    )


def arrays(p: Problem) -> list[np.ndarray]:
    return [np.zeros(n, np.float32) for n in (p.m * p.lda, p.k * p.ldb, p.m * p.ldc)]


def test_arguments_in_the_order_of_the_kernel() -> None:
    p = Problem(m=2, n=3, k=5, alpha=0.5, beta=-1.0, lda=6, ldb=7, ldc=8)
    a, b, c = arrays(p)
    args = rung("03").arguments(p, a, b, c.reshape(2, 8))
    assert [type(x) for x in args] == [
        *(np.int32, np.int32, np.int32, np.float32, np.ndarray, np.int64),
        *(np.ndarray, np.int64, np.float32, np.ndarray, np.int64),
    ]
    assert [x for x in args if not isinstance(x, np.ndarray)] == [2, 3, 5, 0.5, 6, 7, -1.0, 8]
    for got, given in zip((x for x in args if isinstance(x, np.ndarray)), (a, b, c), strict=True):
        assert got.ndim == 1
        assert got.ctypes.data == given.ctypes.data


def test_arguments_may_end_with_the_last_element() -> None:
    p = Problem(m=2, n=3, k=5, lda=6, ldb=7, ldc=8)
    # All rows but the last at the leading dimension, then the last one's columns.
    exact = [np.zeros(n, np.float32) for n in (6 + 5, 4 * 7 + 3, 8 + 3)]
    rung("01").arguments(p, *exact)
    for i, name in enumerate("ABC"):
        short = [x[1:] if i == j else x for j, x in enumerate(exact)]
        with pytest.raises(ProblemError, match=rf"{name} has \d+ elements.* need {exact[i].size}"):
            rung("01").arguments(p, *short)


def test_arguments_without_k_need_no_a_and_b() -> None:
    p = Problem(m=2, n=3, k=0)
    none = np.zeros(0, np.float32)
    rung("01").arguments(p, none, none, np.zeros(6, np.float32))


def test_arguments_that_are_refused() -> None:
    p = Problem(m=4, n=4, k=4)
    a, b, c = (np.zeros((4, 4), np.float32) for _ in range(3))
    storage = np.zeros(48, np.float32)
    for bad, message in [
        ((a.astype(np.float64), b, c), "A is float64: expected a numpy array of float32"),
        ((a, b.tolist(), c), "B is list: expected a numpy array"),
        ((a, b.T, c), "B is not contiguous"),
        ((storage[:16], b, storage[15:31]), "C overlaps A"),
        ((a, storage[16:32], storage[16:32]), "C overlaps B"),
    ]:
        with pytest.raises(ProblemError, match=message):
            rung("01").arguments(p, *bad)
    rung("01").arguments(p, storage[:16], storage[16:32], storage[32:])
    rung("01").arguments(p, a, a, c)  # A and B are only read


@pytest.mark.parametrize("name", RUNGS)
def test_each_rung_compiles_as_its_tile_says(name: str) -> None:
    artifact, tile = compiled(name, "sm_90"), RUNGS[name].default
    taken = resources(artifact)
    assert artifact.log == ""
    assert taken.local_bytes == 0
    # Dynamic where there are stages; 10 has a flag beside, and stages begin at a line.
    static = 128 if tile.workers else 0
    assert taken.shared_bytes <= static if tile.stages else taken.shared_bytes == tile.shared_bytes
    assert taken.max_threads == tile.threads
    assert instructions(artifact.ptx) < (4500 if tile.stages else 3000)  # 09: two main loops


@pytest.mark.parametrize(
    ("name", "threads", "shared_bytes", "sums"),
    # By hand: 16 x 17 floats of A alone; 32 x 16 of A and 16 x 32 of B.
    [("volkov_2008", 64, 4 * 16 * 17, 256), ("both_shared_2008", 512, 4 * 2 * 512, 32)],
)
def test_the_kernels_of_2008_are_the_published_designs(
    name: str, threads: int, shared_bytes: int, sums: int
) -> None:
    taken, tile = resources(compiled(name, "sm_90")), HISTORY[name].default
    assert (taken.max_threads, taken.shared_bytes, taken.local_bytes) == (threads, shared_bytes, 0)
    assert longest_loop(name).count("FFMA") == sums
    assert tile.bm * tile.bn // tile.threads == sums // 16


def test_a_tile_of_a_that_cannot_be_copied_is_refused_without_a_word_of_b() -> None:
    with pytest.raises(TileError, match=r"cannot copy the tile of A \(10 x 16\) by whole rows"):
        rung("volkov").check(Tile(bm=10, bn=64, bk=16, tm=10))


def instructions(ptx: str) -> int:
    return sum(line.rstrip().endswith(";") and ".loc" not in line for line in ptx.splitlines())


@pytest.mark.parametrize("arch", [arch for arch in ARCHS if arch != "sm_90"])
@pytest.mark.parametrize("name", ["01_naive", "05_register_2d", "08_warptiled", "09_pipelined"])
def test_every_architecture_compiles_without_spilling(name: str, arch: str) -> None:
    assert resources(compiled(name, arch)).local_bytes == 0


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_120"])
def test_10_puts_two_numbers_of_a_segment_aside_at_most(arch: str) -> None:
    """It holds 128 sums and reads as many beside, once a segment; no main loop spills."""
    assert resources(compiled("10_persistent", arch)).local_bytes <= 8


@pytest.mark.parametrize(
    ("name", "blocks_an_sm"),
    # What the reference kernels reach on an H200, by NCU: two blocks by registers up to 07, three.
    # 09 and 10 are for one: 128 sums a thread and fragments twice.
    [(n, 2) for n in RUNGS if n < "08"]
    + [("08_warptiled", 3), ("09_pipelined", 1), ("10_persistent", 1)],
)
def test_registers_leave_room_for_as_many_blocks_as_the_reference(
    name: str, blocks_an_sm: int
) -> None:
    taken = resources(compiled(name, "sm_90"))
    registers_a_warp = -(-taken.registers * 32 // 256) * 256
    assert 65536 // (registers_a_warp * taken.max_threads // 32) >= blocks_an_sm


@functools.cache
def machine_code(name: str) -> tuple[SassInstruction, ...]:
    artifact = compiled(name, "sm_90")
    return disassemble(artifact).functions[artifact.symbol].instructions


def longest_loop(name: str) -> list[str]:
    """Return the mnemonics of the innermost loop with most multiply-adds, in order."""
    code = machine_code(name)
    index = {instruction.address: n for n, instruction in enumerate(code)}
    loops = [
        [instruction.mnemonic for instruction in code[index[end.target] : n + 1]]
        for n, end in enumerate(code)
        if end.opcode == "BRA" and end.target is not None and end.target < end.address
    ]
    return max(loops, key=lambda loop: loop.count("FFMA"))


@pytest.mark.parametrize(("name", "share"), [("05_register_2d", 0.8), ("06_vectorized", 0.89)])
def test_the_main_loop_is_unrolled_and_mostly_multiply_adds(name: str, share: float) -> None:
    tile, loop = RUNGS[name].default, longest_loop(name)
    steps = tile.unroll or tile.bk
    assert loop.count("FFMA") == tile.tm * tile.tn * steps
    assert loop.count("FFMA") / len(loop) > share
    # Fragments of A, along k in 05 and along m in 06, and of B along n: all by 128 bits.
    assert {i for i in loop if i.startswith("LDS")} == {"LDS.128"}
    assert loop.count("LDS.128") == (tile.tm + tile.tn) * steps / 4


@pytest.mark.parametrize("name", ["09_pipelined", "10_persistent"])
def test_the_pipelines_loop_has_one_wait_and_little_beside_multiply_adds(name: str) -> None:
    """By hand: 8 k of 128 multiply-adds and 2 + 4 reads; 4 copies of A, 2 of B (8 by floats)."""
    code = [i for i in machine_code(name) if i.predicate != "!PT"]  # those never run
    index = {instruction.address: n for n, instruction in enumerate(code)}
    loops = [
        [instruction.mnemonic for instruction in code[index[end.target] : n + 1]]
        for n, end in enumerate(code)
        if end.opcode == "BRA" and end.target in index and end.target < end.address
    ]
    mains = [loop for loop in loops if loop.count("FFMA") == 1024 and len(loop) < 1160]
    assert len(mains) == 2
    for loop in mains:
        assert loop.count("LDS.128") == 48
        assert sum(i.startswith("BAR") for i in loop) == 1
        assert sum(i.startswith("DEPBAR") for i in loop) == 1
    copies = sorted(sum(i.startswith("LDGSTS") for i in loop) for loop in mains)
    assert copies == [6, 12]
    assert 1024 / min(map(len, mains)) > 0.91


@pytest.mark.parametrize("name", ["05_register_2d", "06_vectorized", "08_warptiled"])
def test_128_bit_instructions_come_in_with_06(name: str) -> None:
    found = {instruction.mnemonic for instruction in machine_code(name)}
    global_or_stored = {"LDG.E.128", "STG.E.128", "STS.128"}
    assert found & global_or_stored == (global_or_stored if RUNGS[name].use.vector else set())


@pytest.mark.parametrize("each", FILES, ids=lambda r: r.file)
def test_the_file_keeps_to_the_conventions(each: Rung) -> None:
    text = each.source.read_text()
    header, body = text.split("#include", 1)
    assert text.count("__global__") == 1
    assert f"// {each.name}: " in header
    assert "#include <" not in text
    assert max(len(line) for line in text.splitlines()) <= 100
    assert len(text.splitlines()) <= 250
    order = ["// Contract:", "// Tile:", "// Shared memory:", "// Claims:", "// Source:"]
    assert [header.count(part) for part in order] == [1] * 5
    assert sorted(order, key=header.index) == order
    sections = ["coordinates", "shared memory", "prologue", "main loop", "epilogue"]
    found = re.findall(rf"^ +// ({'|'.join(sections)})$", body, re.MULTILINE)
    assert found == [s for s in sections if s != "shared memory" or each.default.bk]


@pytest.mark.parametrize("each", FILES, ids=lambda r: r.file)
def test_the_header_claims_what_the_registry_claims(each: Rung) -> None:
    header = each.source.read_text().split("#include", 1)[0]
    claims = " ".join(re.sub(r"\n//", "", header[header.index("// Claims:") :]).split())
    for name in each.claims.__dataclass_fields__:
        value = getattr(each.claims, name)
        written = re.search(rf"{name} ([\d.]*\d(?:/\d+)?)", claims)
        if value is None:
            assert written is None
        else:
            assert written is not None, name
            assert float(Fraction(written[1])) == value


def test_a_rung_is_the_one_before_it_and_one_idea() -> None:
    def code(each: Rung) -> list[str]:
        text = each.source.read_text().split("#include", 1)[1].replace(each.kernel, "kernel")
        stripped = (re.sub(r"\s*//.*", "", line).strip() for line in text.splitlines())
        return [line for line in stripped if line]

    changed = {}
    for before, after in itertools.pairwise(KERNELS):
        lines = difflib.ndiff(code(before), code(after))
        changed[after.name] = sum(line[0] in "+-" for line in lines)
    assert changed["02_coalesced"] <= 4
    # 09 turns the main loop inside out: what was a step's start is the end of the one before.
    assert changed.pop("09_pipelined") <= 95, changed
    assert max(changed.values()) <= 60, changed

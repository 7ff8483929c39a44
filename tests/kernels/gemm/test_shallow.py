"""The shallow kernel on the emulator: any shape, strides and short k; its refusals; its code."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.gemm.held import assert_held, strided
from tilewright.bench.emulated_gemm import compile_variant, emulate_gemm, emulated_argument
from tilewright.emulator import run
from tilewright.errors import TileError
from tilewright.gpus import gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.product import Pointers
from tilewright.kernels.gemm.shallow import SHALLOW, TILES
from tilewright.kernels.tiles import Tile
from tilewright.toolchain import resources
from tilewright.toolchain.sass import disassemble

LAYOUTS = ("nn", "nt", "tn", "tt")
TWO = Variant(kernel="shallow", tile=replace(TILES[0], stages=2))
FOUR = Variant(kernel="shallow", tile=replace(TILES[0], stages=4))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_by_quads_and_by_single_floats(layout: str) -> None:
    # Whole quads of all; the last rows and columns of tiles are nobody's.
    assert_held(Operation.plain(140, 72, 64, layout=layout), TWO)
    # No quads, the last of k alone in its slice, and C.
    odd = Operation.plain(67, 65, 33, layout=layout, beta=True)
    assert_held(odd, TWO, alpha=0.5, beta=-2.0)


@pytest.mark.parametrize("number", range(len(TILES)))
def test_every_tile(number: int) -> None:
    tile, layout = TILES[number], LAYOUTS[number % 4]
    variant = Variant(kernel="shallow", tile=replace(tile, stages=2))
    assert_held(Operation.plain(tile.bm + 4, tile.bn + 4, 40, layout=layout), variant)


@pytest.mark.parametrize("k", [1, 3, 31, 32, 36, 65, 96, 127, 128])
def test_any_short_k(k: int) -> None:
    assert_held(Operation.plain(5, 9, k, beta=True), FOUR, beta=1.0)


@pytest.mark.parametrize("operation", strided(70, 5), ids=lambda o: o.key)
def test_any_strides(operation: Operation) -> None:
    assert_held(operation, FOUR, beta=0.5 if operation.c else 0.0)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_a_batch_of_several_tiles_each(layout: str) -> None:
    assert_held(Operation.plain(68, 132, 12, layout=layout, batch=3), TWO)


def test_c_is_added_where_quads_are_whole_and_not_read_where_beta_is_0() -> None:
    assert_held(Operation.plain(12, 64, 8, beta=True), TWO, beta=0.5)
    assert_held(Operation.plain(9, 4, 4, batch=5, beta=True), TWO, beta=0.0)


def test_the_bits_are_those_of_tiled() -> None:
    o = Operation.plain(70, 66, 100)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((70, 100), (100, 66)))
    tile = Tile(bm=32, bn=64, bk=16, tm=4, tn=4, wm=16, wn=32, min_blocks=5, stages=4)
    other = Variant(kernel="tiled", tile=tile)
    assert np.array_equal(emulate_gemm(o, FOUR, a, b), emulate_gemm(o, other, a, b))


@pytest.mark.parametrize(
    ("operation", "variant", "says"),
    [
        (Operation.plain(64, 64, 0), TWO, "k = 0: shallow has all of k"),
        (Operation.plain(64, 64, 65), TWO, "from 1 to 64: give more stages, or take tiled"),
        (Operation.plain(64, 64, 64), replace(TWO, splits=2), "leave splits 1"),
        (Operation.plain(64, 64, 64), replace(TWO, workers=132), "leave splits 1, workers 0"),
        (
            Operation.plain(64, 64, 64),
            replace(TWO, tile=replace(TWO.tile, bk=16)),
            "slices of bk = 32",
        ),
        (
            Operation.plain(64, 64, 64),
            replace(TWO, tile=replace(TWO.tile, stages=5)),
            "give 1 to 4 stages",
        ),
        (
            # 64 lanes copy a line of B, more than the block has.
            Operation.plain(64, 65, 64),
            replace(TWO, tile=Tile(bm=16, bn=64, bk=32, tm=4, tn=8, wm=16, wn=64, stages=2)),
            "cannot copy bn = 64",
        ),
    ],
)
def test_what_it_cannot_run_with_is_refused(
    operation: Operation, variant: Variant, says: str
) -> None:
    with pytest.raises(TileError, match=says):
        SHALLOW.check(operation, variant)


def test_variants_are_of_short_k_alone_with_no_more_stages_than_it_needs() -> None:
    for k, stages in ((1, 1), (32, 1), (33, 2), (64, 2), (128, 4)):
        o = Operation.plain(30000, 64, k)
        found = list(SHALLOW.variants(o, gpu("H200")))
        assert {v.tile.stages for v in found} == {stages}
        for variant in found:
            SHALLOW.check(o, variant)
    for k in (0, 129):
        assert not list(SHALLOW.variants(Operation.plain(30000, 64, k), gpu("H200")))
    # Tiles of which half and more would be nobody's are none.
    assert not list(SHALLOW.variants(Operation.plain(30000, 16, 64), gpu("H200")))


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_shared_memory_is_faster_than_the_multiply_adds(layout: str) -> None:
    o = Operation.plain(64, 64, 64, layout=layout)
    space = [np.zeros(64 * 64 + 32, np.float32) for _ in range(3)]
    # Lines of 128 bytes begin where they do in an allocation of a GPU.
    a, b, d = (each.ctypes.data + -each.ctypes.data % 128 for each in space)
    argument = emulated_argument(o, TWO, Pointers(a=a, b=b, d=d), alpha=1.0, beta=0.0)
    artifact = compile_variant(o, TWO, "sm_90")
    counted = run(artifact, SHALLOW.launch(o, TWO), [argument], count=True).counters
    assert counted is not None
    # Each 128-bit load of a warp takes two passes: 4 + 8 of them for 128 multiply-adds of a warp,
    # four of which end in a cycle.
    cycles = o.flops / 2 / 32 / 4
    assert counted.shared_load_wavefronts == 2 * (4 + 8) / 128 * 4 * cycles


@pytest.mark.parametrize("number", range(len(TILES)))
def test_all_copies_are_issued_before_the_first_multiply_add(number: int) -> None:
    tile, layout = TILES[number], LAYOUTS[-number % 4]
    variant = Variant(kernel="shallow", tile=replace(tile, stages=2))
    artifact = compile_variant(Operation.plain(30000, 64, 64, layout=layout), variant, "sm_90")
    assert resources(artifact).local_bytes == 0
    (code,) = disassemble(artifact).functions.values()
    copies = [i for i, each in enumerate(code.instructions) if each.opcode == "LDGSTS"]
    assert all("128" in code.instructions[i].modifiers for i in copies)
    assert len(copies) == 64 * (tile.bm + tile.bn) / 4 / tile.threads
    first = next(i for i, each in enumerate(code.instructions) if each.opcode == "FFMA")
    assert max(copies) < first

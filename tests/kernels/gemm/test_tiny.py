"""The tiny kernel on the emulator: any shape and strides of a batch; its refusals; its code."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.gemm.held import assert_held
from tilewright.bench.emulated_gemm import compile_variant, emulated_argument
from tilewright.emulator import run
from tilewright.errors import TileError
from tilewright.gpus import gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.kernels.gemm.product import Pointers
from tilewright.kernels.gemm.tiny import TINY
from tilewright.kernels.tiles import Tile
from tilewright.toolchain import resources
from tilewright.toolchain.sass import disassemble

H200 = gpu("H200")
ONE = Variant(kernel="tiny", tile=Tile(bm=8, bn=16))
QUADS = Variant(kernel="tiny", tile=Tile(bm=32, bn=32, tm=4, tn=4))


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_packed_batches_in_every_layout(layout: str) -> None:
    # Quads of all, lines along k padded, and fewer products in the last block.
    assert_held(Operation.plain(12, 20, 8, layout=layout, batch=7), QUADS)
    # Neither: every other block's slab begins off 16 bytes.
    odd = Operation.plain(5, 7, 3, layout=layout, batch=7, beta=True)
    assert_held(odd, ONE, alpha=0.5, beta=-2.0)


def test_quads_of_some_operands_alone() -> None:
    # A's lines are quads along k, B and D have no quads; then the other way round.
    assert_held(Operation.plain(9, 7, 16, batch=3, beta=True), QUADS, beta=0.5)
    assert_held(Operation.plain(9, 8, 7, batch=3, beta=True), QUADS, beta=0.0)


@pytest.mark.parametrize(
    "operation",
    [
        Operation.plain(1, 1, 1, batch=200),
        Operation.plain(8, 16, 2),
        Operation.plain(3, 5, 17, batch=9, beta=True),
        # The whole batch has one A, whose rows have gaps, and B runs backwards.
        Operation(
            m=4, n=3, k=5, batch=10,
            a=Strides(row=7, col=1), b=Strides(row=3, col=-1, batch=15, vector=False),
            d=Strides(row=4, col=1, batch=19),
        ),
        # Neither A nor B has gaps, but one is the same for the batch and one lies apart.
        Operation(
            m=4, n=3, k=5, batch=10,
            a=Strides(row=5, col=1), b=Strides(row=3, col=1, batch=20),
            d=Strides(row=3, col=1, batch=12),
        ),
        # Neighbours nowhere.
        Operation(
            m=4, n=3, k=5, batch=6,
            a=Strides(row=2, col=8, batch=50), b=Strides(row=-6, col=2, batch=-40),
            d=Strides(row=3, col=1, batch=12), c=Strides(row=0, col=1, batch=3),
        ),
    ],
    ids=lambda o: o.key,
)  # fmt: skip
def test_any_strides(operation: Operation) -> None:
    assert_held(operation, ONE, beta=1.0 if operation.c else 0.0)


def test_c_is_not_read_where_beta_is_0() -> None:
    assert_held(Operation.plain(9, 4, 4, batch=5, beta=True), ONE, beta=0.0)


def test_a_block_takes_as_many_products_as_fit_by_fours() -> None:
    # 128 threads, 36 for each product: 3. 512: 14, so 12. A product alone is a block.
    launch = TINY.launch(Operation.plain(9, 4, 4, batch=8192), ONE)
    assert (launch.block, launch.grid) == ((4, 9, 3), (2731, 1, 1))
    large = Variant(kernel="tiny", tile=Tile(bm=16, bn=32))
    assert TINY.launch(Operation.plain(9, 4, 4, batch=8192), large).block == (4, 9, 12)
    assert TINY.launch(Operation.plain(9, 4, 4), large).block == (4, 9, 1)
    # 64 along z is the most of any block.
    assert TINY.launch(Operation.plain(1, 1, 8, batch=8192), large).block == (1, 1, 64)


@pytest.mark.parametrize(
    ("operation", "variant", "says"),
    [
        (Operation.plain(9, 16, 4), ONE, "needs 9 x 16: make bm or bn larger"),
        (Operation.plain(8, 8, 4), replace(ONE, splits=2), "leave it 1"),
        (Operation.plain(8, 8, 0), ONE, "k = 0"),
        (Operation.plain(8, 8, 4000), ONE, "256128 bytes of shared memory"),
        (
            Operation.plain(8, 8, 4),
            replace(ONE, tile=Tile(bm=8, bn=16, bk=4)),
            "does not read bk",
        ),
    ],
)
def test_what_it_cannot_run_with_is_refused(
    operation: Operation, variant: Variant, says: str
) -> None:
    with pytest.raises(TileError, match=says):
        TINY.check(operation, variant)


def test_variants_are_of_batches_alone_and_all_different() -> None:
    o = Operation.plain(9, 4, 4, batch=8192)
    found = list(TINY.variants(o, H200))
    launches = [(TINY.launch(o, v), v.tile.tm, v.tile.tn) for v in found]
    assert len(found) > 5
    assert len({(launch.block, tm, tn) for launch, tm, tn in launches}) == len(found)
    for variant in found:
        TINY.check(o, variant)
    assert not list(TINY.variants(Operation.plain(9, 4, 4), H200))


def test_threads_of_many_outputs_add_up_little_of_k() -> None:
    """They have no registers for a second set of sums."""
    outputs = {
        k: {v.tile.tm * v.tile.tn for v in TINY.variants(Operation.plain(16, 16, k, batch=9), H200)}
        for k in (128, 129)
    }
    assert max(outputs[128]) == 32
    assert max(outputs[129]) == 4


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_shared_memory_is_no_slower_than_the_multiply_adds(layout: str) -> None:
    o = Operation.plain(32, 32, 32, layout=layout, batch=4)
    variant = Variant(kernel="tiny", tile=Tile(bm=64, bn=32, tm=8, tn=4))
    space = [np.zeros(4 * 1024 + 32, np.float32) for _ in range(3)]
    # Lines of 128 bytes begin where they do in an allocation of a GPU.
    a, b, d = (each.ctypes.data + -each.ctypes.data % 128 for each in space)
    argument = emulated_argument(o, variant, Pointers(a=a, b=b, d=d), alpha=1.0, beta=0.0)
    artifact = compile_variant(o, variant, "sm_90")
    counted = run(artifact, TINY.launch(o, variant), [argument], count=True).counters
    assert counted is not None
    # Four warps multiply in a cycle.
    cycles = o.flops / 2 / 32 / 4
    assert counted.shared_load_wavefronts <= cycles
    # Quads of both operands, each in four passes of eight lanes.
    assert counted.shared_store_wavefronts == 4 * 2 * 4 * 1024 / 4 / 32


def test_slabs_are_copied_by_128_bits_and_nothing_spills() -> None:
    artifact = compile_variant(Operation.plain(9, 4, 4, batch=8192), QUADS, "sm_90")
    assert resources(artifact).local_bytes == 0
    (code,) = disassemble(artifact).functions.values()
    wide = [i for i in code.instructions if i.opcode == "LDGSTS" and "128" in i.modifiers]
    assert len(wide) >= 2  # A and B

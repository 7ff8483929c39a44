"""The mix of a loop, from a profile made by hand."""

import pytest

from tilewright.launch import Launch
from tilewright.model.profile import AccessCounts, Counted, Loop, Profile
from tilewright.model.sass_mix import inner_loops, mix
from tilewright.toolchain.sass import SassInstruction


def counted(index: int, opcode: str, executed: int, size: int = 0) -> Counted:
    instruction = SassInstruction(
        address=16 * index,
        predicate=None,
        opcode=opcode,
        modifiers=(),
        operands=(),
        target=None,
        location=None,
        inlined_at=(),
        ptx_line=None,
    )
    access = AccessCounts(
        space="shared",
        way="load",
        size=size,
        requests=executed,
        sectors=0,
        lines=0,
        wavefronts=executed,
        ideal=executed,
    )
    return Counted(
        instruction=instruction,
        executed=executed,
        threads=32 * executed,
        access=access if size else None,
    )


# Two turns of an outer loop, ten of an inner one in each.
CODE = (
    counted(0, "S2R", 1),
    counted(1, "BAR", 2),
    counted(2, "LDS", 20, 16),
    counted(3, "FFMA", 20),
    counted(4, "FFMA", 20),
    counted(5, "BRA", 20),
    counted(6, "BRA", 2),
    counted(7, "EXIT", 1),
)
OUTER = Loop(header=1, body=(1, 2, 3, 4, 5, 6), depth=1, entries=1, trips=2)
INNER = Loop(header=2, body=(2, 3, 4, 5), depth=2, entries=2, trips=20)
NEVER = Loop(header=7, body=(7,), depth=1, entries=0, trips=0)
PROFILE = Profile(
    kernel="k",
    arch="sm_90",
    launch=Launch(grid=1, block=32),
    blocks_run=1,
    registers=32,
    shared_bytes=0,
    spill_bytes=0,
    counted=CODE,
    loops=(OUTER, INNER, NEVER),
    provenance={},
    gaps=(),
)


def test_the_mix_of_the_inner_loop() -> None:
    (found,) = inner_loops(PROFILE)
    assert found.loop is INNER
    assert found.opcodes == {"FFMA": 0.5, "LDS": 0.25, "BRA": 0.25}
    assert found.multiply_add_share == 0.5
    assert found.widths == {("shared", "load", 16): 20}
    assert (found.executed, found.trips) == (80, 10)
    assert found.share == pytest.approx(80 / 86)


def test_an_outer_loop_includes_what_lies_inside() -> None:
    found = mix(PROFILE, OUTER)
    assert (found.executed, found.trips) == (84, 2)
    assert found.multiply_add_share == pytest.approx(40 / 84)


def test_a_loop_that_never_ran_has_no_mix() -> None:
    found = mix(PROFILE, NEVER)
    assert (found.trips, found.multiply_add_share) == (None, pytest.approx(0))

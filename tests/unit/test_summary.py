"""The summary of a profile made by hand: counters, loops, lines, and what is said of them."""

from dataclasses import replace

from tilewright.gpus import gpu, occupancy
from tilewright.launch import Launch
from tilewright.model.advice import advise
from tilewright.model.profile import AccessCounts, Counted, Loop, Profile
from tilewright.model.summary import summarize
from tilewright.toolchain.control import Control
from tilewright.toolchain.ptx.ir import Location
from tilewright.toolchain.sass import SassInstruction


def counted(
    address: int, opcode: str, line: int, executed: int, access: AccessCounts | None = None
) -> Counted:
    instruction = SassInstruction(
        address=address,
        predicate=None,
        opcode=opcode,
        modifiers=(),
        operands=(),
        target=None,
        location=Location("k.cu", line),
        inlined_at=(),
        ptx_line=None,
    )
    return Counted(instruction=instruction, executed=executed, threads=32 * executed, access=access)


def access(space: str, way: str, requests: int, cost: int, ideal: int) -> AccessCounts:
    far = space == "global"
    return AccessCounts(
        space=space,
        way=way,
        size=4,
        requests=requests,
        sectors=cost if far else 0,
        lines=requests if far else 0,
        wavefronts=requests if far else cost,
        ideal=ideal,
    )


# A loop of 10 trips a warp, over a load and a multiply-add, inside one of two trips; 5 warps.
PROFILE = Profile(
    kernel="k",
    arch="sm_90",
    launch=Launch(grid=5, block=32),
    blocks_run=5,
    registers=32,
    shared_bytes=1024,
    spill_bytes=0,
    counted=(
        counted(0, "S2R", 3, 5),
        counted(16, "MOV", 4, 10),
        counted(32, "LDG", 5, 100, access("global", "load", 100, 3200, 400)),
        counted(48, "LDS", 6, 100, access("shared", "load", 100, 200, 100)),
        counted(64, "FFMA", 6, 200),
        counted(80, "BRA", 5, 100),
        counted(96, "STS", 7, 5, access("shared", "store", 5, 5, 5)),
        counted(112, "STG", 8, 5, access("global", "store", 5, 20, 20)),
    ),
    loops=(
        Loop(header=1, body=(1, 2, 3, 4, 5), depth=1, entries=5, trips=10),
        Loop(header=2, body=(2, 3, 4, 5), depth=2, entries=10, trips=100),
    ),
    provenance={"executed": "derived", "global": "exact", "shared": "exact"},
    gaps=("a gap",),
)


def test_counters() -> None:
    found = {figure.name: figure for figure in summarize(PROFILE).counters}
    values = {name: figure.value for name, figure in found.items()}
    assert values == {
        "warp instructions": 525,
        "FFMA thread instructions": 6400,
        "global load requests": 100,
        "global load sectors": 3200,
        "global store requests": 5,
        "global store sectors": 20,
        "shared load requests": 100,
        "shared load wavefronts": 200,
        "shared store requests": 5,
        "shared store wavefronts": 5,
        "shared wavefronts": 205,
        "  the fewest possible": 105,
    }
    assert found["warp instructions"].provenance == "derived"
    assert found["global load sectors"].provenance == "exact"
    assert found["shared wavefronts"].metric == "memory_l1_wavefronts_shared"
    assert summarize(PROFILE).value("global atomic requests") == 0


def test_only_inner_loops_are_shown() -> None:
    (loop,) = summarize(PROFILE).loops
    assert (loop.instructions, loop.trips, loop.share) == (4, 10, 500 / 525)
    assert loop.mix == {"FFMA": 0.4, "LDG": 0.2, "LDS": 0.2, "BRA": 0.2}
    assert (loop.file, loop.lines) == ("k.cu", (5, 6))


def test_a_loop_that_never_ran_has_no_trips() -> None:
    (loop,) = summarize(
        replace(PROFILE, loops=(replace(PROFILE.loops[1], entries=0, trips=0),))
    ).loops
    assert loop.trips is None


def test_lines() -> None:
    lines = {line.line: line for line in summarize(PROFILE).lines}
    assert sorted(lines) == [3, 4, 5, 6, 7, 8]
    assert lines[5].executed == 200
    assert lines[5].sectors_per_request == 32
    assert lines[5].wavefronts_per_request is None
    assert lines[6].wavefronts_per_request == 2
    assert lines[6].sectors_per_request is None


def test_the_mean_stall_of_a_loop_is_weighted_by_what_is_executed() -> None:
    stalls = {32: 2, 48: 4, 64: 1, 80: 5}  # LDG 100, LDS 100, FFMA 200, BRA 100 times
    control = {
        c.instruction.address: Control(
            stall=stalls.get(c.instruction.address, 1),
            write_barrier=None,
            read_barrier=None,
            wait=0,
            reuse=0,
        )
        for c in PROFILE.counted
    }
    (loop,) = summarize(PROFILE, control).loops
    assert loop.cycles_per_instruction == (200 + 400 + 200 + 500) / 500
    assert summarize(PROFILE).loops[0].cycles_per_instruction is None


def test_untimed_advice_names_the_line_and_the_excess() -> None:
    whole = occupancy(gpu=gpu("H200"), threads=32, registers=32)
    found = advise(PROFILE, summarize(PROFILE), gpu("H200"), whole)
    assert found[0].text.startswith(
        "k.cu:5 moves 32 sectors a request where 4 would do (87% of all sectors are excess)"
    )
    assert found[1].text.startswith(
        "k.cu:6 takes 2 passes through the banks a request where 1 would do (49% of all"
    )
    assert [each.place for each in found[:2]] == ["k.cu:5", "k.cu:6"]
    assert {(each.basis, each.gain) for each in found} == {("counted", None)}
    assert found[0].to_json()["provenance"] == "derived"


def test_untimed_advice_names_spills_and_low_occupancy() -> None:
    low = occupancy(gpu=gpu("H200"), threads=256, registers=255)
    spilled = replace(PROFILE, spill_bytes=64, launch=Launch(grid=500, block=256))
    found = advise(spilled, summarize(PROFILE), gpu("H200"), low)
    assert found[0].text.startswith("64 bytes a thread are in local memory")
    assert len(found) == 3
    quiet = replace(spilled, counted=PROFILE.counted[:2], loops=(), spill_bytes=0)
    (only,) = advise(quiet, summarize(quiet), gpu("H200"), low)
    assert only.text.startswith("occupancy is 12%: another block fits at 128 registers")
    assert only.text.endswith("__launch_bounds__(256, 2) makes the compiler try")
    fits = replace(quiet, launch=Launch(grid=100, block=256))  # no block is left to put beside
    assert advise(fits, summarize(fits), gpu("H200"), low) == ()

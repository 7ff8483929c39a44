"""Tiny programs for the simulated SM, and profiles of machine code written by hand."""

from collections.abc import Sequence

from tilewright.gpus import gpu
from tilewright.launch import Launch
from tilewright.model.machine import machine
from tilewright.model.operations import Operation
from tilewright.model.profile import AccessCounts, Counted, Profile
from tilewright.model.sm import Simulated, Sm
from tilewright.model.traffic import Hits
from tilewright.toolchain.sass import SassFunction, parse_sass

H200 = machine(gpu("H200"))


def operation(pipe: str = "fma", **fields: object) -> Operation:
    """An operation that waits for nothing, with a stall count of 1 and no register to read."""
    plain = {
        "index": 0,
        "stall": 1,
        "write_barrier": -1,
        "read_barrier": -1,
        "wait": 0,
        "reads": (0, 0),
        "size": 4,
        "load": True,
        "share": 1.0,
        "wavefronts": 1.0,
        "lines": 1.0,
    }
    return Operation(pipe=pipe, **(plain | fields))


END = operation("fence", stall=5)


def simulate(
    program: Sequence[Operation],
    *,
    warps: int = 1,
    blocks: int = 1,
    hits: Hits | None = None,
    sms: int = 1,
    together: bool = True,
    ways: Sequence[Sequence[int]] | None = None,
) -> Simulated:
    """Run a program on the H200's SM: each operation once by every warp, or those of its way."""
    numbered = [
        Operation(**{f: getattr(op, f) for f in op.__slots__} | {"index": n})
        for n, op in enumerate(program)
    ]
    sm = Sm(
        H200,
        numbered,
        ways or [range(len(numbered))],
        hits or Hits(),
        blocks=blocks,
        warps_per_block=warps,
        sms=sms,
        together=together,
    )
    return sm.run()


def function(*lines: str) -> SassFunction:
    """A function from lines such as `.L_x_1:` and `@P0 BRA `(.L_x_1)`, at addresses 0, 16, …"""
    text, address = ['\t.section\t.text.k,"ax",@progbits', "k:"], 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
        else:
            text.append(f"        /*{address:04x}*/  {line} ;")
            address += 16
    return parse_sass("\n".join(text)).functions["k"]


def profile(
    code: SassFunction,
    executed: Sequence[int],
    edges: dict[tuple[int, int], int] | None = None,
    *,
    accesses: dict[int, AccessCounts] | None = None,
    grid: int = 1,
    block: int = 32,
    registers: int = 32,
    shared_bytes: int = 0,
) -> Profile:
    """A profile of a launch by how often warps executed each instruction and took each edge."""
    return Profile(
        kernel="k",
        arch="sm_90",
        launch=Launch(grid=grid, block=block),
        blocks_run=grid,
        registers=registers,
        shared_bytes=shared_bytes,
        spill_bytes=0,
        counted=tuple(
            Counted(
                instruction=ins,
                executed=count,
                threads=32 * count,
                access=(accesses or {}).get(index),
            )
            for index, (ins, count) in enumerate(zip(code.instructions, executed, strict=True))
        ),
        loops=(),
        provenance={},
        gaps=(),
        edges=edges or {},
    )

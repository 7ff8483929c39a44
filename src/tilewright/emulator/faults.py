"""What a fault of compiled code means, in words."""

from __future__ import annotations

from tilewright.emulator import state
from tilewright.emulator.arena import Arena
from tilewright.emulator.program import Program
from tilewright.emulator.state import Fault
from tilewright.errors import (
    BarrierError,
    EmulationError,
    LimitError,
    OutOfBoundsError,
    Site,
    TrapError,
)
from tilewright.launch import Dim3, Launch
from tilewright.toolchain.ptx.ir import Instruction


def explain(
    program: Program, arena: Arena, launch: Launch, context: state.Context
) -> EmulationError:
    """The error for the fault noted in a worker's context."""
    fault = Fault(context.fault)
    body = program.plan.function.body
    ins = body[context.fault_pc] if 0 <= context.fault_pc < len(body) else None
    thread = context.fault_warp * 32 + context.fault_lane if context.fault_lane >= 0 else None
    site = _site(program, launch, ins, context.block, thread)
    address = context.fault_address
    match fault:
        case Fault.BOUNDS:
            return OutOfBoundsError(_stray(program, arena, ins, address), site, address)
        case Fault.MISALIGNED:
            return OutOfBoundsError(
                f"misaligned {_access(ins)} at address {address:#x}: an access of "
                f"{_width(ins)} bytes needs an address that is a multiple of {_width(ins)} "
                "(use narrower accesses where the data may be unaligned)",
                site,
                address,
            )
        case Fault.TRAP:
            return TrapError("the kernel trapped (a failed assertion, or __trap())", site)
        case Fault.LIMIT:
            return LimitError(
                "the step limit was reached: the kernel probably never ends (waiting for a value "
                "that no thread of its block will write, or for a block that has not started?)",
                site,
            )
        case Fault.BARRIER:
            return BarrierError(
                f"barrier {address} waits for threads of the block that have returned or wait "
                "elsewhere: every thread of the block must reach it",
                site,
            )
        case _:
            return BarrierError(
                "some threads of the warp wait here for others that take another path: every "
                "thread that the operation names must reach it",
                site,
            )


def _site(
    program: Program, launch: Launch, ins: Instruction | None, block: int, thread: int | None
) -> Site:
    location = ins.location if ins else None
    return Site(
        kernel=program.kernel,
        instruction=ins.text if ins else "(no one instruction)",
        ptx_line=ins.ptx_line if ins else 0,
        source_file=location.file if location else None,
        source_line=location.line if location else None,
        block=_coordinates(block, launch.grid),
        thread=None if thread is None else _coordinates(thread, launch.block),
    )


def _coordinates(number: int, shape: Dim3) -> Dim3:
    return number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])


def _access(ins: Instruction | None) -> str:
    names = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "atomic"}
    return names.get(ins.opcode if ins else "", "access")


def _width(ins: Instruction | None) -> int:
    from tilewright.emulator.ops.memory import access_bytes

    return access_bytes(ins) if ins and ins.types else 0


def _stray(program: Program, arena: Arena, ins: Instruction | None, address: int) -> str:
    what = f"{_access(ins)} of {_width(ins)} bytes at address {address:#x} is out of bounds: "
    if ins is not None and ins.space == "shared":
        return (
            f"{what}byte {address & 0xFFFFFFFF} of shared memory, of which the block has "
            f"{program.layout.shared_bytes} bytes"
        )
    if ins is not None and ins.space == "local":
        return f"{what}byte {address} of a thread's {program.layout.local_frame} bytes of local memory"
    return what + arena.describe(address)

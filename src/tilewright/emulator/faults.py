"""What a fault of compiled code means, in words."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.emulator import state
from tilewright.emulator.arena import Arena
from tilewright.emulator.lanes import WARP
from tilewright.emulator.ops.accesses import access_bytes
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
from tilewright.toolchain.ptx.ir import Instruction, Vec

_MOST_NAMES = 4


def explain(
    program: Program, arena: Arena, launch: Launch, context: state.Context
) -> EmulationError:
    """Return the error for the fault noted in a worker's context."""
    scene = _Scene(program, arena, launch, context)
    match Fault(context.fault):
        case Fault.BOUNDS:
            return scene.out_of_bounds()
        case Fault.MISALIGNED:
            return scene.misaligned()
        case Fault.TRAP:
            return scene.trap()
        case Fault.BRANCH:
            return scene.branch()
        case Fault.LIMIT:
            return scene.limit()
        case Fault.BARRIER:
            return scene.barrier()
        case Fault.COPY_SIZE:
            return scene.copy_size()
        case _:
            return scene.warp_sync()


@dataclass(frozen=True, slots=True)
class _Scene:
    """Everything as it was when the fault was noted."""

    program: Program
    arena: Arena
    launch: Launch
    context: state.Context

    # --- where ------------------------------------------------------------------------------

    @property
    def instruction(self) -> Instruction | None:
        """The instruction at the noted place, if one was noted."""
        body, pc = self.program.plan.function.body, self.context.fault_pc
        return body[pc] if 0 <= pc < len(body) else None

    def next_blocks(self, warp: int) -> npt.NDArray[np.int32]:
        """Return the code block that each lane of a warp runs next."""
        address = self.context.warps + warp * self.program.state_bytes + state.WARP_PCS
        return np.ctypeslib.as_array((ctypes.c_int32 * WARP).from_address(address)).copy()

    def site(self, ins: Instruction | None, lane: int) -> Site:
        """Return the place of `ins` in the noted block and warp; `lane` below 0 for no thread."""
        thread = None if lane < 0 else self.context.fault_warp * WARP + lane
        location = ins.location if ins else None
        return Site(
            kernel=self.program.kernel,
            instruction=ins.text if ins else "(no one instruction)",
            ptx_line=ins.ptx_line if ins else 0,
            source_file=location.file if location else None,
            source_line=location.line if location else None,
            block=coordinates(self.context.block, self.launch.grid),
            thread=None if thread is None else coordinates(thread, self.launch.block),
        )

    # --- accesses -----------------------------------------------------------------------------

    def out_of_bounds(self) -> OutOfBoundsError:
        """Tell of an access that no array holds."""
        ins, address = self.instruction, self.context.fault_address
        width = _width(ins)
        what = f"{_access(ins)} of {width} bytes at address {address:#x} is out of bounds: "
        segment, offset = divmod(address, 1 << state.SEGMENT_SHIFT)
        # Both sides of a copy are noted by their generic addresses.
        space = ins.space if ins and ins.opcode != "cp" else None
        if space == "shared":
            what += self._window("shared", address & 0xFFFFFFFF)
        elif space == "local":
            what += self._window("local", address)
        elif segment == state.SHARED_SEGMENT:
            what += self._window("shared", offset)
        else:
            what += self.arena.describe(address, width)
        return OutOfBoundsError(what, self.site(ins, self.context.fault_lane), address)

    def _window(self, space: str, offset: int) -> str:
        """Say what a block's shared or a thread's local memory has, and what was asked of it."""
        layout = self.program.layout
        size = layout.shared_bytes if space == "shared" else layout.local_frame
        whose = "the block has" if space == "shared" else "a thread has"
        names = [
            f"{_last_name(v.name)} {layout.symbols[v.name]} to {layout.symbols[v.name] + n - 1}"
            for v in layout.variables("shared")
            if space == "shared" and (n := v.size_bytes or layout.launch.shared_bytes)
        ]
        if len(names) > _MOST_NAMES:
            names = [*names[:_MOST_NAMES], "…"]
        if offset >= 1 << 31:
            offset -= 1 << (64 if offset >> 32 else 32)
        inside = f" ({', '.join(names)})" if names else ""
        return f"byte {offset} of {space} memory, of which {whose} {size} bytes{inside}"

    def misaligned(self) -> OutOfBoundsError:
        """Tell of an access whose address is no multiple of its width."""
        ins, address = self.instruction, self.context.fault_address
        width = _width(ins)
        return OutOfBoundsError(
            f"misaligned {_access(ins)} at address {address:#x}: an access of {width} bytes needs "
            f"an address that is a multiple of {width} "
            "(use narrower accesses where the data may be unaligned)",
            self.site(ins, self.context.fault_lane),
            address,
        )

    def copy_size(self) -> OutOfBoundsError:
        """Tell of a copy that is to read more bytes than it writes."""
        ins, given = self.instruction, self.context.fault_address
        return OutOfBoundsError(
            f"the source size of this asynchronous copy is {given}, and it writes {_width(ins)} "
            "bytes: what happens then is undefined (pass the bytes of the source that are valid, "
            f"0 to {_width(ins)}; a difference below 0 must be clamped first)",
            self.site(ins, self.context.fault_lane),
            given,
        )

    # --- ends and waits -------------------------------------------------------------------------

    def trap(self) -> TrapError:
        """Tell of a trap, or an assertion that failed."""
        ins = self.instruction
        failed = ins is not None and "__assertfail" in ins.text
        what = "an assertion failed" if failed else "the kernel trapped (__trap() or `trap`)"
        return TrapError(what, self.site(ins, self.context.fault_lane))

    def branch(self) -> TrapError:
        """Tell of a brx.idx whose index is past its table."""
        ins = self.instruction
        table = ins.operands[-1] if ins else None
        size = len(table.items) if isinstance(table, Vec) else 0
        return TrapError(
            f"the index of a branch by table is {self.context.fault_address}, and the table has "
            f"the targets 0 to {size - 1}: what happens past them is undefined (a switch that "
            "promised the compiler that no other case can come?)",
            self.site(ins, self.context.fault_lane),
        )

    def limit(self) -> LimitError:
        """Tell of a kernel that was stopped, and where its warp would go on."""
        plan, blocks = self.program.plan, self.next_blocks(self.context.fault_warp)
        lane = int(blocks.argmin())
        number = int(blocks[lane])
        ins = plan.function.body[plan.blocks[number].start] if number < len(plan.blocks) else None
        return LimitError(
            "the step limit was reached: the kernel probably never ends (waiting for a value that "
            "no thread of its block will write, or for a block that has not started?); it was "
            "stopped",
            self.site(ins, lane),
        )

    def barrier(self) -> BarrierError:
        """Tell of a barrier that not all of a block will reach."""
        number, lane = self.context.fault_address, self.context.fault_lane
        if lane >= 0:
            return BarrierError(
                f"this thread has returned, and others of its warp wait at barrier {number}: every "
                "thread of the block must reach it (let all threads run to the end, and guard "
                "what they do)",
                self.site(self.instruction, lane),
            )
        warps = range(self.program.layout.warps)
        gone = [w for w in warps if (self.next_blocks(w) == state.EXITED).all()]
        rest = f" (of warps 0 to {warps[-1]}, returned: {_numbers(gone)})" if gone else ""
        first = int((self.next_blocks(self.context.fault_warp) != state.EXITED).argmax())
        return BarrierError(
            f"barrier {number} waits for threads of the block that have returned or wait "
            f"elsewhere: every thread of the block must reach it{rest}",
            self.site(self.instruction, first),
        )

    def warp_sync(self) -> BarrierError:
        """Tell of an operation of the warp that some of its lanes will not reach."""
        plan, blocks = self.program.plan, self.next_blocks(self.context.fault_warp)
        pc = self.context.fault_pc
        here = [n for n, block in enumerate(plan.blocks) if block.start == pc]
        waiting = [lane for lane in range(WARP) if blocks[lane] in here]
        who = f"lanes {_numbers(waiting)}" if waiting else "some threads"
        return BarrierError(
            f"{who} of the warp wait here for others that take another path: every thread that "
            "the operation names must reach it",
            self.site(self.instruction, waiting[0] if waiting else -1),
        )


def coordinates(number: int, shape: Dim3) -> Dim3:
    """Return x, y, z of the block or thread with a number."""
    return number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])


def _access(ins: Instruction | None) -> str:
    names = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "atomic"}
    names["cp"] = "asynchronous copy"
    return names.get(ins.opcode if ins else "", "access")


def _width(ins: Instruction | None) -> int:
    return access_bytes(ins) if ins and (ins.types or ins.opcode == "cp") else 0


def _last_name(symbol: str) -> str:
    """Return the plain name of a variable: `tile` for `_ZZ4gemmPfE4tile`."""
    for start in range(len(symbol)):
        digits = len(symbol[start:]) - len(symbol[start:].lstrip("0123456789"))
        length = len(symbol) - start - digits
        if digits and length and int(symbol[start : start + digits]) == length:
            return symbol[start + digits :]
    return symbol


def _numbers(numbers: Sequence[int]) -> str:
    """Return rising numbers with runs joined: `0-3, 8`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)

"""The machine code of a kernel that was not run, laid out."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.model.static import MachineCode, StaticLoop
from tilewright.report.ladder import Justify, Table

_MIX = 6  # opcodes that are named
_LOOPS = 8


def machine_code_table(code: MachineCode) -> Table:
    """Lay out the loops of the machine code, the innermost first, and what the kernel takes."""
    columns: dict[str, Justify] = {
        "loop, by lines": "left",
        "depth": "right",
        "instr": "right",
        "cycles\n/instr": "right",
        "FFMA": "right",
        "opcodes": "left",
        "bytes a lane": "left",
    }
    rows = tuple(_row(loop) for loop in code.loops[:_LOOPS])
    local = code.needs.local_bytes
    notes = [
        f"{code.needs.registers} registers a thread, "
        + (
            f"{local} bytes a thread in local memory (spills, or arrays indexed at run time)."
            if local
            else "nothing in local memory: no spills."
        ),
        f"{code.instructions} instructions: {_named(code.mix)}.",
    ]
    if rows:
        notes.append(
            "cycles/instr: the stall counts that the compiler set, over the instructions: how far "
            "apart one warp alone issues them at best."
        )
    if len(code.loops) > _LOOPS:
        notes.append(f"{len(code.loops) - _LOOPS} more loops are in --json.")
    return Table(
        "Loops of the machine code (not run: none is counted)", columns, rows, tuple(notes)
    )


def _row(loop: StaticLoop) -> tuple[str, ...]:
    where = "-"
    if loop.lines is not None:
        first, last = loop.lines
        where = f"{loop.file}:{first}" + (f"-{last}" if last > first else "")
    widths = ", ".join(f"{count} {op} {size}" for (op, size), count in loop.widths.items())
    return (
        where,
        str(loop.depth),
        str(loop.instructions),
        f"{loop.cycles_per_instruction:.2f}",
        f"{loop.mix.get('FFMA', 0):.0%}",
        _named(loop.mix),
        widths or "-",
    )


def _named(mix: Mapping[str, float]) -> str:
    items = list(mix.items())
    rest = 1 - sum(share for _, share in items[:_MIX])
    text = ", ".join(f"{opcode} {share:.0%}" for opcode, share in items[:_MIX])
    return text + (f", others {rest:.0%}" if rest > 0.005 else "")

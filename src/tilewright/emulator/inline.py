"""Device functions inlined at their calls, so that the emulator runs one flat kernel.

A call becomes the callee's body with its own copy of the registers and labels; `ret` jumps behind
it. Recursion is refused, so a function is active at most once in a thread, and its variables, like
the param-space ones of a call, can each have one place: param variables that are only written and
read whole become registers, all others local memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.emulator.frame import symbols
from tilewright.emulator.lanes import BITS
from tilewright.emulator.ops.table import unsupported
from tilewright.toolchain.ptx.ir import (
    Function,
    Guard,
    Instruction,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Symbol,
    Variable,
    Vec,
)

# Functions that CUDA's device runtime has and the PTX only declares, with what to do instead.
_REMEDIES = {
    "vprintf": "printf, which writes to the host: remove it, or store the value in an argument",
    "malloc": "malloc in device code: pass the memory as an argument",
    "free": "free in device code: pass the memory as an argument",
}
_ASSERT = "__assertfail"


def inline_calls(module: Module, function: Function) -> Function:
    """Return `function` with every call replaced by the callee's body.

    Instructions keep the lines they come from. A failed assertion becomes a trap.

    Raises:
        UnsupportedError: recursion, a call through a pointer, or a function without a body.
    """
    if not any(ins.opcode == "call" for ins in function.body):
        return function
    return _Inliner(module, function).flat()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """One copy of a function's body: what its names become in the flat kernel.

    `suffix` marks its registers and labels; `variables` renames its variables and parameters;
    `after` is the label behind the call, None in the kernel itself.
    """

    function: Function
    suffix: str
    variables: Mapping[str, str]
    after: str | None

    def rename(self, operand: Operand) -> Operand:
        """Return an operand with the names of this copy."""
        match operand:
            case Reg(name) if name != "_":
                return Reg(name + self.suffix)
            case Symbol(name, offset):
                if name in self.function.labels:
                    return Symbol(name + self.suffix, offset)
                return Symbol(self.variables.get(name, name), offset)
            case Mem(base, offset):
                return Mem(self.rename(base), offset)  # type: ignore[arg-type]
            case Vec(items):
                return Vec(tuple(self.rename(item) for item in items))
            case Pair(first, second):
                return Pair(self.rename(first), self.rename(second))
            case Not(inner):
                return Not(self.rename(inner))
            case _:
                return operand

    def guard(self, guard: Guard | None) -> Guard | None:
        """Return a guard with the names of this copy."""
        return guard and Guard(Reg(guard.reg.name + self.suffix), guard.negated)

    def instruction(self, ins: Instruction) -> Instruction:
        """Return an instruction of this copy; a return becomes a jump behind the call."""
        operands = tuple(self.rename(operand) for operand in ins.operands)
        guard = self.guard(ins.guard)
        if self.after is None:
            return replace(ins, operands=operands, guard=guard)
        if ins.opcode == "ret":
            return _jump(ins, self.after, guard)
        # What a function finds by a register is its own: the launch's are for kernels.
        space = "local" if ins.space == "param" and not _named(ins) else ins.space
        return replace(ins, operands=operands, guard=guard, space=space)


def _jump(ins: Instruction, label: str, guard: Guard | None) -> Instruction:
    """Return a branch in the place of `ins`."""
    return replace(
        ins, opcode="bra", types=(), space=None, flags=(), operands=(Symbol(label),), guard=guard
    )


def _named(ins: Instruction) -> bool:
    """Whether an instruction names a variable."""
    return any(
        isinstance(o, Symbol) or (isinstance(o, Mem) and isinstance(o.base, Symbol))
        for o in ins.operands
    )


class _Inliner:
    """The flat kernel as made so far."""

    def __init__(self, module: Module, kernel: Function) -> None:
        self.module, self.kernel = module, kernel
        self.body: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self.active: list[str] = []
        self.copies = 0
        self.taken = {*module.variables, *kernel.registers, *(p.name for p in kernel.params)}
        self.places: dict[str, dict[str, str]] = {}

    def flat(self) -> Function:
        """Everything in one function."""
        names = self._place(self.kernel)
        self._append(_Copy(function=self.kernel, suffix="", variables=names, after=None))
        calls = [v for v in self.variables.values() if v.space == "param"]
        registers = _registers_of(calls, self.body, self.registers)
        self.registers |= registers
        mine = {v.name for v in calls}
        body = tuple(_lowered(ins, registers, mine) for ins in self.body)
        variables = tuple(
            replace(v, space="local") if v.name in mine else v
            for v in self.variables.values()
            if v.name not in registers
        )
        return replace(
            self.kernel,
            registers=self.registers,
            variables=variables,
            body=body,
            labels=self.labels,
        )

    def _place(self, function: Function) -> dict[str, str]:
        """Give a function's variables their places, once, and return their names."""
        if function.name not in self.places:
            names = self.places[function.name] = {}
            for variable in function.variables:
                names[variable.name] = self._declare(variable)
        return self.places[function.name]

    def _declare(self, variable: Variable) -> str:
        name, number = variable.name, 1
        while name in self.taken:
            number += 1
            name = f"{variable.name}@{number}"
        self.taken.add(name)
        self.variables[name] = replace(variable, name=name)
        return name

    def _append(self, copy: _Copy) -> None:
        """Append a copy of a function's body, with what it calls."""
        function = copy.function
        self.active.append(function.name)
        self.registers |= {name + copy.suffix: kind for name, kind in function.registers.items()}
        labels: dict[int, list[str]] = {}
        for label, at in function.labels.items():
            labels.setdefault(at, []).append(label + copy.suffix)
        for at in range(len(function.body) + 1):
            self.labels |= dict.fromkeys(labels.get(at, ()), len(self.body))
            if at == len(function.body):
                break
            ins = function.body[at]
            if ins.opcode == "call":
                self._call(copy, ins)
            else:
                self.body.append(copy.instruction(ins))
        self.active.pop()

    def _call(self, caller: _Copy, ins: Instruction) -> None:
        results, target, args = ins.operands[:3]
        if not isinstance(target, Symbol):
            raise unsupported(ins, "a call through a function pointer: call the function by name")
        guard = caller.guard(ins.guard)
        if target.name == _ASSERT:
            trap = replace(ins, opcode="trap", operands=(), flags=(), guard=guard)
            self.body.append(trap)
            return
        callee = self._callee(target.name, ins)
        self.copies += 1
        suffix = f"@{self.copies}"
        after = f"after{suffix}"
        names = dict(self._place(callee))
        for formal, actual in (*_pairs(callee.returns, results), *_pairs(callee.params, args)):
            names[formal.name] = self._bind(formal, actual and caller.rename(actual), ins)
        if guard is not None:
            self.body.append(_jump(ins, after, Guard(guard.reg, not guard.negated)))
        self._append(_Copy(function=callee, suffix=suffix, variables=names, after=after))
        self.labels[after] = len(self.body)

    def _bind(self, formal: Variable, actual: Operand | None, ins: Instruction) -> str:
        """Return the variable that a parameter stands for in one call."""
        if actual is None:  # a result that the caller drops
            return self._declare(formal)
        if isinstance(actual, Symbol) and actual.name in self.variables | _params(self.kernel):
            return actual.name
        raise unsupported(ins, "a call with a register or a constant as an argument")

    def _callee(self, name: str, ins: Instruction) -> Function:
        if name in self.active:
            cycle = " -> ".join(map(_plain, (*self.active[self.active.index(name) :], name)))
            raise unsupported(ins, f"recursion ({cycle}): write it as a loop")
        callee = self.module.functions.get(name)
        if callee is not None:
            return callee
        raise unsupported(ins, _REMEDIES.get(name, f"{_plain(name)}, a function without a body"))


def _plain(symbol: str) -> str:
    """Return the name in a mangled symbol: `fact` for `_Z4facti`."""
    match = re.match(r"_Z(\d+)", symbol)
    return symbol[match.end() :][: int(match[1])] if match else symbol


def _params(kernel: Function) -> dict[str, Variable]:
    return {p.name: p for p in kernel.params}


def _pairs(formals: Sequence[Variable], actuals: Operand) -> list[tuple[Variable, Operand | None]]:
    """Parameters with what a call passes for them; None for what it leaves out."""
    items = actuals.items if isinstance(actuals, Vec) else (actuals,)
    return [(f, items[i] if i < len(items) else None) for i, f in enumerate(formals)]


# --- param variables --------------------------------------------------------------------------


def _registers_of(
    variables: Sequence[Variable], body: Sequence[Instruction], registers: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that a register can hold: every access moves all of them."""
    sizes = {v.name: 8 * v.size_bytes for v in variables if v.size_bytes in (2, 4, 8)}
    for ins in body:
        access = _whole_access(ins)
        for operand in ins.operands:
            for name in symbols(operand):
                if name not in sizes:
                    continue
                value = access[1] if access is not None and access[0] == name else None
                kind = registers.get(value.name) if isinstance(value, Reg) else None
                if (
                    value is None
                    or BITS[ins.types[-1]] != sizes[name]
                    or (kind is not None and BITS[kind] != sizes[name])
                ):
                    del sizes[name]
    return {name: f"b{bits}" for name, bits in sizes.items()}


def _whole_access(ins: Instruction) -> tuple[str, Operand] | None:
    """(variable, value) of a scalar ld.param or st.param at a variable's start."""
    if ins.space != "param" or ins.opcode not in ("ld", "st") or ins.vector != 1:
        return None
    first, second = ins.operands
    memory, value = (first, second) if ins.opcode == "st" else (second, first)
    if not isinstance(memory, Mem) or not isinstance(memory.base, Symbol):
        return None
    if memory.offset or memory.base.offset or isinstance(value, Vec):
        return None
    return memory.base.name, value


def _lowered(ins: Instruction, registers: Mapping[str, str], variables: set[str]) -> Instruction:
    """Return an access to a param variable as a move, or as one to local memory."""
    if ins.space != "param" or variables.isdisjoint(
        name for operand in ins.operands for name in symbols(operand)
    ):
        return ins
    access = _whole_access(ins)
    if access is None or access[0] not in registers:
        return replace(ins, space="local")
    name, value = access
    pair = (Reg(name), value) if ins.opcode == "st" else (value, Reg(name))
    return replace(ins, opcode="mov", types=(registers[name],), space=None, flags=(), operands=pair)

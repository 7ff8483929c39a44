"""The typed form of a PTX module. Values only; imports nothing of the package.

Registers stay untyped bit containers, as the ISA has them: an instruction's `types` say how its
operands are read. sm_100 spells the same programs with `.b32` where older targets say `.f32`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Reg:
    """A virtual register, such as `%r1`; `_` is the sink that a result may be dropped in."""

    name: str


@dataclass(frozen=True, slots=True)
class Imm:
    """A constant. `value` is the integer, or for `f32`/`f64` the IEEE bit pattern."""

    value: int
    kind: Literal["int", "f32", "f64"] = "int"


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, such as `%tid.x` (the component, if any, is part of the name)."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable (plus `offset` bytes), a function, or a label."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Mem:
    """A memory operand: `[base + offset]`, offset in bytes."""

    base: Reg | Symbol | Imm
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    """A braced list of operands; also the argument lists of `call`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two results, `d|p`."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """A negated predicate operand, `!%p1`."""

    operand: Operand


Operand: TypeAlias = Reg | Imm | Special | Symbol | Mem | Vec | Pair | Not


@dataclass(frozen=True, slots=True)
class Guard:
    """The predicate that an instruction runs under, `@%p1` or `@!%p1`."""

    reg: Reg
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the CUDA source, from `.loc`."""

    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction.

    `opcode` is the part before the first dot; `types` its type suffixes in order (`cvt.s64.s32`:
    ("s64", "s32")); `space` its state space, None for generic or none; `vector` how many elements
    it moves (`.v4`: 4); `flags` every other suffix, in order. `known` is False where the table
    has no such opcode: the static half of the tools still works, executing it is an error.
    """

    opcode: str
    types: tuple[str, ...] = ()
    space: str | None = None
    vector: int = 1
    flags: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    guard: Guard | None = None
    ptx_line: int
    location: Location | None = None
    text: str
    known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A declared variable in `space` (global, shared, const, local, param).

    `size_bytes` is 0 for an extern array (dynamic shared memory). `init` holds the initial bytes,
    zero-filled to the size, or None; `relocations` maps a byte offset in it to the symbol whose
    address belongs there.
    """

    name: str
    space: str
    type: str
    align: int
    size_bytes: int
    init: bytes | None = None
    relocations: Mapping[int, Symbol] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A kernel (`is_entry`) or device function.

    `params` and `returns` are variables in the param space, in order. `registers` maps each
    register to its declared type (`pred`, `b32`, `f32`, …). `variables` are those declared in the
    body. `body` is the straight list; `labels` maps a label to the index in `body` that it stands
    before (it may equal len(body)). Names declared in nested `{ }` scopes are made unique.
    `directives` keeps `maxntid`, `reqntid`, `minnctapersm` and the like, as integers.
    """

    name: str
    is_entry: bool
    params: tuple[Variable, ...]
    returns: tuple[Variable, ...] = ()
    registers: Mapping[str, str]
    variables: tuple[Variable, ...]
    body: tuple[Instruction, ...]
    labels: Mapping[str, int]
    directives: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A whole PTX file: functions with a body and module-scope variables, by name."""

    version: str
    target: str
    address_size: int
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]

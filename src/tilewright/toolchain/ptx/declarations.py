"""Declarations: registers, variables with their initial bytes, and function headers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tilewright.errors import PtxError, UnsupportedError
from tilewright.toolchain.ptx.ir import Imm, Symbol, Variable
from tilewright.toolchain.ptx.lexer import NAME, constant, float_bits, split_list

TYPE_BYTES: Mapping[str, int] = {
    **{f"{kind}{bits}": bits // 8 for kind in "busf" for bits in (8, 16, 32, 64)},
    **{"b128": 16, "f16x2": 4, "bf16": 2, "bf16x2": 4, "pred": 1},
}
SPACES = ("global", "shared", "const", "local", "param")

_REGISTERS = re.compile(rf"({NAME})(?:\s*<\s*(\d+)\s*>)?")
_QUALIFIER = re.compile(r"\s*\.(\w+)\s*(\([^)]*\)|\d+(?!\w))?")
_DECLARATOR = re.compile(rf"({NAME})\s*((?:\[[^\]]*\]\s*)*)(?:=\s*(.*))?", re.DOTALL)
_ADDRESS = re.compile(
    rf"(?:(0[xX][0-9a-fA-F]+|\d+)\s*\(\s*)?(?:generic\s*\(\s*)?({NAME})[\s)]*([-+]\s*\w+)?[\s)]*"
)
_HEADER = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(entry|func)\b\s*(?:\.attribute\s*\([^)]*\)\s*)?"
    rf"(?:\(([^)]*)\)\s*)?({NAME})\s*(?:\(([^)]*)\)\s*)?(.*)",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"\.(\w+)((?:\s*\d+\s*,?)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A function as its header declares it."""

    name: str
    is_entry: bool
    params: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    directives: Mapping[str, tuple[int, ...]]


def read_registers(text: str) -> Iterator[tuple[str, str]]:
    """Read what follows `.reg`: the registers of ranges and lists, each with its type."""
    qualifiers, rest = _qualifiers(text)
    kinds = [name for name, _ in qualifiers]
    if len(kinds) != 1 or kinds[0] not in TYPE_BYTES:
        raise PtxError(f"expected '.reg .type names;' with one scalar type, not {kinds}")
    for item in split_list(rest):
        match = _REGISTERS.fullmatch(item)
        if match is None:
            raise PtxError(f"{item!r} is not a register or a range such as %r<8>")
        if match[2] is None:
            yield match[1], kinds[0]
        else:
            for index in range(int(match[2])):
                yield f"{match[1]}{index}", kinds[0]


def read_variables(
    text: str, rename: Callable[[str], str] = lambda name: name
) -> Iterator[tuple[str, Variable]]:
    """Read a variable declaration without its ';': each variable under the name it was given.

    `rename` chooses the name that the variable itself carries.
    """
    qualifiers, rest = _qualifiers(text)
    space, kind, align, vector = "", "", 0, 1
    for name, value in qualifiers:
        if name in SPACES:
            space = name
        elif name in TYPE_BYTES:
            kind = name
        elif name == "align":
            align = int(value)
        elif name in ("v2", "v4", "v8"):
            vector = int(name[1:])
        elif name in ("texref", "samplerref", "surfref"):
            raise UnsupportedError(f".{name} variables are not supported: pass a pointer instead")
        elif name == "ptr":
            break  # What the pointer points to: a hint that changes nothing.
    if not space or not kind:
        raise PtxError("expected a state space, a type and a name, as in '.shared .f32 tile[64];'")
    for item in split_list(rest):
        match = _DECLARATOR.fullmatch(item)
        if match is None:
            raise PtxError(f"{item!r} is not a variable such as 'tile[64]'")
        yield (
            match[1],
            _variable(rename(match[1]), space, kind, align, vector, match[2], match[3]),
        )


def read_header(text: str) -> Header:
    """Read a function up to its body."""
    match = _HEADER.fullmatch(text)
    if match is None:
        raise PtxError("expected '.entry name (parameters)' or '.func (results) name (parameters)'")
    kind, returns, name, params, rest = match.groups()
    directives = re.sub(r'\.pragma\s+"[^"]*"\s*;?', "", rest)
    if unread := _DIRECTIVE.sub("", directives).strip():
        raise PtxError(f"{unread!r} is no directive of a function")
    return Header(
        name=name,
        is_entry=kind == "entry",
        params=_parameters(params),
        returns=_parameters(returns),
        directives={
            name: tuple(int(number) for number in re.findall(r"\d+", values))
            for name, values in _DIRECTIVE.findall(directives)
        },
    )


def _parameters(text: str | None) -> tuple[Variable, ...]:
    parameters = []
    for item in split_list(text or ""):
        if item.startswith(".reg"):
            raise UnsupportedError(f"the parameter '{item}' is a register: use .param instead")
        parameters += [variable for _, variable in read_variables(item)]
    return tuple(parameters)


def _qualifiers(text: str) -> tuple[list[tuple[str, str]], str]:
    found, position = [], 0
    while match := _QUALIFIER.match(text, position):
        found.append((match[1], match[2] or ""))
        position = match.end()
    return found, text[position:].strip()


def _variable(
    name: str, space: str, kind: str, align: int, vector: int, dims: str, init: str | None
) -> Variable:
    element = TYPE_BYTES[kind]
    count, unsized = vector, False
    for dim in re.findall(r"\[([^\]]*)\]", dims):
        number = constant(dim.strip()) if dim.strip() else None
        if number is not None and number.kind == "int" and number.value >= 0:
            count *= number.value
        elif dim.strip():
            raise PtxError(f"the array size '[{dim}]' of {name} is not a whole number")
        else:
            unsized = True
    values = list(_flatten(init)) if init is not None else []
    if unsized:
        count = count * -(-len(values) // count) if values else 0
    if len(values) > count:
        raise PtxError(f"{name} has {count} elements, and {len(values)} initial values")
    data, relocations = _initial(values, kind)
    return Variable(
        name=name,
        space=space,
        type=kind,
        align=align or element * vector,
        size_bytes=count * element,
        init=data.ljust(count * element, b"\0") if init is not None else None,
        relocations=relocations,
    )


def _flatten(text: str) -> Iterator[str]:
    stripped = text.strip()
    if not stripped.startswith("{"):
        yield stripped
        return
    for item in split_list(stripped[1:-1]):
        yield from _flatten(item)


def _initial(values: list[str], kind: str) -> tuple[bytes, dict[int, Symbol]]:
    """Encode the initial bytes, and note where addresses belong in them.

    A packed struct spells a pointer byte by byte: 0xFF(p), 0xFF00(p), …
    """
    size = TYPE_BYTES[kind]
    data = bytearray()
    relocations: dict[int, Symbol] = {}
    for value in values:
        number = constant(value)
        if number is None:
            offset, symbol = _address(value, len(data))
            if relocations.setdefault(offset, symbol) != symbol:
                raise PtxError(f"the bytes of two addresses overlap at {value!r}")
            data += bytes(size)
        else:
            data += _encode(number, kind, size)
    return bytes(data), relocations


def _address(value: str, position: int) -> tuple[int, Symbol]:
    match = _ADDRESS.fullmatch(value)
    if match is None:
        raise PtxError(f"{value!r} is not a constant or an address")
    mask, name, plus = match.groups()
    offset = constant(plus) if plus else Imm(0)
    if offset is None:
        raise PtxError(f"{plus!r} is not an offset in bytes")
    byte = (int(mask, 0).bit_length() - 1) // 8 if mask else 0
    return position - byte, Symbol(name, offset.value)


def _encode(number: Imm, kind: str, size: int) -> bytes:
    bits = number.value
    if number.kind != "int" or kind in ("f16", "f32", "f64"):
        bits = float_bits(number, 8 * size)
    return (bits % (1 << 8 * size)).to_bytes(size, "little")

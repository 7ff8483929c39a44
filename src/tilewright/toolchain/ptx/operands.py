"""Operand text to typed operands, with the names that a scope declares."""

from __future__ import annotations

import re

from tilewright.errors import PtxError
from tilewright.toolchain.ptx.ir import Imm, Mem, Not, Operand, Pair, Reg, Special, Symbol, Vec
from tilewright.toolchain.ptx.lexer import NAME, constant, split_list

_SPECIAL = re.compile(
    r"%(?:(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.[xyzw]"
    r"|laneid|warpid|nwarpid|smid|nsmid|gridid|is_explicit_cluster|cluster_n?ctarank"
    r"|lanemask_(?:eq|le|lt|ge|gt)|clock|clock_hi|clock64|globaltimer(?:_lo|_hi)?"
    r"|pm[0-7](?:_64)?|envreg\d+|(?:total|aggr|dynamic)_smem_size|current_graph_exec"
    r"|reserved_smem_offset_(?:begin|end|cap|\d))"
)
_SUM = re.compile(rf"({NAME}|\d\w*)\s*(?:\+\s*)?([-+]?\s*\w+)?")
_WARP_SIZE = Imm(32)


class Scope:
    """The names visible in one `{ }` scope, and the operands already read there.

    Operand texts repeat, so each is read once; declaring a name forgets what was read, because
    it may hide an outer name. Register `_` is the sink.
    """

    def __init__(self, parent: Scope | None = None) -> None:
        self.names: dict[str, Operand] = dict(parent.names) if parent else {"_": Reg("_")}
        self._read: dict[str, Operand] = {}

    def declare(self, name: str, operand: Operand) -> None:
        """Let `name` stand for `operand` from here on."""
        self.names[name] = operand
        self._read.clear()

    def operand(self, text: str) -> Operand:
        """Read one operand.

        Raises: PtxError, without a line: the caller knows it.
        """
        found = self._read.get(text)
        if found is None:
            found = self._read[text] = self._parse(text)
        return found

    def operands(self, text: str) -> tuple[Operand, ...]:
        """Read a comma-separated list."""
        read = self._read
        return tuple([read.get(part) or self.operand(part) for part in split_list(text)])

    def _parse(self, text: str) -> Operand:
        named = self.names.get(text)
        if named is not None:
            return named
        first = text[0]
        if first == "[":
            return self._memory(text)
        if first in "{(":
            if text[-1] != "}" and text[-1] != ")":
                raise PtxError(f"{text!r} is not an operand: its list is not closed")
            return Vec(self.operands(text[1:-1]))
        if first == "!":
            return Not(self.operand(text[1:].strip()))
        if "|" in text:
            left, _, right = text.partition("|")
            return Pair(self.operand(left.strip()), self.operand(right.strip()))
        number = constant(text)
        if number is not None:
            return number
        if _SPECIAL.fullmatch(text):
            return Special(text)
        if text == "WARP_SZ":
            return _WARP_SIZE
        base, offset = self._sum(text)
        if isinstance(base, Symbol) and offset:
            return Symbol(base.name, offset)
        raise PtxError(f"{text!r} is not an operand")

    def _memory(self, text: str) -> Operand:
        if text[-1] != "]":
            raise PtxError(f"{text!r} is not an address: no ']' closes it")
        inside = text[1:-1].strip()
        if "," in inside:  # A tensor coordinate or texture operand: [map, {x, y}].
            address, *rest = split_list(inside)
            return Vec((self.operand(f"[{address}]"), *map(self.operand, rest)))
        return Mem(*self._sum(inside))

    def _sum(self, text: str) -> tuple[Reg | Symbol | Imm, int]:
        """Read `base`, `base+4` or `base+-4`."""
        match = _SUM.fullmatch(text)
        if match is None:
            raise PtxError(f"{text!r} is not an operand (is a ';' missing before it?)")
        base = self.names.get(match[1]) or constant(match[1])
        if base is None:
            raise PtxError(f"{match[1]!r} is not declared; declare it before its first use")
        offset = constant(match[2]) if match[2] else Imm(0)
        if not isinstance(base, Reg | Symbol | Imm) or offset is None or offset.kind != "int":
            raise PtxError(f"{text!r} is not an address: an address is base or base+integer")
        return base, offset.value

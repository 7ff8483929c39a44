"""PTX text to tokens: comments, positions, constants, and lists split at their top level."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right

from tilewright.errors import PtxError
from tilewright.toolchain.ptx.ir import Imm

NAME = r"[A-Za-z_$%][\w$]*"

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NUMBER = re.compile(
    r"([-+]?)\s*(?:0[fF](?P<f32>[0-9a-fA-F]{8})|0[dD](?P<f64>[0-9a-fA-F]{16})"
    r"|(?P<decimal>(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)"
    r"|(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|(?P<octal>0[0-7]+)|(?P<int>\d+))U?)"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "int": 10}
_BRACKET = re.compile(r"[{\[(]|[}\])]|,")
_FORMATS = {16: "<e", 32: "<f", 64: "<d"}


class Source:
    """PTX text with its comments blanked out. `at` is where the reader is."""

    def __init__(self, text: str) -> None:
        self.text = _COMMENT.sub(_blank, text)
        self.start = len(self.text) - len(self.text.lstrip())
        self.at = self.start
        self._lines = text.split("\n")
        self._ends = [match.start() for match in re.finditer("\n", self.text)]

    def line(self, position: int) -> int:
        """Count the line, from 1, of a position in `text`."""
        return bisect_right(self._ends, position - 1) + 1

    def explain(self, problem: str) -> str:
        """Write an error message: the problem, and the line that the reader is at."""
        number = self.line(min(self.at, len(self.text)))
        return f"PTX line {number}: {problem}\n  {self._lines[number - 1].strip()}"


def constant(text: str) -> Imm | None:
    """Read a constant; None where `text` is something else.

    A decimal floating-point constant is f64, whatever instruction it stands in.

    Source: PTX ISA 9.0, section 4.5, Constants.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    minus, kind = match[1] == "-", match.lastgroup or ""
    digits = match[kind]
    if kind == "f32":
        return Imm(int(digits, 16) ^ minus << 31, "f32")
    if kind == "f64":
        return Imm(int(digits, 16) ^ minus << 63, "f64")
    if kind == "decimal":
        return Imm(_pack(float(match[1] + digits), 64), "f64")
    number = int(digits, _BASES[kind])
    return Imm(-number if minus else number)


def float_bits(number: Imm, bits: int) -> int:
    """Encode a constant as an IEEE bit pattern of 16, 32 or 64 bits, rounded to nearest even.

    A number beyond the largest finite one becomes infinite.
    """
    value: float = number.value
    if number.kind == f"f{bits}":
        return number.value
    if number.kind != "int":
        width = int(number.kind[1:])
        value = struct.unpack(_FORMATS[width], number.value.to_bytes(width // 8, "little"))[0]
    return _pack(value, bits)


def split_list(text: str) -> list[str]:
    """Split at the commas outside all brackets; an empty text has no items."""
    if "{" not in text and "(" not in text:  # Square brackets hold a comma only before a brace.
        parts = text.split(",")
    else:
        parts, depth, start = [], 0, 0
        for match in _BRACKET.finditer(text):
            token = match.group()
            if token != ",":
                depth += 1 if token in "{[(" else -1
            elif depth == 0:
                parts.append(text[start : match.start()])
                start = match.end()
        if depth:
            raise PtxError("a bracket is not closed (or a ';' is missing)")
        parts.append(text[start:])
    items = [part.strip() for part in parts]
    if items == [""]:
        return []
    if "" in items:
        raise PtxError("an operand is missing beside a comma")
    return items


def _blank(match: re.Match[str]) -> str:
    found = match.group()
    if found[0] == '"':
        return found
    # Positions move, lines do not.
    return "\n" * found.count("\n") or " "


def _pack(value: float, bits: int) -> int:
    try:
        data = struct.pack(_FORMATS[bits], value)
    except OverflowError:
        data = struct.pack(_FORMATS[bits], float("inf") if value > 0 else float("-inf"))
    return int.from_bytes(data, "little")

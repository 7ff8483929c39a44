"""PTX types and Python values: int, float, bool, and for packed types a pair of those."""

from __future__ import annotations

import math
import random
import re
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

from ieee import FORMATS

# The formats that Python's struct knows, with the integer of their width.
_NATIVE = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}


@dataclass(frozen=True)
class Within:
    """A reference that the ISA gives by a bound: any result from `low` to `high`."""

    low: float
    high: float

    @classmethod
    def around(cls, exact: float, *, relative: float = 0.0, absolute: float = 0.0) -> Within:
        """`exact` with the error allowed."""
        slack = abs(exact) * relative + absolute
        return cls(exact - slack, exact + slack)

    def admits(self, value: float) -> bool:
        """Whether a result is in the bound; an exact zero must keep its sign."""
        if self.low == self.high == value == 0:
            return math.copysign(1, self.low) == math.copysign(1, value)
        return self.low <= value <= self.high


@cache
def bits_of(kind: str) -> int:
    """The width of a PTX type."""
    if kind == "pred":
        return 1
    if kind.startswith(("e4m3", "e5m2")):
        return 16
    base, _, packed = kind.partition("x")
    return int(re.sub(r"\D", "", base)) * int(packed or 1)


def is_float(kind: str) -> bool:
    """Whether a scalar type is a floating-point one."""
    return kind in FORMATS


def wrap(value: int, kind: str) -> int:
    """An integer as a type of this width holds it."""
    bits = bits_of(kind)
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def decode(bits: int, kind: str) -> Any:
    """The Python value of a register's bits."""
    if kind == "pred":
        return bool(bits)
    if "x2" in kind:
        part = kind.removesuffix("x2")
        width = bits_of(kind) // 2
        return tuple(decode(bits >> width * i & (1 << width) - 1, part) for i in range(2))
    if kind in _NATIVE:
        number, integer = _NATIVE[kind]
        return struct.unpack(number, struct.pack(integer, bits))[0]
    if is_float(kind):
        return FORMATS[kind].decode(bits)
    return wrap(bits, kind)


def encode(value: Any, kind: str) -> int:
    """The bits of a Python value; a bound has none."""
    if isinstance(value, Within):
        return 0
    if kind == "pred":
        return int(value)
    if "x2" in kind:
        low, high = (encode(part, kind.removesuffix("x2")) for part in value)
        return low | high << bits_of(kind) // 2
    if kind in _NATIVE and math.isfinite(value):
        number, integer = _NATIVE[kind]
        packed = struct.pack(number, value)
        if struct.unpack(number, packed)[0] != value:
            raise ValueError(f"{value!r} is no {kind}")
        return struct.unpack(integer, packed)[0]
    if is_float(kind):
        return FORMATS[kind].encode(value)
    return value & (1 << bits_of(kind)) - 1


def agrees(got: int, want: Any, kind: str) -> bool:
    """Whether result bits are what the reference says. Any NaN is as good as another."""
    if isinstance(want, Within):
        return want.admits(decode(got, kind))
    if "x2" in kind and isinstance(want, tuple):
        width, part = bits_of(kind) // 2, kind.removesuffix("x2")
        mask = (1 << width) - 1
        return all(agrees(got >> width * i & mask, w, part) for i, w in enumerate(want))
    if isinstance(want, float) and math.isnan(want):
        return math.isnan(decode(got, kind))
    return got == encode(want, kind)


# --- operands -------------------------------------------------------------------------------------

_FLOAT_EDGES = (0.0, 1.0, 1.5, 2.0, 3.0, 0.5, 1 / 3, 255.0, 65504.0)


def _float_edges(kind: str) -> list[float]:
    form = FORMATS[kind]
    least = math.ldexp(form.tiny, -form.mantissa)
    ulp = 2.0**-form.mantissa
    sizes = [*map(form.rounded, _FLOAT_EDGES), 1 + ulp, 1 - ulp / 2, form.tiny]
    sizes += [least, form.tiny - least, form.largest, math.inf]
    return [s * x for x in sizes for s in (1, -1)] + [math.nan]


def edges(kind: str) -> list[Any]:
    """The values where an instruction on this type may go wrong."""
    if kind == "pred":
        return [False, True]
    if "x2" in kind:
        values = edges(kind.removesuffix("x2"))
        return [(a, values[-1 - i]) for i, a in enumerate(values)]
    if is_float(kind):
        return _float_edges(kind)
    bits = bits_of(kind)
    half = 1 << (bits - 1)
    raw = [0, 1, 2, 3, 7, bits - 1, bits, half - 1, half, half + 1, 2 * half - 2, 2 * half - 1]
    return [wrap(value, kind) for value in dict.fromkeys(raw)]


def _random_value(kind: str, rng: random.Random) -> Any:
    if "x2" in kind:
        return tuple(_random_value(kind.removesuffix("x2"), rng) for _ in range(2))
    bits = rng.getrandbits(bits_of(kind))
    if is_float(kind) and rng.random() < 0.5:  # of a size at which sums and products are finite
        form = FORMATS[kind]
        return form.rounded(math.ldexp(rng.uniform(-1, 1), rng.randint(-8, 8)))
    if not is_float(kind) and kind != "pred":
        bits >>= rng.choice((0, 0, bits_of(kind) // 2, bits_of(kind) - 4))
    return decode(bits, kind)


@dataclass(frozen=True)
class Domain:
    """An operand: its PTX type, and the values it takes (edges first, then random ones).

    `literals` are those that it may take as an immediate.
    """

    kind: str
    values: tuple[Any, ...] = ()
    literals: tuple[Any, ...] | None = None

    def edges(self) -> list[Any]:
        """The values where something may go wrong."""
        return list(self.values) or edges(self.kind)

    def immediates(self) -> list[Any]:
        """The values that may be written into an instruction."""
        if not re.fullmatch(r"[usb](16|32|64)|f32|f64", self.kind):
            return []
        known = self.edges() if self.literals is None else self.literals
        return [v for v in known if not (isinstance(v, float) and math.isnan(v))]

    def draw(self, rng: random.Random) -> Any:
        """A value at random."""
        return rng.choice(self.values) if self.values else _random_value(self.kind, rng)


_AMOUNTS = (0, 1, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1)
# As immediates ptxas refuses those past 255 for bfe and bfi, and cuts those of shr.u16 to 16 bits.
AMOUNT = Domain("u32", _AMOUNTS, literals=_AMOUNTS[:15])

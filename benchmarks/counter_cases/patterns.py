"""Which addresses the lanes of a warp have: a table of indices, a unit in elements, a mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

ALL = 0xFFFFFFFF
EVEN = 0x55555555
LOW = 0x0000FFFF

# A permutation without structure: numpy.random.default_rng(0).permutation(32).
_SHUFFLED = (
    *(2, 11, 25, 21, 10, 4, 29, 16, 23, 6, 18, 26, 3, 30, 8, 0),
    *(19, 12, 20, 13, 7, 5, 17, 14, 27, 22, 9, 28, 24, 1, 15, 31),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Lane t's offset is index[t] · unit; lanes outside `mask` are idle. Indices are below 256."""

    index: tuple[int, ...]
    unit: int = 1
    mask: int = ALL

    def offsets(self, element: int) -> list[int]:
        """Offsets in bytes of elements of `element` bytes."""
        return [i * self.unit * element for i in self.index]


def _pattern(of_lane: Callable[[int], int], unit: int = 1, mask: int = ALL) -> Pattern:
    return Pattern(index=tuple(of_lane(t) for t in range(32)), unit=unit, mask=mask)


def drop(t: int, bit: int) -> int:
    """Return t without one of its bits: the same for t and t ^ (1 << bit)."""
    return t & ((1 << bit) - 1) | t >> (bit + 1) << bit


def _low_half(of_lane: Callable[[int], int]) -> Callable[[int], int]:
    """Return of_lane in the low half warp, every lane on its own in the high one."""
    return lambda t: of_lane(t) if t < 16 else t


# Dense, strided, and in other orders.
ORDERS: Mapping[str, Pattern] = {
    "unit": _pattern(lambda t: t),
    "stride2": _pattern(lambda t: t, 2),
    "stride3": _pattern(lambda t: t, 3),
    "stride4": _pattern(lambda t: t, 4),
    "stride8": _pattern(lambda t: t, 8),
    "stride32": _pattern(lambda t: t, 32),
    "reversed": _pattern(lambda t: 31 - t),
    "shuffled": Pattern(index=_SHUFFLED),
    "transposed": _pattern(lambda t: t >> 3 | (t & 7) << 2),
    "halves": _pattern(lambda t: t if t < 16 else t + 48),  # the same banks in both halves
    "quarters": _pattern(lambda t: (t & 7) + 32 * (t >> 3)),  # the same banks in all quarters
}
# Lanes that share addresses.
SHARING: Mapping[str, Pattern] = {
    "uniform": _pattern(lambda t: 0),
    "pairs1": _pattern(lambda t: drop(t, 0)),
    "pairs2": _pattern(lambda t: drop(t, 1)),
    "pairs4": _pattern(lambda t: drop(t, 2)),
    "pairs8": _pattern(lambda t: drop(t, 3)),
    "pairs16": _pattern(lambda t: drop(t, 4)),
    "quads": _pattern(lambda t: t >> 2),
    "eights": _pattern(lambda t: t >> 3),
    "sixteens": _pattern(lambda t: t >> 4),
    "modulo4": _pattern(lambda t: t & 3),
    "modulo8": _pattern(lambda t: t & 7),
    "pairs1_stride2": _pattern(lambda t: drop(t, 0), 2),
    "pairs2_stride2": _pattern(lambda t: drop(t, 1), 2),
    "pairs1_stride8": _pattern(lambda t: drop(t, 0), 8),
    "quads_stride8": _pattern(lambda t: t >> 2, 8),
    "pairs1_halves": _pattern(lambda t: drop(t, 0) if t < 16 else drop(t, 0) + 56),
}
# Where a rule about all lanes must say what it means by all.
PARTIAL: Mapping[str, Pattern] = {
    "even": _pattern(lambda t: t, mask=EVEN),
    "low_half": _pattern(lambda t: t, mask=LOW),
    "one_lane": _pattern(lambda t: t, mask=1 << 9),
    "one_idle": _pattern(lambda t: t, mask=ALL ^ 1 << 5),
    "pairs1_low": _pattern(_low_half(lambda t: drop(t, 0))),
    "pairs2_low": _pattern(_low_half(lambda t: drop(t, 1))),
    "pairs1_then_2": _pattern(lambda t: drop(t, 0) if t < 16 else drop(t, 1)),
    "pairs1_quarter": _pattern(lambda t: drop(t, 0) if t < 8 else t),
    "pairs1_but_last": _pattern(lambda t: drop(t, 0) if t < 31 else 40),
    "pairs1_even": _pattern(lambda t: drop(t, 0), mask=EVEN),
    "pairs1_one_idle": _pattern(lambda t: drop(t, 0), mask=ALL ^ 1 << 5),
    "pairs2_one_idle": _pattern(lambda t: drop(t, 1), mask=ALL ^ 1 << 5),
    "pairs1_low_half": _pattern(lambda t: drop(t, 0), mask=LOW),
    "pairs2_low_half": _pattern(lambda t: drop(t, 1), mask=LOW),
    "uniform_even": _pattern(lambda t: 0, mask=EVEN),
}
PATTERNS: Mapping[str, Pattern] = {**ORDERS, **SHARING, **PARTIAL}
# Those that tell the rules of stores and of global memory apart.
COMMON = (
    *ORDERS,
    *("uniform", "pairs1", "pairs2", "quads", "modulo8", "even", "low_half", "pairs1_low"),
)

# Rows of a matrix of float32, by their stride in elements: lanes down a column.
COLUMN_STRIDES = (4096, 4092, 4100, 2048, 1024, 1028, 1000, 512, 256, 64, 36, 33, 32)

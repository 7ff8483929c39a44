"""Shared memory as layouts see it: its banks, and the swizzles that the hardware knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.errors import LayoutError
from tilewright.layouts.swizzle import AnyLayout, ComposedLayout, Swizzle

WORD_BITS = 32  # a bank gives one word of four bytes a cycle
# Source: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later.
BANKS = 32

# How TMA and wgmma swizzle shared memory, on byte addresses: pieces of 16 bytes are permuted inside
# rows of 32, 64 or 128. Source: PTX ISA, "Swizzling modes" of tensor copies.
SHARED_SWIZZLES = {
    "32B": Swizzle(1, 4, 3),
    "64B": Swizzle(2, 4, 3),
    "128B": Swizzle(3, 4, 3),
}
SWIZZLED_BITS = 128  # of a piece, which those keep together


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory that indices count in. Units: bits an element; banks of 32 bits."""

    bits: int = WORD_BITS
    banks: int = BANKS

    def __post_init__(self) -> None:
        for name in ("bits", "banks"):
            if getattr(self, name) < 1:
                raise LayoutError(f"{name} = {getattr(self, name)}: give at least 1")

    def words(self, index: int) -> range:
        """Return the 32-bit words that an element lies in."""
        first = index * self.bits
        return range(first // WORD_BITS, (first + self.bits - 1) // WORD_BITS + 1)

    def banks_of(self, index: int) -> tuple[int, int]:
        """Return the first and the last bank of an element."""
        words = self.words(index)
        return words[0] % self.banks, words[-1] % self.banks

    def load(self, indices: Iterable[int]) -> tuple[int, int]:
        """Return the words of the fullest bank, and what they were if all banks shared them."""
        words = {word for index in indices for word in self.words(index)}
        counts = Counter(word % self.banks for word in words)
        return max(counts.values()), -(-len(words) // self.banks)


def shared_swizzle(name: str, bits: int) -> Swizzle:
    """Return a hardware swizzle of shared memory, "32B", "64B" or "128B", on element indices.

    >>> print(shared_swizzle("128B", 16), shared_swizzle("64B", 32))
    Sw<3,3,3> Sw<2,2,3>

    Units: bits an element.

    Raises:
        LayoutError: another name, or elements that do not fill 16 bytes by a power of two.
    """
    chosen = {key.lower(): swizzle for key, swizzle in SHARED_SWIZZLES.items()}.get(name.lower())
    if chosen is None:
        raise LayoutError(f"swizzle {name!r}: give one of {', '.join(SHARED_SWIZZLES)}")
    if bits < 1 or bits & (bits - 1) or bits > SWIZZLED_BITS:
        raise LayoutError(
            f"swizzle {name} of elements of {bits} bits: it moves pieces of {SWIZZLED_BITS} bits; "
            f"give a power of two up to {SWIZZLED_BITS}"
        )
    return Swizzle(chosen.bits, (SWIZZLED_BITS // bits).bit_length() - 1, chosen.shift)


def swizzled(layout: AnyLayout, swizzle: Swizzle) -> ComposedLayout:
    """Return the layout behind a swizzle.

    Raises:
        LayoutError: a layout that is behind one already.
    """
    if isinstance(layout, ComposedLayout):
        raise LayoutError(f"{layout} is behind a swizzle already; give the plain layout")
    return ComposedLayout(swizzle, 0, layout)

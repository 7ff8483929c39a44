"""The banks of shared memory that the indices of a layout fall into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.errors import LayoutError

# Source: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later: 32 banks,
# of which each gives one word of 32 bits a cycle.
BANKS = 32
WORD_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory that indices count in.

    Units: bits an element; banks of 32 bits.
    """

    bits: int = WORD_BITS
    banks: int = BANKS

    def __post_init__(self) -> None:
        for name in ("bits", "banks"):
            if getattr(self, name) < 1:
                raise LayoutError(f"{name} = {getattr(self, name)}: give at least 1")

    def words(self, index: int) -> range:
        """Return the 32-bit words that an element lies in.

        >>> Memory(bits=16).words(67), Memory(bits=128).words(1)
        (range(33, 34), range(4, 8))
        """
        first = index * self.bits
        return range(first // WORD_BITS, (first + self.bits - 1) // WORD_BITS + 1)

    def banks_of(self, index: int) -> tuple[int, int]:
        """Return the first and the last bank of an element.

        >>> Memory(bits=16).banks_of(67), Memory(bits=128).banks_of(1)
        ((1, 1), (4, 7))
        """
        words = self.words(index)
        return words[0] % self.banks, words[-1] % self.banks

    def load(self, indices: Iterable[int]) -> tuple[int, int]:
        """Return the words of the fullest bank, and what they were if all banks shared them.

        >>> Memory().load(range(0, 256, 32)), Memory().load(range(0, 264, 33))
        ((8, 1), (1, 1))
        """
        words = {word for index in indices for word in self.words(index)}
        counts = Counter(word % self.banks for word in words)
        return max(counts.values()), -(-len(words) // self.banks)

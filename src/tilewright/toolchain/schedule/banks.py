"""How long the register file takes to give a loop its operands.

General registers lie in two banks, the even and the odd ones, and each gives one register a cycle.
An instruction issues when the banks that it reads are no more than a cycle behind. A multiply-add
that has marked an operand `.reuse` leaves it in a cache of that operand's slot; the next one that
reads the same register there does not ask the bank.

Source: Jia et al., arXiv 1804.06826, of the banks and the cache; the rate and the cycle of lead
were measured on an H200 (benchmarks/h200_calibration.py, ffma-*).
"""

from __future__ import annotations

from collections.abc import Iterable

Reads = tuple[int, int]  # registers of the even bank and of the odd one


def issue(banks: tuple[int, int], reads: Reads) -> tuple[int, tuple[int, int]]:
    """Return the cycles until an instruction has issued, and what the banks are behind by then.

    `banks` are the cycles that each is behind when the instruction could issue at the earliest.
    """
    even, odd = banks
    late = max(even if reads[0] else 0, odd if reads[1] else 0, 1) - 1
    even, odd = max(even - late, 0) + reads[0], max(odd - late, 0) + reads[1]
    return late + 1, (max(even - 1, 0), max(odd - 1, 0))


def cycles(code: Iterable[tuple[Reads, int]]) -> int:
    """Return the cycles that one warp alone takes to issue instructions of these reads and stalls.

    An instruction's stall count holds back the one behind it.
    """
    total, banks = 0, (0, 0)
    for reads, stall in code:
        taken, (even, odd) = issue(banks, reads)
        idle = max(stall, 1) - 1
        banks = max(even - idle, 0), max(odd - idle, 0)
        total += taken + idle
    return total


def reads_of(registers: Iterable[int]) -> Reads:
    """Return how many of some registers, each counted once, lie in each bank."""
    odd = [register % 2 for register in set(registers)]
    return len(odd) - sum(odd), sum(odd)

"""Whole numbers from linear equations: how often blocks ran, from what is known of some.

Each unknown is a row of numbers, one for each kind of warp. Nearly all follow one by one from
equations with a single unknown left. What remains are loops that the compiler unrolled by a size
that it does not tell: there the widest copy of the body is taken to run as often as it can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.accesses import Integers

Unknown = Hashable
_MOST_TRIES = 64  # of counts for one unknown, from the greatest possible down
_MOST_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class _Equation:
    """Σ coefficient · unknown = right, which `votes` lines say.

    `label` tells where it comes from, None for flow.
    """

    terms: Mapping[Unknown, int]
    right: Integers
    label: int | None
    votes: int = 1


@dataclass(slots=True)
class System:
    """Equations over `width` kinds of warps. Equations that contradict are left out and noted.

    `conflicts` are the labels of those, 0 for the flow of control; `chosen` is whether some counts
    were taken as the greatest possible rather than derived.
    """

    width: int
    values: dict[Unknown, Integers] = field(default_factory=dict)
    conflicts: list[int] = field(default_factory=list)
    chosen: bool = False
    _groups: dict[frozenset[tuple[Unknown, int]], list[_Equation]] = field(default_factory=dict)
    _equations: list[_Equation] = field(default_factory=list)

    def know(self, unknown: Unknown, value: int | Integers) -> None:
        """Give an unknown."""
        self.values[unknown] = np.zeros(self.width, np.int64) + value

    def add(
        self, terms: Mapping[Any, int], right: int | Integers = 0, label: int | None = None
    ) -> None:
        """Add an equation."""
        kept = {u: c for u, c in terms.items() if c}
        equation = _Equation(kept, np.zeros(self.width, np.int64) + right, label)
        self._groups.setdefault(frozenset(kept.items()), []).append(equation)

    def propagate(self) -> None:
        """Derive what follows one unknown at a time."""
        self._take_in()
        waiting = self._equations
        changed = True
        while changed:
            changed, left = False, []
            for equation in waiting:
                missing = [u for u in equation.terms if u not in self.values]
                if len(missing) > 1 and self._all_zero(equation, missing):
                    self.values.update({u: np.zeros(self.width, np.int64) for u in missing})
                    changed = True
                elif len(missing) > 1:
                    left.append(equation)
                elif not missing:
                    self._check(equation)
                else:
                    changed |= self._derive(equation, missing[0])
            waiting = left
        self._equations = waiting

    def _take_in(self) -> None:
        """Of equations with the same left side, keep what most of them say."""
        for same in self._groups.values():
            votes = Counter(e.right.tobytes() for e in same)
            (best, count), *rest = votes.most_common()
            kept = next(e for e in same if e.right.tobytes() == best)
            if rest:
                self._conflict(*(e for e in same if e.right.tobytes() != best))
            self._equations.append(replace(kept, votes=count))
        self._groups.clear()
        # The flow of control holds; then what most lines say.
        self._equations.sort(key=lambda e: (e.label is not None, -e.votes))

    def _rest(self, equation: _Equation) -> Integers:
        known = [c * self.values[u] for u, c in equation.terms.items() if u in self.values]
        return np.asarray(equation.right - sum(known))

    def _all_zero(self, equation: _Equation, missing: list[Unknown]) -> bool:
        """Whether counts that add up, and are not negative, add up to nothing."""
        signs = {equation.terms[u] > 0 for u in missing}
        return len(signs) == 1 and not self._rest(equation).any()

    def _derive(self, equation: _Equation, unknown: Unknown) -> bool:
        rest, coefficient = self._rest(equation), equation.terms[unknown]
        value, over = np.divmod(rest, coefficient)
        if over.any() or (value < 0).any():
            self._conflict(equation)
            return False
        self.values[unknown] = value
        return True

    def _check(self, equation: _Equation) -> None:
        if self._rest(equation).any():
            self._conflict(equation)

    def _conflict(self, *equations: _Equation) -> None:
        self.conflicts += [e.label or 0 for e in equations]

    def choose(self, *, everything: bool = False) -> None:
        """Settle loops with copies of their body: the widest copy runs as often as it can.

        With `everything`, settle the flow between blocks as well, with as little of it as can be.
        """
        self.propagate()
        sizes = self._sizes(everything=everything)
        if not sizes:
            return
        rights = np.stack([self._rest(e) for e in self._equations], axis=1)
        kinds, inverse = np.unique(rights, axis=0, return_inverse=True)
        terms = [
            {u: c for u, c in e.terms.items() if u not in self.values} for e in self._equations
        ]
        found = []
        for kind in kinds.tolist():
            answer = _Search(terms, kind, sizes).solve()
            if answer is None:
                return
            found.append(answer)
        self.chosen = True
        for unknown in sizes:
            column = np.array([answer[unknown] for answer in found], np.int64)
            self.values[unknown] = column[inverse.reshape(-1)]
        self.propagate()

    def _sizes(self, *, everything: bool) -> dict[Unknown, int]:
        """Return the unknowns of the PTX's equations by largest coefficient; 0 for all others."""
        sizes: dict[Unknown, int] = {}
        for equation in self._equations:
            for unknown, coefficient in equation.terms.items():
                if unknown not in self.values and (everything or equation.label is not None):
                    size = coefficient if equation.label is not None else 0
                    sizes[unknown] = max(sizes.get(unknown, 0), size)
        return dict(sorted(sizes.items(), key=lambda item: -item[1]))


class _Search:
    """Counts for what is left for one kind of warp: the greatest of copies, the least of flow."""

    def __init__(
        self, terms: list[dict[Unknown, int]], rights: list[int], sizes: Mapping[Unknown, int]
    ) -> None:
        self.terms, self.rights, self.sizes = terms, rights, sizes
        self.steps = 0

    def solve(self) -> dict[Unknown, int] | None:
        """Return counts for the unknowns, None where there are none or the search is too long."""
        return self._search({})

    def _search(self, values: dict[Unknown, int]) -> dict[Unknown, int] | None:
        self.steps += 1
        settled = self._propagate(dict(values))
        if settled is None or self.steps > _MOST_STEPS:
            return None
        unknown = next((u for u in self.sizes if u not in settled), None)
        if unknown is None:
            return settled
        for value in self._candidates(unknown, settled):
            found = self._search({**settled, unknown: value})
            if found is not None:
                return found
        return None

    def _candidates(self, unknown: Unknown, values: Mapping[Unknown, int]) -> Iterator[int]:
        most = None
        for terms, right in zip(self.terms, self.rights, strict=True):
            if terms.get(unknown, 0) > 0 and all(c > 0 for c in terms.values()):
                rest = right - sum(c * values[u] for u, c in terms.items() if u in values)
                bound = rest // terms[unknown]
                most = bound if most is None else min(most, bound)
        top = most if most is not None else 1
        if self.sizes[unknown]:
            yield from range(top, max(top - _MOST_TRIES, -1), -1)
        else:
            yield from range(min(top, _MOST_TRIES) + 1)

    def _propagate(self, values: dict[Unknown, int]) -> dict[Unknown, int] | None:
        changed = True
        while changed:
            changed = False
            for terms, right in zip(self.terms, self.rights, strict=True):
                missing = [u for u in terms if u not in values]
                rest = right - sum(c * values[u] for u, c in terms.items() if u in values)
                if not missing and rest:
                    return None
                if len(missing) == 1:
                    value, over = divmod(rest, terms[missing[0]])
                    if over or value < 0:
                        return None
                    values[missing[0]] = value
                    changed = True
                elif missing and all(terms[u] > 0 for u in missing):
                    if rest < 0:
                        return None
                    if rest == 0:
                        values.update(dict.fromkeys(missing, 0))
                        changed = True
        return values

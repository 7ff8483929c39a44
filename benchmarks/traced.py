"""Derivatives of what numpy's functions make of numbers: reverse accumulation (cost_descent.py).

A `Traced` number or column stands in for numpy's own in any formula of the functions in _SLOPES;
of the result, `slopes` gives the derivatives by all that it was made from, in about the time of
three evaluations, however many those are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

# By its arguments, of the result and the arguments.
_SLOPES: Mapping[Any, tuple[Callable[..., Any], ...]] = {
    np.add: (lambda r, a, b: 1.0, lambda r, a, b: 1.0),
    np.subtract: (lambda r, a, b: 1.0, lambda r, a, b: -1.0),
    np.multiply: (lambda r, a, b: b, lambda r, a, b: a),
    np.divide: (lambda r, a, b: 1 / b, lambda r, a, b: -r / b),
    np.power: (lambda r, a, b: b * r / a,),
    np.square: (lambda r, a: 2 * a,),
    # A root of nothing stays nothing: what is left out of a sum has no part in it.
    np.sqrt: (lambda r, a: np.divide(0.5, r, out=np.zeros_like(r), where=r > 0),),
    np.maximum: (lambda r, a, b: (r == a) * 1.0, lambda r, a, b: (r != a) * 1.0),
    np.exp: (lambda r, a: r,),
    np.log: (lambda r, a: 1 / a,),
}


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """A value, and what it was made from with the derivatives by it."""

    __slots__ = ("made_from", "value")

    def __init__(self, value: Any, made_from: Sequence[tuple[Traced, Any]] = ()) -> None:  # noqa: ANN401
        self.value = np.asarray(value, float)
        self.made_from = made_from

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **rest: Any) -> Any:  # noqa: ANN401
        if method != "__call__" or rest or function not in _SLOPES:
            return NotImplemented
        values = [each.value if isinstance(each, Traced) else each for each in inputs]
        result = function(*values)
        by = zip(inputs, _SLOPES[function], strict=False)
        made_from = [(x, slope(result, *values)) for x, slope in by if isinstance(x, Traced)]
        return Traced(result, made_from)


def slopes(result: Traced, weight: Numbers, by: Sequence[Traced]) -> list[Numbers]:
    """Return the derivatives of the sum of `weight` times `result`."""
    found: dict[int, Any] = {id(result): weight}
    for each in _results_first(result):
        slope = found[id(each)]
        for part, factor in each.made_from:
            more = slope * factor
            if part.value.ndim == 0:
                more = np.sum(more)
            found[id(part)] = found.get(id(part), 0.0) + more
    return [np.asarray(found.get(id(each), 0.0)) for each in by]


def _results_first(result: Traced) -> list[Traced]:
    """Return all that a result was made from, each behind everything that is made from it."""
    order: list[Traced] = []
    seen: set[int] = set()
    stack = [(result, False)]
    while stack:
        each, done = stack.pop()
        if done:
            order.append(each)
        elif id(each) not in seen:
            seen.add(id(each))
            stack.append((each, True))
            stack.extend((part, False) for part, _ in each.made_from)
    return order[::-1]

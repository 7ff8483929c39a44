"""Cases of cp.async that async.cu lacks: both sides placed, zeros, and addresses that move on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from counter_cases.micro import Micro
from counter_cases.patterns import ALL, PATTERNS

_LANES = range(32)
_WIDTHS = ((4, True), (8, True), (16, True), (16, False))
# A warp takes `rows` rows of A, 32 / rows neighbouring words of each, rows `stride` words apart.
_ROWS = ((8, 4), (8, 32), (8, 33), (8, 36), (16, 2), (16, 16), (16, 15), (4, 8), (4, 64), (4, 72))
_ZEROS: Mapping[str, str] = {"ODD": "odd", "ALL": "all"}


def copy_cases() -> Iterator[Micro]:
    """Yield all of them."""
    yield from _moving()
    yield from _transposing()
    yield from _both_sides()
    yield from _zeros()
    yield from _shifted()


def _family(size: int, through_l1: bool, what: str) -> str:
    return f"copy{'' if through_l1 else '_cg'}{size}_{what}"


def _between(size: int, through_l1: bool, target: str, zeros: str = "NONE") -> str:
    return f"copy_between<{size},{str(through_l1).lower()},{target},{zeros}>"


def _moving() -> Iterator[Micro]:
    """Each repetition has addresses of its own, as in a kernel: no sector is asked for again."""
    for size, through_l1 in _WIDTHS:
        for name in ("unit", "stride2", "uniform", "pairs1"):
            yield Micro(
                name=f"{_family(size, through_l1, 'moving')}/{name}",
                file="copies.cu",
                kernel=_between(size, through_l1, "DENSE"),
                index=PATTERNS[name].index,
                unit=PATTERNS[name].unit * size,
                mask=PATTERNS[name].mask,
                step=2 * 32 * size,
            )


def _transposing() -> Iterator[Micro]:
    """Words of rows of A go to the columns of its tile; the target's passes alone are one."""
    for rows, stride in _ROWS:
        columns = 32 // rows
        for target in ("TRANSPOSED", "DENSE"):
            yield Micro(
                name=f"{_family(4, True, target.lower())}/rows{rows}x{stride}",
                file="copies.cu",
                kernel=_between(4, True, target),
                index=tuple(t // columns * stride + t % columns for t in _LANES),
                unit=4,
            )


def _both_sides() -> Iterator[Micro]:
    """Both sides conflict: the target lies as the source does, or the other way round."""
    for size, through_l1 in _WIDTHS:
        for name in ("stride2", "stride8", "stride32", "uniform", "pairs1", "halves", "shuffled"):
            for target in ("PLACED", "REVERSED"):
                yield Micro(
                    name=f"{_family(size, through_l1, target.lower())}/{name}",
                    file="copies.cu",
                    kernel=_between(size, through_l1, target),
                    index=PATTERNS[name].index,
                    unit=PATTERNS[name].unit * size,
                    mask=ALL,
                )


def _zeros() -> Iterator[Micro]:
    """Lanes that read nothing: every other one, or all."""
    for size, through_l1 in _WIDTHS:
        for zeros, what in _ZEROS.items():
            for name in ("unit", "stride8"):
                yield Micro(
                    name=f"{_family(size, through_l1, f'zeros_{what}')}/{name}",
                    file="copies.cu",
                    kernel=_between(size, through_l1, "DENSE", zeros),
                    index=PATTERNS[name].index,
                    unit=PATTERNS[name].unit * size,
                )


def _shifted() -> Iterator[Micro]:
    """Dense sources that begin off their target's place within a sector or line."""
    for size, through_l1 in _WIDTHS:
        for start in (size, 32, 64, 96, 128):
            yield Micro(
                name=f"{_family(size, through_l1, 'shifted')}/start{start}",
                file="copies.cu",
                kernel=_between(size, through_l1, "DENSE"),
                index=tuple(_LANES),
                unit=size,
                start=start,
            )

"""Cases of cp.async that async.cu lacks: both sides placed, zeros, and addresses that move on.

`copy_cases` are those that the rules were made from, `further_cases` what tests these rules, and
what they leave open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from counter_cases.micro import Micro
from counter_cases.patterns import ALL, EVEN, PATTERNS

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


def further_cases() -> Iterator[Micro]:
    """Yield swizzles around L1, zeros around L1, and different conflicts on both sides."""
    for name, index in _swizzles().items():
        yield _around(f"swizzled/{name}", index)
    for name in ("eor5", "rotated3", "random1"):
        yield _around(f"swizzled/{name}_even", _swizzles()[name], mask=EVEN)
    for zeros in ("ODD", "LOW", "LAST"):
        for name in ("random1", "rows4x5", "unit", "stride8"):
            index = _swizzles().get(name) or tuple(PATTERNS[name].offsets(1))
            yield _around(f"zeros_{zeros.lower()}_of/{name}", index, zeros)
    for size in (4, 8, 16):
        for zeros, names in (
            ("NONE", ("unit", "stride4", "stride3", "pairs1", "shuffled")),
            ("ODD", ("unit", "stride4")),
            ("LOW", ("unit", "stride4")),
        ):
            for name in names:
                yield Micro(
                    name=f"{_family(size, True, f'strided_{zeros.lower()}')}/{name}",
                    file="copies.cu",
                    kernel=_between(size, True, "STRIDED", zeros),
                    index=PATTERNS[name].index,
                    unit=PATTERNS[name].unit * size,
                )


def _around(name: str, index: tuple[int, ...], zeros: str = "NONE", mask: int = ALL) -> Micro:
    kernel = _between(16, False, "DENSE", zeros)
    return Micro(
        name=f"copy_cg16_{name}", file="copies.cu", kernel=kernel, index=index, unit=16, mask=mask
    )


def _swizzles() -> dict[str, tuple[int, ...]]:
    """Which 16 bytes of the source each lane takes; eight lanes are a line of the target."""
    found = {f"eor{bits}": tuple(t ^ bits for t in _LANES) for bits in range(1, 7)}
    for by in (1, 2, 3):
        found[f"rotated{by}"] = tuple(t & ~7 | (t + by) & 7 for t in _LANES)
    for seed in (1, 2, 3):
        lanes = np.random.default_rng(seed).permutation(32)
        found[f"random{seed}"] = tuple(int(t) for t in lanes)
    inside = np.random.default_rng(4).permuted(np.arange(32).reshape(4, 8), axis=1)
    found["random_lines"] = tuple(int(t) for t in inside.reshape(-1))
    for lanes_a_row, stride in ((4, 5), (4, 8), (2, 3)):
        rows = tuple(t // lanes_a_row * stride + t % lanes_a_row for t in _LANES)
        found[f"rows{lanes_a_row}x{stride}"] = rows
    found["pairs2"] = tuple(PATTERNS["pairs2"].index)
    found["quads"] = tuple(PATTERNS["quads"].index)
    return found

"""Paths simulated together give what each gives alone, to the last bit."""

import itertools
from collections.abc import Sequence

import pytest
from small_programs import END, H200, operation

from tilewright.model.operations import Operation
from tilewright.model.sm import Sm
from tilewright.model.together import Ways, simulate_ways
from tilewright.model.traffic import Hit, Hits

START = [operation("special", write_barrier=0), operation("imad", wait=1, stall=4)]
PLAIN = [operation(reads=(2, 1)), operation(reads=(1, 2)), operation()]
SHARED = [
    operation("shared", wavefronts=3.0, write_barrier=1),
    operation("shared", size=16, wavefronts=4.0, write_barrier=2, share=0.7),
    operation(wait=2, reads=(2, 1)),
    *[operation(reads=(1 + n % 2, 1)) for n in range(80)],  # longer than a span
    operation("alu", wait=4, stall=2),
    operation("barrier"),
    operation("branch", stall=5),
]
GLOBAL = [
    operation("global", lines=2.0, write_barrier=3, share=0.9),
    operation("imad", stall=2),
    operation("xu", write_barrier=4, wait=8),
    operation("global", load=False, read_barrier=5, wait=16),
    operation("branch", stall=5, wait=32),
]
HIT = Hit(missing=0.6, pending=0.3, sectors=3.0, dram=0.5)


def program(*parts: Sequence[Operation]) -> list[Operation]:
    return [
        Operation(**{f: getattr(op, f) for f in op.__slots__} | {"index": n})
        for n, op in enumerate(itertools.chain(*parts))
    ]


PARTS = (START, PLAIN, SHARED, GLOBAL, [END])
CODE = program(*PARTS)
_ENDS = [0, *itertools.accumulate(map(len, PARTS))]
START_, PLAIN_, SHARED_, GLOBAL_, END_ = (tuple(range(a, b)) for a, b in itertools.pairwise(_ENDS))
HITS = Hits(by_index={index: HIT for index in GLOBAL_})


def path(shared: int, far: int, plain: int = 0) -> Ways:
    """The path that takes the loops so many times."""
    return (START_ + PLAIN_ * plain + SHARED_ * shared + GLOBAL_ * far + END_,)


def start(blocks: int, way: Ways) -> Sm:
    return Sm(H200, CODE, way, HITS, blocks=blocks, warps_per_block=6, sms=132)


@pytest.mark.parametrize("blocks", [1, 4])
@pytest.mark.parametrize(
    "trips",
    [
        [(3, 5)],
        [(2, 40), (6, 40), (12, 40)],
        [(4, 20), (4, 60), (9, 20), (2, 6), (2, 20), (4, 6)],
        [(1, 2), (1, 3), (1, 4)],  # parting within a span of the end
        [(0, 9), (1, 9)],
        [(1, 9, 3), (1, 9, 30), (2, 9, 30), (1, 9, 31)],  # parting within a span
    ],
)
def test_paths_together_are_as_each_alone(blocks: int, trips: list[tuple[int, ...]]) -> None:
    paths = [path(*each) for each in trips]
    found = simulate_ways([*paths, paths[0]], lambda way: start(blocks, way))
    assert set(found) == set(paths)
    for way in paths:
        assert found[way] == start(blocks, way).run()


def test_warps_that_go_their_own_ways_are_as_alone() -> None:
    """Blocks of six warps, every second on the other path; what parts first decides."""
    (far,), (near,) = path(2, 40), path(6, 3)
    (other,) = path(1, 3)
    ways = [(far, near), (far, other), (near, far), (far[:-4] + END_, near)]
    found = simulate_ways(ways, lambda way: start(2, way))
    for way in ways:
        assert found[way] == start(2, way).run()


def test_what_is_common_is_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    whole = Sm._step

    def counted(*args: object) -> float:
        nonlocal steps
        steps += 1
        return whole(*args)

    monkeypatch.setattr(Sm, "_step", counted)
    short, long = path(10, 4), path(10, 40)
    start(2, long).run()
    alone, steps = steps, 0
    simulate_ways([short, long], lambda way: start(2, way))
    assert steps < 1.2 * alone

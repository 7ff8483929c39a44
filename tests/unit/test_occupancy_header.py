"""Occupancy against NVIDIA's own cuda_occupancy.h: every limit, and the verdict "cannot run"."""

import numpy as np
import pytest
from occupancy_oracle import Case, Oracle, build_oracle

from tilewright.errors import LaunchError
from tilewright.gpus import LIMITS, Limits

MODERN = [limits for cc, limits in LIMITS.items() if cc >= (7, 0)]
FACTORS = {"warps": 1, "registers": 2, "shared": 4, "blocks": 8}
UNLIMITED = 2**31 - 1


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return build_oracle(tmp_path_factory.mktemp("occupancy"))


def fuzz(count: int, seed: int) -> list[Case]:
    """Random cases, half of them on or one beside a limit or an allocation step."""
    rng = np.random.default_rng(seed)

    def near(edges: list[int], most: int) -> int:
        if rng.random() < 0.5:
            return int(rng.integers(0, most + 1))
        return int(np.clip(rng.choice(edges) + rng.integers(-1, 2), 0, most))

    cases = []
    for _ in range(count):
        own = MODERN[rng.integers(len(MODERN))]
        top = own.shared_bytes_per_block_max
        steps = [0, 47 * 1024, 48 * 1024, top, *own.carveouts]
        steps += [own.shared_bytes // n - own.shared_bytes_reserved for n in range(1, 33)]
        cases.append(
            Case(
                limits=own,
                threads=max(1, near([*range(32, 1025, 32)], 1056)),
                registers=max(1, near([*range(8, 256, 8)], 255)),
                static=near([0, 16384, 32768, 48 * 1024], 48 * 1024),
                dynamic=near(steps, top + 300),
                carveout=None if rng.random() < 0.5 else near([0, 50, 100], 100),
            )
        )
        if rng.random() < 0.5:
            cases[-1] = cases[-1]._replace(static=0)
    return cases


def test_nvidias_header_agrees_on_thousands_of_cases(oracle: Oracle) -> None:
    cases = fuzz(12_000, seed=20080)
    verdicts = oracle(cases)
    assert len(verdicts) == len(cases)
    refused = 0
    for case, theirs in zip(cases, verdicts, strict=True):
        assert theirs.status == 0, case
        if theirs.blocks == 0:
            refused += 1
            with pytest.raises(LaunchError):
                case.ours()
            continue
        ours = case.ours()
        assert ours.active_blocks == theirs.blocks, case
        limits = [ours.limits[r] for r in ("warps", "blocks", "registers", "shared")]
        assert [UNLIMITED if n is None else n for n in limits] == list(theirs[3:7]), case
        # 16 is the barriers': one a block, as here, never allows fewer blocks than an SM holds.
        assert sum(FACTORS[r] for r in ours.limiters) == theirs.factors & ~16, case
        assert ours.registers_per_block == theirs.registers_per_block, case
        assert ours.shared_bytes_per_block == theirs.shared_per_block, case
    assert 0.1 < refused / len(cases) < 0.9, "the fuzz must reach both verdicts"
    assert {c.limits.compute_capability for c in cases} == {m.compute_capability for m in MODERN}


@pytest.mark.parametrize("own", MODERN, ids=lambda m: f"cc{m.compute_capability}")
def test_the_header_takes_the_documented_most_shared_memory(own: Limits, oracle: Oracle) -> None:
    """At 64, 96, 99, 163 or 227 KB one block fits, one byte more and none does, in both."""
    most = own.shared_bytes_per_block_max
    fits, exceeds = (Case(own, 256, 32, 0, d, None) for d in (most, most + 1))
    assert [v.blocks for v in oracle([fits, exceeds])] == [1, 0]
    assert fits.ours().active_blocks == 1
    with pytest.raises(LaunchError, match=rf"at most {most} bytes a block.*1 bytes smaller"):
        exceeds.ours()


def test_where_the_header_is_laxer_than_the_documents(oracle: Oracle) -> None:
    """256 registers a thread, and static shared memory above 48 KB: no compiler emits either."""
    h200 = LIMITS[9, 0]
    registers, static = Case(h200, 32, 256, 0, 0, None), Case(h200, 32, 32, 49153, 0, None)
    assert all(v.blocks > 0 for v in oracle([registers, static]))
    with pytest.raises(LaunchError, match=r"registers 256: .*from 1 to 255"):
        registers.ours()
    with pytest.raises(LaunchError, match="static shared memory is at most 49152"):
        static.ours()

"""Little's law by hand, and the mean latency of a program counted by hand."""

import pytest

from model.small_programs import function, profile
from tilewright.gpus import gpu
from tilewright.model.profile import AccessCounts
from tilewright.model.traffic import Hit, Hits
from tilewright.model.whatif import Case
from tilewright.study.little import Little, in_flight, mean_latency, warps_needed
from tilewright.toolchain.control import Control
from tilewright.toolchain.sass_flow import flow


def test_volkovs_numbers() -> None:
    # GTC 2010: a GTX 480 finishes a warp's 32 operations a cycle after 18 cycles; an 8800 GTX, at 8
    # lanes, a warp every four cycles after 24.
    assert in_flight(1.0, 18) == 18
    assert warps_needed(18, 3) == 6
    assert warps_needed(in_flight(0.25, 24), 1) == 6


def test_a_rate_of_few_warps_says_what_each_has_in_flight() -> None:
    # Four warps issue an instruction a cycle, each after 12 cycles: 12 in flight, three a warp. So
    # a rate of 2.5 takes 30 in flight, and ten warps.
    law = Little(rate=2.5, few_rate=1.0, few_warps=4, latency=12.0)
    assert (law.each, law.in_flight, law.warps) == (3.0, 30.0, 10.0)
    assert Little.from_json(law.to_json()) == law
    # Whatever the latency is: it says how many are in flight, not how many warps it takes.
    assert Little(rate=2.5, few_rate=1.0, few_warps=4, latency=99.0).warps == pytest.approx(10)


def test_mean_latency_by_hand() -> None:
    code = function(
        "LDS R0, [R2]", "LDG.E R1, desc[UR4][R2.64]", "FFMA R3, R0, R1, R3", "FFMA R3, R0, R1, R3"
    )

    def access(space: str) -> AccessCounts:
        return AccessCounts(
            space=space, way="load", size=4, requests=1, sectors=4, lines=1, wavefronts=1, ideal=4
        )

    counted = profile(code, [1, 1, 1, 5], accesses={0: access("shared"), 1: access("global")})
    plain = Control(stall=1, write_barrier=0, read_barrier=None, wait=0, reuse=0)
    case = Case(
        profile=counted,
        flow=flow(code),
        control={each.address: plain for each in code.instructions},
        gpu=gpu("H200"),
        # Half of the loads hit; of the rest a quarter comes from the DRAM.
        hits=Hits(by_index={1: Hit(missing=0.5, pending=0.0, sectors=4.0, dram=0.25)}),
    )
    # The calibration's cycles: shared 24, L1 33, L2 292, DRAM 699; a multiply-add 4.
    load = 0.5 * 33 + 0.5 * (0.75 * 292 + 0.25 * 699)
    assert mean_latency(case) == pytest.approx((24 + load + 6 * 4) / 8)

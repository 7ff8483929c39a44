"""The simulated SM runs the probes of the calibration, and takes the cycles that an H200 took.

Each probe is compiled, counted on the CPU and simulated whole; the cycles of an instruction are the
difference between nine rounds of its loop and three.
"""

from dataclasses import replace

import h200_calibration
import numpy as np
import pytest
from calibration import measured
from calibration_probes import PROBES, UNROLL, Probe
from small_programs import H200

from tilewright.bench.profiling import profile_kernel
from tilewright.launch import Launch
from tilewright.model.operations import operations
from tilewright.model.path import typical_path
from tilewright.model.sm import Sm
from tilewright.model.traffic import Hits
from tilewright.model.widths import images
from tilewright.toolchain import Artifact, compile_cuda
from tilewright.toolchain.control import control_codes

ROUNDS = 12


def probe(name: str) -> Probe:
    return next(each for each in PROBES if each.name == name)


def simulated(each: Probe, artifact: Artifact, warps: int, steps: int) -> float:
    """Cycles a warp-level instruction of a probe, `steps` of which are in a round."""
    clocks, data = np.zeros(64 * warps, np.int64), np.zeros(1 << 22, np.uint8)
    steps_of_addresses = [np.int32(n) for n in (each.lane_step, each.warp_step, 0)]
    args = [clocks, data, *steps_of_addresses, np.int32(ROUNDS), np.int32(0)]
    profile = profile_kernel(artifact, Launch(grid=1, block=32 * warps), args)
    flow = images(artifact).flow
    code = operations(profile, control_codes(artifact))

    def inside(blocks: frozenset[int]) -> int:
        spans = (flow.cfg.blocks[b] for b in blocks)
        opcodes = [
            profile.counted[i].instruction.opcode for s in spans for i in range(s.start, s.end)
        ]
        return opcodes.count(each.opcode)

    header = max(flow.cfg.loops, key=lambda loop: inside(loop.blocks)).header

    def run(rounds: int) -> float:
        path = typical_path(profile, flow, {header: rounds}, 10**6)
        sm = Sm(H200, code, [path], Hits(), blocks=1, warps_per_block=warps, sms=1)
        return sm.run().cycles

    return (run(9) - run(3)) / (6 * steps * warps)


@pytest.mark.parametrize(
    ("name", "warps", "tolerance"),
    [
        ("chain-bar", 32, 0.03),  # 2.4
        ("stream-lds32-unit", 16, 0.07),  # 1.0
        ("stream-lds64-unit", 16, 0.05),  # 2.0
        ("stream-lds128-unit", 16, 0.03),  # 4.0
        # One partition's way: two cycles a pass, and a register that is written.
        ("stream-lds32-four-way", 1, 0.05),  # 10.4
        ("stream-lds128-two-way", 1, 0.05),  # 18.6
        ("stream-lds128-uniform", 1, 0.05),  # 10.2
        ("stream-lds128-uniform", 8, 0.07),  # 2.1
        ("stream-ldg32-l1-column4096", 8, 0.01),  # 32: all lines in one set of tags
        ("stream-ldg32-l1-column4092", 8, 0.05),  # 9.5
    ],
)
def test_a_probe_takes_the_cycles_that_were_measured(
    name: str, warps: int, tolerance: float
) -> None:
    each = probe(name)
    artifact = compile_cuda(each.source(), each.kernel, arch="sm_90")
    found = simulated(each, artifact, warps, UNROLL)
    assert found == pytest.approx(measured()[name][str(warps)], rel=tolerance)


@pytest.mark.parametrize(
    ("choice", "cycles"),
    # Worked out from two banks that give a register a cycle: those that two FFMAs read, halved.
    [
        ("a-and-b-fixed-and-reused", 1.0),
        ("a-and-b-fixed", 1.5),
        ("distinct-a-and-b-in-one-bank", 2.0),
        ("distinct-in-one-bank", 3.0),
    ],
)
def test_ffmas_wait_for_their_register_banks(choice: str, cycles: float) -> None:
    plain = compile_cuda(h200_calibration.FFMA, "ffma_registers", arch="sm_90")
    choose = h200_calibration.REGISTERS[choice]
    artifact = replace(plain, cubin=h200_calibration.with_registers(plain, choose))
    each = Probe(name=f"ffma-{choice}", opcode="FFMA", step="", rounds=ROUNDS)
    found = 4 * simulated(each, artifact, 4, 256)
    assert found == pytest.approx(cycles, rel=0.04)
    assert found == pytest.approx(4 * measured()[each.name]["4"], rel=0.03)

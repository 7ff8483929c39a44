"""Scheduled loops, followed with numbers: they give what ptxas's loops give.

This is not the proof's way: registers hold random numbers, a load gives a hash of its address and
of the barriers before it, everything else a hash of what it reads. Both loops run for some turns.
"""

import hashlib
import random
from dataclasses import replace

import pytest

from tilewright.errors import UnsupportedError
from tilewright.toolchain import Artifact, compile_cuda, disassemble, resources
from tilewright.toolchain.control import control_codes
from tilewright.toolchain.sass import SassInstruction
from tilewright.toolchain.schedule import Scheduled, Style, schedule_main_loop
from tilewright.toolchain.schedule.code import read_code
from tilewright.toolchain.schedule.liveness import live_around
from tilewright.toolchain.schedule.operands import operands
from toolchain.schedule.tiled_kernels import compiled, scheduled


@pytest.fixture(scope="module")
def plain() -> Artifact:
    return compiled("8x8")


@pytest.fixture(scope="module")
def result() -> Scheduled:
    return scheduled("8x8")


PRIME = (1 << 61) - 1


def hashed(*parts: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=7).digest()) % PRIME


class Machine:
    """Registers with random numbers in them, and what the code has done to the outside."""

    def __init__(self) -> None:
        self.registers: dict[str, int] = {}
        self.outside: list[int] = []
        self.barriers = 0

    def read(self, name: str) -> int:
        return self.registers.setdefault(name, random.Random(name).randrange(PRIME))

    def step(self, ins: SassInstruction) -> None:
        ops = operands(ins)
        values = [self.read(name) for name in ops.reads]
        if ins.predicate in ("!PT", "!UPT"):
            return
        guard = None if ops.predicate is None else self.read(ops.predicate) % 2
        if guard == (0 if ins.predicate and ins.predicate[0] != "!" else 1):
            return
        if ins.opcode == "FFMA":
            a, b, c = values
            self.registers[ops.writes[0]] = (a * b + c) % PRIME
            return
        self.barriers += ins.opcode in ("BAR", "DEPBAR")
        name = hashed(ops.template, *values)
        if ins.opcode == "LDS":
            name = hashed(name, self.barriers)
        if not ops.writes:
            self.outside.append(name)
        for part, register in enumerate(ops.writes):
            self.registers[register] = hashed(name, part)


def turns(artifact: Artifact, start: int, end: int, count: int) -> Machine:
    code = disassemble(artifact).functions[artifact.symbol].instructions[start:end]
    machine = Machine()
    for _ in range(count):
        for ins in code[:-1]:
            machine.step(ins)
    return machine


@pytest.mark.parametrize(("name", "layout"), [("8x8", "nn"), ("16x8", "nt"), ("4x8", "nt")])
def test_numbers_come_out_the_same(name: str, layout: str) -> None:
    plain, new = compiled(name, layout), scheduled(name, layout).artifact
    code = read_code(plain)
    _, behind = live_around(code)
    one, two = (turns(each, code.start, code.end, 3) for each in (plain, new))
    assert one.outside == two.outside
    assert len(behind) > 16
    assert {r: one.read(r) for r in behind} == {r: two.read(r) for r in behind}


def test_the_numbers_see_a_wrong_register(plain: Artifact, result: Scheduled) -> None:
    code = read_code(plain)
    _, behind = live_around(code)
    one = turns(plain, code.start, code.end, 3)
    ffma = next(line for line in code.loop if line.ins.opcode == "FFMA")
    at = result.artifact.cubin.find(read_code(result.artifact).loop[9].word.to_bytes(16, "little"))
    cubin = bytearray(result.artifact.cubin)
    cubin[at + 3] ^= 1  # operand a
    two = turns(replace(result.artifact, cubin=bytes(cubin)), code.start, code.end, 3)
    assert ffma is not None
    assert {r: one.read(r) for r in behind} != {r: two.read(r) for r in behind}


def test_the_report(plain: Artifact, result: Scheduled) -> None:
    report = result.report
    assert report.ffmas == 8 * 8 * 8
    assert report.registers_before == resources(plain).registers
    assert report.registers_after == resources(result.artifact).registers
    assert report.ffmas < report.instructions <= report.cycles_after < report.cycles_before
    assert result.artifact.ptx == plain.ptx


@pytest.mark.parametrize(
    ("name", "layout"), [("8x8", "nn"), ("8x16", "nn"), ("4x4", "nn"), ("16x8", "nt")]
)
def test_a_loop_takes_few_cycles_more_than_instructions(name: str, layout: str) -> None:
    report = scheduled(name, layout).report
    ours = report.cycles_after / report.instructions
    assert report.cycles_after < report.cycles_before
    assert ours < (1.06 if report.ffmas > 512 else 1.2)


@pytest.mark.parametrize(("name", "layout"), [("8x8", "nn"), ("16x8", "nt")])
def test_all_but_the_first_pair_of_a_step_keep_an_operand(name: str, layout: str) -> None:
    artifact = scheduled(name, layout).artifact
    control = control_codes(artifact)
    loop = [line for line in read_code(artifact).loop if line.ins.opcode == "FFMA"]
    kept = sum(control[line.ins.address].reuse > 0 for line in loop)
    assert kept >= len(loop) - 8 * 3  # no more than two jumps in a step of the order


def test_registers_never_cost_a_block(result: Scheduled) -> None:
    """As many blocks of 8 warps fit as before; 65536 registers, 256 at a time for a warp."""

    def blocks(registers: int) -> int:
        return 65536 // 8 // (-(-registers // 8) * 256)

    assert blocks(result.report.registers_after) == blocks(result.report.registers_before)


@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize("name", ["8x8", "4x8"])
def test_the_last_two_registers_declared_are_not_named(name: str, layout: str) -> None:
    """An H200 stopped kernels that named them with an illegal instruction."""
    artifact = scheduled(name, layout).artifact
    named = {
        int(register[1:])
        for line in read_code(artifact).loop
        for register in (*line.ops.all_reads, *line.ops.writes)
        if register.startswith("R")
    }
    assert max(named) < resources(artifact).registers - 2


def test_styles_make_other_schedules_of_the_same(plain: Artifact, result: Scheduled) -> None:
    for style in (Style(across="none"), Style(order="rows", first_load=8, barrier=4)):
        other = schedule_main_loop(plain, style)
        assert other.artifact.cubin != result.artifact.cubin
        assert other.report.ffmas == result.report.ffmas


def test_it_is_the_same_every_time(plain: Artifact, result: Scheduled) -> None:
    assert schedule_main_loop(plain) == result


def test_a_scheduled_loop_is_taken_for_input_like_any(result: Scheduled) -> None:
    again = schedule_main_loop(result.artifact)
    assert again.report.cycles_before == result.report.cycles_after


def test_another_architecture_is_refused(plain: Artifact) -> None:
    with pytest.raises(UnsupportedError, match=r"compiled for sm_80.*sm_90 alone"):
        schedule_main_loop(replace(plain, arch="sm_80"))


SOURCE = r"""
extern "C" __global__ void k(float* d, int n) {{
  __shared__ __align__(16) float s[4096];
  float acc[4][4] = {{}};
  for (int i = threadIdx.x; i < 4096; i += 32) s[i] = d[i];
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < n; ++i) {{
    {body}
  }}
  for (int i = 0; i < 16; ++i) d[i * 32 + threadIdx.x] = acc[i / 4][i % 4];
}}
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("acc[0][0] = s[i] * s[i + 1] + acc[0][0];", "must be an LDS.128 that always runs"),
        ("acc[0][0] = fmaf(d[i], d[i + 1], acc[0][0]);", "LDG.*is not understood"),
        ("for (int j = 0; j < i; ++j) d[j] = j; acc[0][0] = fmaf(s[i], 2, acc[0][0]);", "no loop"),
    ],
)
def test_what_is_not_understood_is_refused(body: str, reason: str) -> None:
    artifact = compile_cuda(SOURCE.format(body=body), "k")
    with pytest.raises(UnsupportedError, match=reason):
        schedule_main_loop(artifact)

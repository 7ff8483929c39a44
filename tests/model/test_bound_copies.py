"""cp.async on the machine code: LDGSTS has a global side and a shared one."""

import numpy as np
import pytest

from tilewright.bench.profiling import profile_kernel
from tilewright.launch import Launch
from tilewright.model.operations import operations
from tilewright.model.profile import Counted, Profile
from tilewright.model.summary import summarize
from tilewright.toolchain import compile_cuda
from tilewright.toolchain.control import control_codes

CODE = """extern "C" __global__ void k(const char* x, float* y) {{
  __shared__ __align__(128) char tile[1024];
  const int t = threadIdx.x;
  float sum = 0.0f;
#pragma unroll 1
  for (int i = 0; i < 5; ++i) {{
    asm volatile("cp.async.{way}.shared.global [%0], [%1], {size}, %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(tile) + {to}),
                    "l"(__cvta_generic_to_global(x) + {start} + 2048 * i), "r"({valid}) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    sum += reinterpret_cast<float*>(tile)[t ^ 1];
    __syncthreads();
  }}
  y[t] = sum;
}}"""


def profile(
    way: str = "ca", size: int = 4, to: str = "4 * t", start: str = "4 * t", valid: str = ""
) -> Profile:
    code = CODE.format(way=way, size=size, to=to, start=start, valid=valid or size)
    args = [np.zeros(5 * 2048, np.uint8), np.zeros(64, np.float32)]
    return profile_kernel(compile_cuda(code, "k", arch="sm_90"), Launch(grid=3, block=64), args)


def the_copy(found: Profile) -> Counted:
    (copy,) = (c for c in found.counted if c.instruction.opcode == "LDGSTS")
    return copy


def test_a_copy_reads_global_and_writes_shared_memory() -> None:
    found = profile()
    copy = the_copy(found)
    # Three blocks of two warps, five turns: 128 bytes each time, one pass.
    assert copy.executed == 30
    assert copy.threads == 960
    assert copy.access is not None
    assert copy.beside is not None
    far, near = copy.access, copy.beside
    assert (far.space, far.way, far.size) == ("global", "load", 4)
    assert (far.requests, far.sectors, far.lines, far.ideal) == (30, 120, 30, 120)
    assert (near.space, near.way, near.size) == ("shared", "copy", 4)
    assert (near.requests, near.sectors, near.wavefronts, near.ideal) == (30, 0, 30, 30)
    assert found.provenance == {"executed": "exact", "global": "exact", "shared": "exact"}
    assert found.gaps == ()


def test_the_counters_of_a_copy_have_the_profilers_names() -> None:
    figures = {f.name: (f.value, f.metric) for f in summarize(profile()).counters}
    assert figures["global load requests"][0] == 30
    assert figures["global load sectors"][0] == 120
    assert figures["shared copy requests"] == (30, "smsp__inst_executed_op_ldgsts.sum")
    assert figures["shared copy wavefronts"] == (30, None)
    # Its own 30 and the 30 of the loads behind it.
    assert figures["shared wavefronts"] == (60, "memory_l1_wavefronts_shared")
    assert "shared store wavefronts" not in figures


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        ({"way": "cg", "size": 16, "to": "16 * (t % 32)", "start": "16 * t"}, 4 * 30),
        ({"way": "cg", "size": 16, "to": "16 * (t % 32 ^ 7)", "start": "16 * t"}, 4 * 30),
        ({"valid": "t % 2 ? 0 : 4"}, 30),
        ({"to": "8 * t", "start": "8 * t"}, 2 * 30),
        # Zeros count among the targets: a quarter of the warp each.
        (
            {
                "way": "cg",
                "size": 16,
                "to": "16 * (t % 32)",
                "start": "16 * t",
                "valid": "t % 2 ? 0 : 16",
            },
            4 * 30,
        ),
        ({"to": "8 * t", "valid": "t % 2 ? 0 : 4"}, 2 * 30),
        ({"to": "8 * t", "start": "16 * t"}, 4 * 30),
    ],
)
def test_what_was_read_is_exact(given: dict[str, object], passes: int) -> None:
    found = profile(**given)
    beside = the_copy(found).beside
    assert beside is not None
    assert beside.wavefronts == passes
    assert found.provenance == {"executed": "exact", "global": "exact", "shared": "exact"}
    assert found.gaps == ()


@pytest.mark.parametrize(
    ("given", "passes"),
    [
        (
            {
                "way": "cg",
                "size": 16,
                "to": "16 * (t % 32)",
                "start": "16 * t",
                "valid": "t < 0 ? 16 : 0",
            },
            4 * 30,
        ),
        ({"size": 8, "to": "16 * t", "start": "32 * t", "valid": "8"}, 8 * 30),
    ],
)
def test_what_no_reading_settles_is_derived(given: dict[str, object], passes: int) -> None:
    """Which sectors and lines are read is settled all the same."""
    found = profile(**given)
    beside = the_copy(found).beside
    assert beside is not None
    assert beside.wavefronts == passes
    assert found.provenance == {"executed": "exact", "global": "exact", "shared": "derived"}
    (gap,) = found.gaps
    assert gap.startswith("cp.async around L1 that fills with zeros alone, or wide through it with")


def test_the_simulated_sm_takes_the_longer_side() -> None:
    """Targets in one bank: 32 passes, though the source is one line."""
    code = CODE.format(way="ca", size=4, to="t % 8 * 128", start="4 * t", valid=4)
    artifact = compile_cuda(code, "k", arch="sm_90")
    args = [np.zeros(5 * 2048, np.uint8), np.zeros(64, np.float32)]
    found = profile_kernel(artifact, Launch(grid=1, block=64), args)
    index = next(n for n, c in enumerate(found.counted) if c.instruction.opcode == "LDGSTS")
    operation = operations(found, control_codes(artifact))[index]
    assert (operation.pipe, operation.load) == ("global", True)
    assert (operation.wavefronts, operation.lines) == (32, 1)

"""The probes of h200_calibration.py: what each runs between two readings of the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

UNROLL = 16  # steps in one round of a probe's loop

# What the asm gives is used at the end, and `zero` is known to the caller alone: so ptxas keeps
# every instruction. `near` is a lane's address in shared memory, `far` in global memory.
_KERNEL = """
extern "C" __global__ void {name}(long long* clocks, char* data, int lane_step,
                                  int warp_step, int block_step, int rounds, int zero)
{{
  constexpr long long step = {step_bytes};
  __shared__ alignas(16) char smem[32768];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = threadIdx.x * 4; i < 32768; i += blockDim.x * 4) *(int*)(smem + i) = 0;
  unsigned near = (unsigned)__cvta_generic_to_shared(smem) + lane * lane_step + warp * warp_step;
  char* far = data + (long long)lane * lane_step + (long long)warp * warp_step +
              (long long)blockIdx.x * block_step;
  int g = lane, sink = near;
  {setup}
  __syncthreads();
  const long long begin = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) {{
#pragma unroll
    for (int i = 0; i < {unroll}; ++i) {{
      {step}
    }}
    {each_round}
    near += zero;  // so that no load is the same in every round
    far += zero;
  }}
  const long long end = clock64();
  {use}
  if (sink == 0x7fffffff) clocks[0] = sink;
  const long long thread = blockIdx.x * blockDim.x + threadIdx.x;
  clocks[2 * thread] = begin;
  clocks[2 * thread + 1] = end;
}}
"""

_FLOATS = "float f[8]; for (int j = 0; j < 8; ++j) f[j] = lane + j; float h = lane * 3.f;"
_INTS = "int f[8]; for (int j = 0; j < 8; ++j) f[j] = lane + j;"
_USE = "for (int j = 0; j < 8; ++j) sink ^= (int)f[j];"
_USE_BOTH = "for (int j = 0; j < 8; ++j) sink ^= (int)f[j] ^ k[j];"
_KIND = {32: "u32", 64: "v2.u32", 128: "v4.u32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One kernel and how it is launched.

    Units: `lane_step`, `step`, `warp_step`, `block_step` bytes; `fresh` how far
    a repeat starts behind the one before; `blocks` 0 for one an SM.
    """

    name: str
    opcode: str
    step: str
    setup: str = ""
    use: str = ""
    each_round: str = ""
    lane_step: int = 0
    step_bytes: int = 0
    warp_step: int = 0
    block_step: int = 0
    warps: tuple[int, ...] = (1,)
    blocks: int = 1
    rounds: int = 64
    fresh: int = 0

    def source(self) -> str:
        """Return the CUDA C++ of the probe."""
        return _KERNEL.format(name=self.kernel, setup=self.setup, step=self.step,
                              use=self.use, each_round=self.each_round, unroll=UNROLL,
                              step_bytes=self.step_bytes)  # fmt: skip

    @property
    def kernel(self) -> str:
        """Return its name as an identifier."""
        return self.name.replace("-", "_")


class _Code(TypedDict, total=False):
    """The parts of a probe's source that its pattern of addresses does not decide."""

    setup: str
    step: str
    each_round: str


def _asm(text: str, outputs: str, inputs: str = "") -> str:
    return f'asm volatile("{text}" : {outputs} : {inputs} : "memory");'


def chains() -> list[Probe]:
    """Dependent chains of one warp: the latency of an instruction."""
    one_float = "float x = lane;"
    one_int = "int x = lane;"
    f, n = '"+f"(x)', '"+r"(x)'
    probes = [
        ("ffma", "FFMA", one_float, _asm("fma.rn.f32 %0, %0, %0, %0;", f)),
        ("fadd", "FADD", one_float, _asm("add.rn.f32 %0, %0, %0;", f)),
        ("mufu", "MUFU", one_float, _asm("ex2.approx.ftz.f32 %0, %0;", f)),
        ("imad", "IMAD", one_int, _asm("mad.lo.s32 %0, %0, %0, %1;", n, '"r"(g)')),
        ("shf", "SHF", one_int, _asm("shf.l.wrap.b32 %0, %0, %1, 3;", n, '"r"(g)')),
        ("popc", "POPC", one_int, _asm("popc.b32 %0, %0;", n)),
        ("shfl", "SHFL", one_int, _asm("shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;", n)),
        ("dfma", "DFMA", "double x = lane;", _asm("fma.rn.f64 %0, %0, %0, %0;", '"+d"(x)')),
    ]
    found = [
        Probe(name=f"chain-{name}", opcode=op, setup=setup, step=step, use="sink ^= (int)x;")
        for name, op, setup, step in probes
    ]
    # Every loaded word is 0, so that the next address is the first again.
    for bits, kind in ((32, "u32"), (64, "v2.u32"), (128, "v4.u32")):
        more = {32: "", 64: ", u", 128: ", u, v, w"}[bits]
        names = "{t" + more + "}" if more else "t"
        load = "{{ .reg .u32 t, u, v, w; ld.{0}.{1} {2}, [%0]; {3} }}"
        found.append(
            Probe(name=f"chain-lds{bits}", use="sink ^= near;", opcode="LDS", lane_step=bits // 8,
                  step=_asm(load.format("shared", kind, names, "add.u32 %0, %0, t;"), '"+r"(near)'))
        )  # fmt: skip
        wide = "{{ .reg .u32 t, u, v, w; .reg .u64 q; ld.global.{0}.{1} {2}, [%0]; "
        wide += "cvt.u64.u32 q, t; add.u64 %0, %0, q; }}"
        for cache, label, step in (("ca", "l1", 0), ("cg", "l2", 0)):
            found.append(
                Probe(name=f"chain-ldg{bits}-{label}", opcode="LDG", lane_step=bits // 8,
                      step_bytes=step,
                      use="sink ^= (int)(long long)far;",
                      step=_asm(wide.format(cache, kind, names), '"+l"(far)'))
            )  # fmt: skip
    # The loaded word is added to a far step: every load is a line that was never read before.
    fresh = "{ .reg .u32 t; .reg .u64 q; ld.global.cg.u32 t, [%0]; cvt.u64.u32 q, t; "
    fresh += "add.u64 q, q, %1; add.u64 %0, %0, q; }"
    found.append(
        Probe(name="chain-dram", opcode="LDG", lane_step=4, step_bytes=1 << 18, fresh=4096,
              use="sink ^= (int)(long long)far;",
              step=_asm(fresh, '"+l"(far)', '"l"(step)'))
    )  # fmt: skip
    found.append(
        Probe(name="chain-bar", opcode="BAR", step=_asm("bar.sync 0;", ""), warps=(1, 4, 8, 16, 32))
    )
    return found


def arithmetic() -> list[Probe]:
    """Independent streams: how many cycles an SM takes for one instruction of a warp."""
    f, n = '"+f"(f[i % 8])', '"+r"(f[i % 8])'
    probes = [
        ("ffma", "FFMA", _FLOATS, _asm("fma.rn.f32 %0, %1, %1, %0;", f, '"f"(h)')),
        ("fadd", "FADD", _FLOATS, _asm("add.rn.f32 %0, %0, %1;", f, '"f"(h)')),
        ("mufu", "MUFU", _FLOATS, _asm("ex2.approx.ftz.f32 %0, %0;", f)),
        ("imad", "IMAD", _INTS, _asm("mad.lo.s32 %0, %1, %1, %0;", n, '"r"(g)')),
        ("shf", "SHF", _INTS, _asm("shf.l.wrap.b32 %0, %0, %1, 3;", n, '"r"(g)')),
        ("popc", "POPC", _INTS, _asm("popc.b32 %0, %0;", n)),
        ("f2i", "F2I", _FLOATS + _INTS.replace("f[", "k["),
         _asm("{ .reg .s32 t; cvt.rzi.s32.f32 t, %0; mov.b32 %0, t; }", f)),
        ("shfl", "SHFL", _INTS, _asm("shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;", n)),
        ("dfma", "DFMA", _FLOATS.replace("float", "double"),
         _asm("fma.rn.f64 %0, %1, %1, %0;", '"+d"(f[i % 8])', '"d"(h)')),
    ]  # fmt: skip
    return [
        Probe(name=f"stream-{name}", opcode=op, setup=setup, step=step, use=_USE,
              warps=(4, 8, 16, 32))
        for name, op, setup, step in probes
    ] + [
        Probe(name="stream-ffma-shf", opcode="FFMA", setup=_FLOATS + "int k[8] = {};",
              use=_USE_BOTH,
              step=_asm("fma.rn.f32 %0, %2, %2, %0; shf.l.wrap.b32 %1, %1, %3, 3;",
                        '"+f"(f[i % 8]), "+r"(k[i % 8])', '"f"(h), "r"(g)'), warps=(4, 8, 16, 32)),
        Probe(name="stream-ffma-imad", opcode="FFMA", setup=_FLOATS + "int k[8] = {};",
              use=_USE_BOTH,
              step=_asm("fma.rn.f32 %0, %2, %2, %0; mad.lo.s32 %1, %3, %3, %1;",
                        '"+f"(f[i % 8]), "+r"(k[i % 8])', '"f"(h), "r"(g)'), warps=(4, 8, 16, 32)),
    ]  # fmt: skip


def _load(space: str, bits: int, pointer: str) -> _Code:
    """Return a load to registers that the next step does not touch."""
    words = "abcd"[: bits // 32]
    outputs = ", ".join(f'"=r"({w}[i])' for w in words)
    names = ", ".join(f"%{j}" for j in range(len(words)))
    to = f"{{{names}}}" if len(words) > 1 else names
    constraint = "r" if pointer == "near" else "l"
    text = f"ld.{space}.{_KIND[bits]} {to}, [%{len(words)}];"
    return {
        "setup": "".join(f"int {w}[{UNROLL}] = {{}};" for w in words),
        "step": _asm(text, outputs, f'"{constraint}"({pointer} + i * (int)step)'),
        "each_round": f"for (int j = 0; j < {UNROLL}; ++j) sink ^= "
        + " ^ ".join(f"{w}[j]" for w in words)
        + ";",
    }


def _store(space: str, bits: int, pointer: str) -> _Code:
    """Return a store of one register in every word."""
    kind = _KIND[bits]
    constraint = "r" if pointer == "near" else "l"
    values = {32: "%1", 64: "{%1, %1}", 128: "{%1, %1, %1, %1}"}[bits]
    inputs = f'"{constraint}"({pointer} + i * (int)step), "r"(g)'
    return {"step": f'asm volatile("st.{space}.{kind} [%0], {values};" :: {inputs} : "memory");'}


def memory() -> list[Probe]:
    """Independent accesses: shared memory, L1 hits, L2 hits and DRAM, by width and pattern."""
    found = []
    many = (1, 4, 8, 16)
    for bits in (32, 64, 128):
        size = bits // 8
        patterns = {"unit": size, "uniform": 0, "two-way": 2 * size, "four-way": 4 * size}
        for pattern, lane_step in patterns.items():
            for way, make, op in (("lds", _load, "LDS"), ("sts", _store, "STS")):
                if way == "sts" and pattern == "uniform":
                    continue
                found.append(
                    Probe(name=f"stream-{way}{bits}-{pattern}", opcode=op, warps=many,
                          step_bytes=32 * size,
                          **make("shared", bits, "near"), lane_step=lane_step)
                )  # fmt: skip
        for pattern, lane_step in {"unit": size, "uniform": 0}.items():
            found.append(
                Probe(name=f"stream-ldg{bits}-l1-{pattern}", opcode="LDG", warps=many,
                      **_load("global.ca", bits, "far"), lane_step=lane_step, step_bytes=32 * size)
            )  # fmt: skip
        # Each warp of each SM walks its own 1 KiB lines over and over, past L1: L2's rate.
        found.append(
            Probe(name=f"stream-ldg{bits}-l2", opcode="LDG", warps=(4, 8, 16), blocks=0,
                  **_load("global.cg", bits, "far"), lane_step=size, step_bytes=32 * size,
                  warp_step=UNROLL * 32 * size, block_step=UNROLL * 32 * size * 32)
        )  # fmt: skip
        found.append(
            Probe(name=f"stream-stg{bits}", opcode="STG", warps=(4, 8, 16), blocks=0,
                  **_store("global", bits, "far"), lane_step=size, step_bytes=32 * size,
                  warp_step=UNROLL * 32 * size, block_step=UNROLL * 32 * size * 32)
        )  # fmt: skip
    # Each lane's words in a sector of its own, one after the other: 4, 2 and 1 sectors a line.
    for apart in (32, 64, 128):
        for one, blocks in (("", 0), ("-one", 1)):
            found.append(
                Probe(name=f"stream-stg32-apart{apart}{one}", opcode="STG", warps=(4, 8, 16),
                      blocks=blocks, **_store("global", 32, "far"), lane_step=apart, step_bytes=4,
                      warp_step=32 * apart, block_step=32 * 32 * apart)
            )  # fmt: skip
    # Lanes down a column of a row-major matrix, stepping along its rows: the naive kernel's reads.
    for floats in (4096, 4092, 4100, 4104, 4112, 4128, 2048, 1024, 1000, 512, 64, 33, 32, 16, 8):
        found.append(
            Probe(name=f"stream-ldg32-l1-column{floats}", opcode="LDG", warps=(4, 8, 16),
                  **_load("global.ca", 32, "far"), lane_step=4 * floats, step_bytes=4)
        )  # fmt: skip
    return found


PROBES: tuple[Probe, ...] = (*chains(), *arithmetic(), *memory())

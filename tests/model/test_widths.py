"""Which accesses ptxas joined: kernels whose machine code is known, and what is derived by hand."""

import pytest

from tilewright.accesses import Width
from tilewright.errors import UnsupportedError
from tilewright.kernels import rung
from tilewright.model import widths
from tilewright.model.widths import Images, images
from tilewright.toolchain import artifact_from_ptx, compile_cuda
from tilewright.toolchain.sass import parse_sass

# A warp reads four words of one address and four of a column: LDS.128 and four LDS.
ROW_AND_COLUMN = """extern "C" __global__ void k(const float* x, float* y) {
  __shared__ float a[32][4];
  __shared__ float b[4][32];
  a[threadIdx.x][0] = x[threadIdx.x];
  b[0][threadIdx.x] = x[threadIdx.x + 32];
  __syncthreads();
  const float* row = a[threadIdx.x / 8];
  float sum = 0.0f;
  for (int i = 0; i < 4; ++i) sum = fmaf(row[i], b[i][threadIdx.x], sum);
  y[threadIdx.x] = sum;
}"""

# A loop of two loads, 8 bytes further on in each turn.
LOOP = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{
.reg .pred %p<2>;
.reg .b32 %r<2>;
.reg .f32 %f<4>;
.shared .align 4 .b8 a[64];
mov.u32 %r1, a;
$L1:
ld.shared.f32 %f1, [%r1];
ld.shared.f32 %f2, [%r1+4];
add.f32 %f3, %f1, %f2;
add.s32 %r1, %r1, STEP;
setp.lt.s32 %p1, %r1, 64;
@%p1 bra $L1;
ret;
}
"""
FIRST = LOOP.splitlines().index("ld.shared.f32 %f1, [%r1];") + 1


def found(code: str, arch: str = "sm_90") -> Images:
    return images(compile_cuda(code, "k", arch=arch))


def shared_loads(code: Images) -> list[tuple[int, tuple[str, ...]]]:
    """(Bytes, the PTX accesses it stands for) of every load of shared memory."""
    machine = code.flow.function.instructions
    return [
        (
            i.width.size,
            tuple(code.ptx[line][0].text.split("[")[1].rstrip("];") for line in i.members),
        )
        for i in code.accesses
        if machine[i.index].opcode == "LDS"
    ]


@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_90", "sm_100"])
def test_neighbouring_words_are_one_access(arch: str) -> None:
    loads = shared_loads(found(ROW_AND_COLUMN, arch))
    assert sorted(size for size, _ in loads) == [4, 4, 4, 4, 16]
    (wide,) = (members for size, members in loads if size == 16)
    base = wide[0].split("+")[0]
    assert wide == (base, f"{base}+4", f"{base}+8", f"{base}+12")


def test_every_ptx_access_has_its_machine_access_once() -> None:
    code = found(ROW_AND_COLUMN)
    covered = sorted(line for image in code.accesses for line in image.members)
    accesses = [
        line
        for line, (first, *_) in code.ptx.items()
        if first.opcode in ("ld", "st") and first.space in ("global", "shared")
    ]
    assert covered == sorted(accesses)
    assert not any(image.gap for image in code.accesses)


def loop_images(
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    line: int,
    opcode: str,
    mark: str = "",
    code: str = LOOP,
) -> Images:
    """The loop with one machine load, which carries a line of the PTX."""
    listing = f"""\t.section\t.text.k,"ax",@progbits
k:
.L_x_1:
\t//## File ".nv_debug_ptx_txt", line {line}
        /*0000*/  {opcode} R4, [R2] {mark} ;
        /*0010*/  @P0 BRA `(.L_x_1) ;
        /*0020*/  EXIT ;
"""
    monkeypatch.setattr(widths, "disassemble", lambda _: parse_sass(listing))
    return images(artifact_from_ptx(code.replace("STEP", str(step)), "k"))


def test_words_of_the_next_turns_of_a_loop_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two words a turn in the PTX, four in a machine access: each line is a member twice.
    (wide,) = loop_images(monkeypatch, 8, FIRST, "LDS.128").accesses
    assert wide.members == (FIRST, FIRST + 1, FIRST, FIRST + 1)
    assert (wide.width, wide.gap) == (Width(16), None)


def test_the_line_may_be_that_of_a_later_word(monkeypatch: pytest.MonkeyPatch) -> None:
    (wide,) = loop_images(monkeypatch, 8, FIRST + 1, "LDS.64").accesses
    assert wide.members == (FIRST, FIRST + 1)
    assert (wide.line, wide.width, wide.gap) == (FIRST + 1, Width(8, shift=-4), None)


def test_an_access_whose_neighbours_are_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    (wide,) = loop_images(monkeypatch, 12, FIRST, "LDS.128").accesses
    assert wide.members == (FIRST,)
    assert wide.gap is not None
    assert f"PTX line {FIRST}: 4 bytes a lane became LDS.128" in wide.gap


def test_a_narrower_access_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    (narrow,) = loop_images(monkeypatch, 8, FIRST, "LDS.U8").accesses
    assert narrow.width == Width(1)
    assert narrow.gap is not None


# A row read twice, with a store between that may change it.
TWICE = """extern "C" __global__ void k(const float* x, float* y) {
  __shared__ float a[8];
  float sum = 0.0f;
  for (int turn = 0; turn < 2; ++turn) {
    if (threadIdx.x < 8) a[threadIdx.x] = x[8 * turn + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 8; ++i) sum = fmaf(a[i], a[i], sum);
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}"""


def test_the_neighbours_of_an_access_are_those_beside_it() -> None:
    code = found(TWICE)
    loads = [members for size, members in shared_loads(code) if size == 16]
    assert len(loads) == 4
    assert all(len(members) == 4 for members in loads)
    lines = [line for i in code.accesses if i.width.size == 16 for line in i.members]
    assert len(set(lines)) == 16
    assert not any(image.gap for image in code.accesses)


@pytest.mark.parametrize("mark", ["", '(*"SpillRefill"*)'])
def test_a_saved_register_is_no_image_of_the_line_beside_it(
    monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    assert not loop_images(monkeypatch, 8, FIRST, "LDL", mark).accesses


def test_generic_accesses_are_told_from_saved_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    code = LOOP.replace("ld.shared.f32 %f1, [%r1]", "ld.f32 %f1, [%rd1]")
    code = code.replace(".reg .b32", ".reg .b64 %rd<2>; .reg .b32")
    assert len(loop_images(monkeypatch, 8, FIRST, "LDL", code=code).accesses) == 1
    spill = '(*"SpillRefill"*)'
    assert not loop_images(monkeypatch, 8, FIRST, "LDL", spill, code=code).accesses


def test_the_widths_to_count_with_are_those_of_the_lines_with_an_access() -> None:
    code = found(ROW_AND_COLUMN)
    by_line = code.widths()
    assert sum(Width(16) in each for each in by_line.values()) == 1
    assert set(by_line) == {image.line for image in code.accesses}


def test_atomics_that_add_up_lanes_are_marked() -> None:
    code = found("""extern "C" __global__ void k(int* y) {
      __shared__ int bins[32];
      bins[threadIdx.x] = 0;
      __syncthreads();
      atomicAdd(&bins[y[threadIdx.x] & 31], 1);
      __syncthreads();
      y[threadIdx.x] = bins[threadIdx.x];
    }""")
    machine = code.flow.function.instructions
    (atomic,) = (i for i in code.accesses if machine[i.index].opcode == "ATOMS")
    assert atomic.width == Width(4, counting=True)


def test_ptx_alone_has_no_machine_code() -> None:
    artifact = compile_cuda(ROW_AND_COLUMN, "k")
    with pytest.raises(UnsupportedError, match="given as PTX"):
        images(artifact_from_ptx(artifact.ptx, "k"))


def test_accesses_that_were_joined_around_a_padding_lie_where_the_machine_has_them() -> None:
    """16 rows of 16 floats and a pad: 68 quads, some of them with a float that nobody reads."""
    each = rung("volkov_2008")
    artifact = compile_cuda(
        each.source, each.expression(each.default), arch="sm_90", include_dirs=each.include_dirs
    )
    code, places = images(artifact), []
    for image in code.accesses:
        machine = code.flow.function.instructions[image.index]
        if image.width.size != 16:
            continue
        assert image.gap is None
        offset = int(code.ptx[image.line][0].text.rstrip("];").partition("+")[2] or 0)
        address = "".join(machine.operands)
        place = int(address.partition("+0x")[2].partition("]")[0] or "0", 16)
        assert offset + image.width.shift == place
        places.append(place)
    assert sorted(places) == [16 * n for n in range(16 * 17 // 4)]

"""The thread-value maps on a real GPU: fragments dealt by the maps give the right products.

Operands are small integers, so every product is exact. A wrong order along k that A and B share
does not show in a product; tests/layouts holds the order to ldmatrix, whose map is checked here.
"""

import re

import numpy as np
import pytest

from tilewright.device import DeviceInfo, probe, run
from tilewright.launch import Launch
from tilewright.layouts import tile_to_shape
from tilewright.layouts.instructions import (
    MMA_SHAPES,
    SPANS,
    Fragment,
    ldmatrix,
    mma,
    shared_atom,
    wgmma,
)
from tilewright.toolchain import compile_cuda

pytestmark = pytest.mark.gpu

SHAPES = [(shape, dtype) for dtype, shapes in MMA_SHAPES.items() for shape in shapes]
# What an element of a dtype accumulates in: its PTX name, C type, constraint and numpy dtype.
FLOAT = ("f32", "float", "f", np.float32)
SUMS = {"s8": ("s32", "int", "r", np.int32), "f64": ("f64", "double", "d", np.float64)}
SUMS["u8"] = SUMS["s8"]
# Compute capability that has mma.sync on a dtype, by more than the first.
NEEDS = {"e4m3": (8, 9), "e5m2": (8, 9)}


def card() -> DeviceInfo:
    info = probe()
    assert isinstance(info, DeviceInfo), info
    return info


def encoded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Integers from -7 to 7 as elements of a dtype, low bits first in memory."""
    match dtype:
        case "f64" | "f16":
            return values.astype(np.float64 if dtype == "f64" else np.float16)
        case "tf32":
            return values.astype(np.float32)
        case "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        case "s8" | "u8":
            return values.astype(np.int8)
    bias, mantissa = {"e4m3": (7, 3), "e5m2": (15, 2)}[dtype]
    size = np.abs(values)
    exponent = np.log2(np.maximum(size, 1)).astype(np.int64)
    fraction = (size * 2**mantissa >> exponent) - 2**mantissa
    bits = np.where(size > 0, (exponent + bias << mantissa) + fraction, 0)
    return (bits + np.where(values < 0, 128, 0)).astype(np.uint8)


def dealt(matrix: np.ndarray, part: Fragment, dtype: str) -> np.ndarray:
    """The registers of each thread, one row a thread, filled by the map."""
    places = [[part.coordinate(t, v) for v in range(part.values)] for t in range(part.threads)]
    rows, cols = np.moveaxis(np.array(places), 2, 0)
    return np.ascontiguousarray(encoded(matrix[rows, cols], dtype))


def gathered(values: np.ndarray, part: Fragment) -> np.ndarray:
    """The matrix whose elements the threads hold."""
    matrix = np.full((part.rows, part.cols), -1.0)
    for thread in range(part.threads):
        for value in range(part.values):
            matrix[part.coordinate(thread, value)] = values[thread, value]
    return matrix


def integers(rows: int, cols: int, dtype: str) -> np.ndarray:
    low = 0 if dtype == "u8" else -7
    return np.random.default_rng(rows + cols).integers(low, 8, (rows, cols))


def operands(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{first + i}" for i in range(count)) + "}"


def constraints(kind: str, name: str, count: int) -> str:
    return ", ".join(f'"{kind}"({name}[{i}])' for i in range(count))


def mma_source(shape: str, dtype: str, registers: tuple[int, int, int]) -> str:
    """A kernel of one warp: D = A · B by one instruction, fragments as they are in memory."""
    of_a, of_b, of_d = registers
    total, c_type, kind, _ = SUMS.get(dtype, FLOAT)
    unit, input_kind = ("double", "d") if dtype == "f64" else ("unsigned", "r")
    d, a, b = operands(0, of_d), operands(of_d, of_a), operands(of_d + of_a, of_b)
    return f"""
extern "C" __global__ void multiply(const {unit}* a, const {unit}* b, {c_type}* d)
{{
  const {unit}* ra = a + threadIdx.x * {of_a};
  const {unit}* rb = b + threadIdx.x * {of_b};
  {c_type} rd[{of_d}] = {{}};
  asm volatile("mma.sync.aligned.{shape}.row.col.{total}.{dtype}.{dtype}.{total} "
               "{d}, {a}, {b}, {d};"
               : {constraints("+" + kind, "rd", of_d)}
               : {constraints(input_kind, "ra", of_a)}, {constraints(input_kind, "rb", of_b)});
  for (int i = 0; i < {of_d}; ++i) d[threadIdx.x * {of_d} + i] = rd[i];
}}
"""


@pytest.mark.parametrize(("shape", "dtype"), SHAPES)
def test_mma_multiplies_what_the_maps_deal(shape, dtype):
    m, n, k = (int(size) for size in re.findall(r"\d+", shape))
    needs = (9, 0) if dtype == "f64" and m == 16 else NEEDS.get(dtype, (8, 0))
    if card().compute_capability < needs:
        pytest.skip(f"{shape} on {dtype} needs compute capability {needs}")
    maps = mma(shape, dtype)
    a, b = integers(m, k, dtype), integers(n, k, dtype)
    in_a, in_b = (
        part.view(np.float64 if dtype == "f64" else np.uint32)
        for part in (dealt(a, maps.a, dtype), dealt(b, maps.b, dtype))
    )
    out = np.zeros((32, maps.c.values), SUMS.get(dtype, FLOAT)[3])
    source = mma_source(shape, dtype, (in_a.shape[1], in_b.shape[1], maps.c.values))
    artifact = compile_cuda(source, "multiply", arch=card().arch)
    run(artifact, Launch(grid=1, block=32), (in_a, in_b, out))
    np.testing.assert_array_equal(gathered(out, maps.c), a @ b.T)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_loads_what_the_map_says(count, trans):
    maps = ldmatrix(count, trans=trans)
    registers = operands(0, count)
    source = f"""
extern "C" __global__ void load(const unsigned* order, unsigned* out)
{{
  __shared__ __align__(16) unsigned short tile[32][8];
  const unsigned lane = threadIdx.x, slot = order[lane];
  for (int e = 0; e < 8; ++e) tile[slot][e] = 8 * lane + e;
  __syncthreads();
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile[slot]));
  unsigned r[{count}];
  asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{".trans" * trans}.shared.b16 "
               "{registers}, [%{count}];"
               : {constraints("=r", "r", count)} : "r"(address) : "memory");
  for (int i = 0; i < {count}; ++i) out[lane * {count} + i] = r[i];
}}
"""
    order = np.random.default_rng(1).permutation(32).astype(np.uint32)
    out = np.zeros((32, count), np.uint32)
    artifact = compile_cuda(source, "load", arch=card().arch)
    run(artifact, Launch(grid=1, block=32), (order, out))
    found = out.view(np.uint16)  # [lane, 2 · count]: halves of registers, low ones first
    for lane in range(32):
        expected = [maps.target(lane, value) for value in range(2 * count)]
        assert found[lane].tolist() == expected


MODES = {0: 0, 128: 1, 64: 2, 32: 3}  # of the matrix descriptor


def wgmma_source(n: int, elements: int, transposed: bool) -> str:
    """A kernel of one warpgroup: A from registers, B from shared memory behind a descriptor."""
    of_d = n // 2
    d, a = operands(0, of_d), operands(of_d, 4)
    trans = int(transposed)
    return f"""
extern "C" __global__ void multiply(const unsigned* a, const unsigned short* b,
                                    unsigned long long offsets, float* d)
{{
  __shared__ __align__(1024) unsigned short tile[{elements}];
  for (int i = threadIdx.x; i < {elements}; i += 128) tile[i] = b[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const unsigned long long start = __cvta_generic_to_shared(tile);
  const unsigned long long matrix = offsets | (start & 0x3ffff) >> 4;
  const unsigned* ra = a + threadIdx.x * 4;
  float rd[{of_d}] = {{}};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {d}, {a}, "
               "%{of_d + 4}, 1, 1, 1, {trans};"
               : {constraints("+f", "rd", of_d)}
               : {constraints("r", "ra", 4)}, "l"(matrix) : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < {of_d}; ++i) d[threadIdx.x * {of_d} + i] = rd[i];
}}
"""


@pytest.mark.parametrize("k_major", [True, False])
@pytest.mark.parametrize("span", SPANS)
def test_wgmma_reads_shared_tiles_as_the_atoms_lay_them(span, k_major):
    if card().compute_capability != (9, 0):
        pytest.skip("wgmma is an instruction of compute capability 9.0")
    n, k, maps = 64, 16, wgmma(64, "bf16")
    atom = shared_atom(span, 16, k_major=k_major)
    # Whole atoms: rows of a K-major one may be longer than the 16 elements that are read.
    wide = max(k, atom.layout[1].size)
    tile = tile_to_shape(atom, (n, wide))
    a, b = integers(64, k, "bf16"), integers(n, wide, "bf16")
    shared = np.zeros(tile.size, np.uint16)
    for row in range(n):
        for col in range(wide):
            shared[tile(row, col)] = encoded(b[row, col], "bf16")
    # Byte offsets of the next 8 or `span` / 2 along n and of the next 8 along k, by the PTX ISA's
    # canonical layouts: along n, and along k.
    along_n = tile.layout(8 if k_major or not span else span // 2 % n, 0) * 2
    along_k = tile.layout(0, 8) * 2
    swap = not k_major and span > 0
    leading, stride = (along_n, along_k) if swap else (along_k, along_n)
    offsets = np.uint64(leading >> 4 << 16 | stride >> 4 << 32 | MODES[span] << 62)
    out = np.zeros((128, n // 2), np.float32)
    artifact = compile_cuda(wgmma_source(n, tile.size, not k_major), "multiply", arch="sm_90a")
    in_a = dealt(a, maps.a, "bf16").view(np.uint32)
    run(artifact, Launch(grid=1, block=128), (in_a, shared, offsets, out))
    np.testing.assert_array_equal(gathered(out, maps.d), a @ b[:, :k].T)

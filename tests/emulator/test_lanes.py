"""What the emulator claims to know of a value, against brute force.

`shape_of` is checked claim by claim on random shapes, and whole kernels of random integer
instructions run on the emulator beside an interpreter of Python integers that knows nothing.
"""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.emulator import run
from tilewright.emulator.lanes import (
    UNIFORM,
    VARYING,
    WARP,
    Affine,
    Known,
    constant,
    extended,
    join,
    shape_of,
    widen,
)
from tilewright.launch import Launch
from tilewright.toolchain import artifact_from_ptx
from tilewright.toolchain.ptx.ir import Instruction, Reg

WARPS = 3


def wrap(value, kind):
    """An integer as PTX type `kind` reads its low bits."""
    bits = int(kind[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def quotient(a, b):
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def inserted(a, b, place, size):
    place, size = min(place & 255, 64), min(size & 255, 64)
    field = ((1 << size) - 1) << place
    return b & ~field | a << place & field


# opcode with flags: number of operands, what it computes (the shift amount is the last operand).
OPERATIONS = {
    "add": (2, lambda a, b: a + b),
    "sub": (2, lambda a, b: a - b),
    "mul.lo": (2, lambda a, b: a * b),
    "mad.lo": (3, lambda a, b, c: a * b + c),
    "min": (2, min),
    "max": (2, max),
    "div": (2, quotient),
    "rem": (2, lambda a, b: a - quotient(a, b) * b if b else -1),
    "mul.wide": (2, lambda a, b: a * b),
    "mad.wide": (3, lambda a, b, c: a * b + c),
    "and": (2, lambda a, b: a & b),
    "or": (2, lambda a, b: a | b),
    "xor": (2, lambda a, b: a ^ b),
    "not": (1, lambda a: ~a),
    "neg": (1, lambda a: -a),
    "mov": (1, lambda a: a),
    "shl": (2, lambda a, n: a << n if n < 64 else 0),
    "shr": (2, lambda a, n: a >> min(n, 64)),
    "bfi": (4, inserted),
}
BITWISE = ("and", "or", "xor", "not", "shl", "bfi")
SIZES = (16, 32, 64)


def kinds_of(name, size, signed):
    """(result type, operand types) of an operation on numbers of `size` bits."""
    count = OPERATIONS[name][0]
    letter = "b" if name in BITWISE else "s" if signed or name == "neg" else "u"
    kind = f"{letter}{size}"
    if name.endswith("wide"):
        return f"{letter}{2 * size}", [kind, kind, f"{letter}{2 * size}"][:count]
    if name in ("shl", "shr"):
        return kind, [kind, "u32"]
    if name == "bfi":
        return kind, [kind, kind, "u32", "u32"]
    return kind, [kind] * count


# What has a rule for s + offsets.
RULED = ("add", "sub", "or", "shl", "mov", "mul.lo", "mad.lo", "mul.wide", "mad.wide")


def names_for(size):
    missing = {16: ("bfi",), 64: ("mul.wide", "mad.wide")}.get(size, ())
    return [n for n in OPERATIONS if n not in missing]


def computed(name, kinds, values):
    return OPERATIONS[name][1](*(wrap(v, k) for v, k in zip(values, kinds, strict=True)))


# --- one instruction ------------------------------------------------------------------------------


def instruction(name, *types, operands):
    opcode, *flags = name.split(".")
    registers = tuple(Reg(f"%r{i}") for i in range(operands + 1))
    return Instruction(
        opcode=opcode, types=types, flags=tuple(flags), operands=registers, ptx_line=1, text=name
    )


SMALL = st.integers(-40, 40)
OFFSETS = st.one_of(
    st.just((0,) * WARP),
    st.tuples(SMALL, SMALL).map(lambda ab: tuple(ab[0] + ab[1] * lane for lane in range(WARP))),
    st.integers(0, 6).map(lambda k: tuple((lane % 8) << k for lane in range(WARP))),
    st.lists(st.integers(-(2**31), 2**31), min_size=WARP, max_size=WARP).map(tuple),
)


@st.composite
def values(draw, bits):
    """A shape, with the scalar part and every lane of each warp that it could stand for."""
    mask = (1 << bits) - 1
    if draw(st.booleans()):
        step, start, by = draw(SMALL), draw(st.integers(0, mask)), draw(st.integers(0, 7))
        start = draw(st.sampled_from([0, 1, start]))
        rows = [
            [start + step * lane + by * warp * 37 for lane in range(WARP)] for warp in range(WARPS)
        ]
        if draw(st.booleans()):
            rows = [[v ^ v >> 3 for v in row] for row in rows]
        table = np.array([[v & mask for v in row] for row in rows], np.uint64)
        return Known(table, bits), [(int(row[0]), [int(v) for v in row]) for row in table]
    offsets = draw(OFFSETS)
    maybe = draw(
        st.sampled_from([-1, -16, mask, 0, 0xFF, 0x3F00, 4, mask << 1]) | st.integers(0, mask)
    )
    parts = [draw(st.integers(0, mask)) & maybe & mask for _ in range(WARPS)]
    parts[0] = maybe & mask
    return Affine(offsets, maybe), [(s, [s + o & mask for o in offsets]) for s in parts]


def check_claim(shape, bits, scalars, lanes):
    """What `shape` says must hold of each warp's scalar result and lane results."""
    mask = (1 << bits) - 1
    for warp, (scalar, row) in enumerate(zip(scalars, lanes, strict=True)):
        if isinstance(shape, Known):
            assert [int(v) & mask for v in shape.table[warp]] == row
        elif isinstance(shape, Affine):
            assert [scalar + o & mask for o in shape.offsets] == row, shape
            assert scalar & ~shape.maybe & mask == 0


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.data())
def test_what_is_claimed_of_a_result_holds(data):
    """Known is the result; Affine is the operation on the scalar parts, plus the offsets."""
    size, signed = data.draw(st.sampled_from(SIZES)), data.draw(st.booleans())
    names = [n for n in names_for(size) if n in RULED or data.draw(st.integers(0, 3)) == 0]
    name = data.draw(st.sampled_from(names))
    result, kinds = kinds_of(name, size, signed)
    operands = [data.draw(values(int(k[1:]))) for k in kinds]
    if name in ("shl", "shr", "mul.lo", "mul.wide") and data.draw(st.booleans()):
        number = data.draw(st.integers(0, 9))
        bits = int(kinds[1][1:])
        operands[1] = constant(number, bits, WARPS), [(number, [number] * WARP)] * WARPS
    shape = shape_of(
        instruction(name, kinds[0], operands=len(kinds)), [shape for shape, _ in operands]
    )
    bits = int(result[1:])
    mask = (1 << bits) - 1
    scalars, lanes = [], []
    for warp in range(WARPS):
        parts = [what[warp] for _, what in operands]
        scalars.append(computed(name, kinds, [s for s, _ in parts]) & mask)
        columns = zip(*(row for _, row in parts), strict=True)
        lanes.append([computed(name, kinds, column) & mask for column in columns])
    check_claim(shape, bits, scalars, lanes)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_or_is_a_sum_only_where_no_bit_meets_another(data):
    """Neither between the operands, nor inside one by a carry from its own offsets."""
    low, high, step = (data.draw(st.integers(0, 6)) for _ in range(3))
    offsets = tuple(lane << step for lane in range(WARP))
    one = Affine(offsets, data.draw(st.sampled_from([0, 31 << step, 1 << low, 255, 15 << low])))
    other = Affine(
        (0,) * WARP, data.draw(st.sampled_from([0, 1 << 5 + high, 0xF00, 7 << high, -256]))
    )
    shape = shape_of(instruction("or", "b32", operands=2), [one, other])
    mask = 2**32 - 1
    for a in (one.maybe, one.maybe & -one.maybe, one.maybe >> 1 & one.maybe):
        for b in (other.maybe & mask, other.maybe & -other.maybe, 0):
            row = [a + o | b for o in offsets]
            check_claim(shape, 32, [a | b], [[v & mask for v in row]])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data())
def test_what_is_claimed_of_a_conversion_holds(data):
    """Widening keeps s + offsets only where nothing wraps; cvt fills a wide register."""
    letters = st.sampled_from("us")
    source = f"{data.draw(letters)}{data.draw(st.sampled_from((16, 32, 64)))}"
    to = f"{data.draw(letters)}{data.draw(st.sampled_from((8, 16, 32, 64)))}"
    register = data.draw(st.sampled_from([b for b in SIZES if b >= int(to[1:])]))
    shape, parts = data.draw(values(int(source[1:])))
    found = shape_of(instruction("cvt", to, source, operands=1), [shape])
    found = extended(found, to, register)
    mask = (1 << register) - 1
    convert = lambda v: wrap(wrap(v, source), to) & mask  # noqa: E731
    check_claim(
        found, register, [convert(s) for s, _ in parts], [list(map(convert, r)) for _, r in parts]
    )


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_a_join_holds_of_both(data):
    one, other = (data.draw(values(32)) for _ in range(2))
    if data.draw(st.booleans()):  # the same offsets, so that the join is not Varying
        offsets = one[0].affine() if isinstance(one[0], Known) else one[0]
        if offsets is not None:
            maybe = data.draw(st.integers(0, 2**32 - 1))
            parts = [(maybe, [maybe + o & 2**32 - 1 for o in offsets.offsets])] * WARPS
            other = Affine(offsets.offsets, maybe), parts
    joined = join(one[0], other[0])
    for shape in (joined, widen(one[0], joined)):
        for _, parts in (one, other):
            check_claim(shape, 32, [s for s, _ in parts], [row for _, row in parts])
    assert join(VARYING, one[0]) is VARYING or not join(VARYING, one[0]).uniform


def test_what_changes_an_operation_is_not_folded():
    """A suffix that the rules do not know: no table and no offsets, only uniform or not."""
    table = constant(7, 32, WARPS)
    step = Affine(tuple(range(WARP)))
    for name in ("add.sat", "mul.hi", "min.relu", "add.cc", "mad.hi", "cvt.sat"):
        count = 3 if name.startswith("mad") else 1 if name.startswith("cvt") else 2
        ins = instruction(name, *["s32"] * (2 if count == 1 else 1), operands=count)
        assert shape_of(ins, [table] * count) == UNIFORM
        assert shape_of(ins, [step] * count) is VARYING
    # An integer that becomes a float is no integer table any more.
    assert shape_of(instruction("cvt.rn", "f32", "s32", operands=1), [table]) == UNIFORM
    # The carry may differ between lanes whatever the operands are.
    assert shape_of(instruction("addc", "s32", operands=2), [table, table]) is VARYING


# --- whole kernels --------------------------------------------------------------------------------

BLOCKS, THREADS = 3, 80
PARAMETERS = (5, 0xFFFFFFF0, 1 << 20)


class _Program:
    """A random kernel as text, and beside it every register's value in every thread."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.values = {}  # register: (bits, [value of each thread])
        self.lines, self.declared, self.cuts = [], [], 0
        thread = [t for _ in range(BLOCKS) for t in range(THREADS)]
        block = [b for b in range(BLOCKS) for _ in range(THREADS)]
        for text, column in (
            ("%tid.x", thread),
            ("%ctaid.x", block),
            ("%laneid", [t % 32 for t in thread]),
        ):
            self.lines.append(f"mov.u32 {self.new(32, column)}, {text};")
        for i, number in enumerate(PARAMETERS):
            self.lines.append(f"ld.param.u32 {self.new(32, [number] * len(thread))}, [p{i}];")

    def new(self, bits, column):
        name = f"%x{len(self.declared)}"
        self.declared.append(f".reg .b{bits} {name};")
        self.values[name] = bits, [v & (1 << bits) - 1 for v in column]
        return name

    def operand(self, kind):
        """A register of the type's width, or a constant."""
        bits = int(kind[1:])
        known = [name for name, (b, _) in self.values.items() if b == bits]
        if not known or self.rng.random() < 0.3:
            number = self.rng.choice(
                (0, 1, 2, 3, 4, 7, 8, 31, 32, 100, (1 << bits) - 1, 1 << bits - 1)
            )
            number = wrap(number, kind)
            return str(number), [number] * (BLOCKS * THREADS)
        name = self.rng.choice(known[-8:] if self.rng.random() < 0.7 else known)
        return name, self.values[name][1]

    def step(self):
        choice = self.rng.random()
        if choice < 0.1:  # a basic block of its own for what follows
            self.lines.append(f"bra.uni CUT{self.cuts};\nCUT{self.cuts}:")
            self.cuts += 1
        elif choice < 0.35:
            self.convert()
        elif choice < 0.42:
            self.select()
        else:
            size = self.rng.choice((16, 32, 32, 32, 32, 64, 64))
            name = self.rng.choice(names_for(size))
            result, kinds = kinds_of(name, size, self.rng.random() < 0.5)
            texts, columns = zip(*(self.operand(k) for k in kinds), strict=True)
            column = [computed(name, kinds, row) for row in zip(*columns, strict=True)]
            to = self.new(int(result[1:]), column)
            self.lines.append(f"{name}.{kinds[0]} {to}, {', '.join(texts)};")

    def convert(self):
        letter = lambda: self.rng.choice("us")  # noqa: E731
        source = f"{letter()}{self.rng.choice((16, 32, 32, 64))}"
        to = f"{letter()}{self.rng.choice((8, 16, 32, 32, 64, 64))}"
        wide = [b for b in SIZES if b >= int(to[1:])]
        text, column = self.operand(source)
        column = [wrap(wrap(v, source), to) for v in column]
        register = self.new(wide[0] if self.rng.random() < 0.7 else self.rng.choice(wide), column)
        self.lines.append(f"cvt.{to}.{source} {register}, {text};")

    def select(self):
        """A comparison, used by a guarded add and a selp."""
        kind = self.rng.choice(("s32", "u32", "u64", "s64"))
        (a, left), (b, right), (c, other) = (self.operand(kind) for _ in range(3))
        truth = [wrap(x, kind) < wrap(y, kind) for x, y in zip(left, right, strict=True)]
        bits = int(kind[1:])
        p = f"%p{len(self.declared)}"
        self.declared.append(f".reg .pred {p};")
        picked = [x if t else y for x, y, t in zip(left, other, truth, strict=True)]
        moved = [x + 5 * t for x, t in zip(other, truth, strict=True)]
        one, two = self.new(bits, picked), self.new(bits, moved)
        self.lines.append(
            f"setp.lt.{kind} {p}, {a}, {b}; selp.b{bits} {one}, {a}, {c}, {p};"
            f" mov.b{bits} {two}, {c}; @{p} add.{kind} {two}, {two}, 5;"
        )

    def text(self):
        stores = []
        for slot, (name, (bits, _)) in enumerate(self.values.items()):
            at = slot * BLOCKS * THREADS * 8
            source = name
            if bits < 64:
                stores.append(f".reg .b64 %w{slot}; cvt.u64.u{bits} %w{slot}, {name};")
                source = f"%w{slot}"
            stores.append(f"st.global.u64 [%out+{at}], {source};")
        head = ".version 8.6\n.target sm_90\n.address_size 64\n"
        params = ".param .u64 out, .param .u64 numbers, " + ", ".join(
            f".param .u32 p{i}" for i in range(3)
        )
        # The thread's number comes from memory, so that the stores share their code.
        place = (
            ".reg .b64 %out, %numbers; .reg .b32 %number; ld.param.u64 %out, [out];"
            "ld.param.u64 %numbers, [numbers]; mad.lo.u32 %number, %x1, 80, %x0;"
            "mad.wide.u32 %numbers, %number, 4, %numbers; ld.global.u32 %number, [%numbers];"
            "mad.wide.u32 %out, %number, 8, %out;"
        )
        body = "\n".join([*self.declared, *self.lines, place, *stores])
        return f"{head}.visible .entry kernel({params})\n{{\n{body}\nret;\n}}\n"


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels_compute_what_every_thread_would_alone(seed):
    program = _Program(seed)
    for _ in range(60):
        program.step()
    out = np.zeros((len(program.values), BLOCKS * THREADS), np.uint64)
    numbers = np.arange(BLOCKS * THREADS, dtype=np.uint32)
    launch = Launch(grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1))
    args = [out, numbers, *map(np.uint32, PARAMETERS)]
    run(artifact_from_ptx(program.text(), "kernel"), launch, args, workers=1)
    for slot, (name, (_, column)) in enumerate(program.values.items()):
        got = out[slot].tolist()
        if got != column:
            thread = next(t for t, (g, w) in enumerate(zip(got, column, strict=True)) if g != w)
            line = next(text for text in program.lines if f" {name}," in text)
            assert got[thread] == column[thread], f"thread {thread}: {line}"

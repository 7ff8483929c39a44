"""One PTX kernel that runs many instructions on many operands, and the check of what they give.

An `Op` is an instruction with its operand types and a reference written from the PTX ISA. `Section`
puts its ops in one kernel, where each runs in several *ways*, because the emulator has a code path
for each: operands that vary from lane to lane, that are one number for the warp, that follow from
%tid (so that the compiler of the emulator knows them), that are one number plus a step a lane, and
immediates. References work on Python values: int, float, bool, and for packed types tuples.
"""

from __future__ import annotations

import math
import random
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from ieee import F16, FORMATS

from tilewright.launch import Launch
from tilewright.toolchain import artifact_from_ptx

THREADS, BLOCKS = 64, 16
TOTAL = THREADS * BLOCKS
Executor = Callable[..., object]


def bits_of(kind: str) -> int:
    """The width of a PTX type."""
    if kind == "pred":
        return 1
    if kind.startswith(("e4m3", "e5m2")):
        return 16
    base, _, packed = kind.partition("x")
    return int(re.sub(r"\D", "", base)) * int(packed or 1)


def is_float(kind: str) -> bool:
    """Whether a scalar type is a floating-point one."""
    return kind in FORMATS


def wrap(value: int, kind: str) -> int:
    """An integer as a type of this width holds it."""
    bits = bits_of(kind)
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value


def decode(bits: int, kind: str) -> Any:
    """The Python value of a register's bits."""
    if kind == "pred":
        return bool(bits)
    if "x2" in kind:
        part = kind.removesuffix("x2")
        width = bits_of(kind) // 2
        return tuple(decode(bits >> width * i & (1 << width) - 1, part) for i in range(2))
    if kind == "f32":
        return struct.unpack("<f", struct.pack("<I", bits))[0]
    if kind == "f64":
        return struct.unpack("<d", struct.pack("<Q", bits))[0]
    if is_float(kind):
        return FORMATS[kind].decode(bits)
    return wrap(bits, kind)


def encode(value: Any, kind: str) -> int:
    """The bits of a Python value."""
    if kind == "pred":
        return int(value)
    if "x2" in kind:
        low, high = (encode(part, kind.removesuffix("x2")) for part in value)
        return low | high << bits_of(kind) // 2
    if is_float(kind):
        return FORMATS[kind].encode(value)
    return value & (1 << bits_of(kind)) - 1


@dataclass(frozen=True)
class Within:
    """A reference that the ISA gives by a bound: any result from `low` to `high`."""

    low: float
    high: float

    @classmethod
    def around(cls, exact: float, *, relative: float = 0.0, absolute: float = 0.0) -> Within:
        """`exact` with the error allowed."""
        slack = abs(exact) * relative + absolute
        return cls(exact - slack, exact + slack)

    def admits(self, value: float) -> bool:
        return self.low <= value <= self.high


def agrees(got: int, want: Any, kind: str) -> bool:
    """Whether result bits are what the reference says. Any NaN is as good as another."""
    if isinstance(want, Within):
        return want.admits(decode(got, kind))
    if "x2" in kind and isinstance(want, tuple):
        width, part = bits_of(kind) // 2, kind.removesuffix("x2")
        mask = (1 << width) - 1
        return all(agrees(got >> width * i & mask, w, part) for i, w in enumerate(want))
    if isinstance(want, float) and math.isnan(want):
        return math.isnan(decode(got, kind))
    return got == encode(want, kind)


# --- operands -------------------------------------------------------------------------------------

_FLOAT_EDGES = (0.0, 1.0, 1.5, 2.0, 3.0, 0.5, 1 / 3, 255.0, 65504.0)


def _float_edges(kind: str) -> list[float]:
    form = FORMATS[kind]
    least = math.ldexp(form.tiny, -form.mantissa)
    ulp = 2.0**-form.mantissa
    sizes = [*map(form.rounded, _FLOAT_EDGES), 1 + ulp, 1 - ulp / 2, form.tiny]
    sizes += [least, form.tiny - least, form.largest, math.inf]
    return [s * x for x in sizes for s in (1, -1)] + [math.nan]


def edges(kind: str) -> list[Any]:
    """The values where an instruction on this type may go wrong."""
    if kind == "pred":
        return [False, True]
    if "x2" in kind:
        values = edges(kind.removesuffix("x2"))
        return [(a, values[-1 - i]) for i, a in enumerate(values)]
    if is_float(kind):
        return _float_edges(kind)
    bits = bits_of(kind)
    half = 1 << (bits - 1)
    raw = [0, 1, 2, 3, 7, bits - 1, bits, half - 1, half, half + 1, 2 * half - 2, 2 * half - 1]
    return [wrap(value, kind) for value in dict.fromkeys(raw)]


def _random_value(kind: str, rng: random.Random) -> Any:
    if "x2" in kind:
        return tuple(_random_value(kind.removesuffix("x2"), rng) for _ in range(2))
    bits = rng.getrandbits(bits_of(kind))
    if is_float(kind) and rng.random() < 0.5:  # of a size at which sums and products are finite
        form = FORMATS[kind]
        return form.rounded(math.ldexp(rng.uniform(-1, 1), rng.randint(-8, 8)))
    if not is_float(kind) and kind != "pred":
        bits >>= rng.choice((0, 0, bits_of(kind) // 2, bits_of(kind) - 4))
    return decode(bits, kind)


@dataclass(frozen=True)
class Domain:
    """An operand: its PTX type, and the values it takes (edges first, then random ones)."""

    kind: str
    values: tuple[Any, ...] = ()

    def edges(self) -> list[Any]:
        return list(self.values) or edges(self.kind)

    def draw(self, rng: random.Random) -> Any:
        return rng.choice(self.values) if self.values else _random_value(self.kind, rng)


AMOUNT = Domain("u32", (0, 1, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1))


def _tuples(domains: Sequence[Domain], rng: random.Random) -> list[tuple[Any, ...]]:
    """Operand tuples for every thread: edges against edges, then random ones."""
    pairs = list(product(*(d.edges() for d in domains)))
    rng.shuffle(pairs)
    chosen = pairs[: TOTAL * 3 // 4] if len(domains) > 1 else pairs
    while len(chosen) < TOTAL:
        chosen.append(tuple(d.draw(rng) for d in domains))
    return chosen[:TOTAL]


# --- instructions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """An instruction: `template` with {d} {e} for results and {a} {b} {c} {f} for operands.

    `expect` gives the result (a tuple of two where there are two) from the operands' values.
    """

    template: str
    results: tuple[str, ...]
    operands: tuple[Domain, ...]
    expect: Callable[..., Any]
    immediates: bool = True
    name: str = ""

    @property
    def id(self) -> str:
        return self.name or re.sub(r"[{},;]", "", self.template)


def op(
    name: str,
    result: str | tuple[str, ...],
    operands: Sequence[str | Domain],
    expect: Callable[..., Any],
    *,
    template: str = "",
    immediates: bool = True,
) -> Op:
    """An op whose text is `name d, a, b, …;` unless `template` says otherwise."""
    domains = tuple(Domain(o) if isinstance(o, str) else o for o in operands)
    places = ", ".join("{" + p + "}" for p in "abcf"[: len(domains)])
    results = (result,) if isinstance(result, str) else result
    text = template or f"{name} {'|'.join(('{d}', '{e}')[: len(results)])}, {places};"
    return Op(text, results, domains, expect, immediates, name)


@dataclass
class _Operand:
    """Text for an operand, and its value in every thread."""

    text: str
    values: list[Any]


@dataclass
class _Slot:
    """One execution of an op: where its results are, and the operands of each thread."""

    op: Op
    way: str
    places: list[tuple[str, int]]
    operands: list[_Operand]


_CONTAINERS = {1: "pred", 16: "b16", 32: "b32", 64: "b64"}


class _Text:
    """The kernel's text as it grows."""

    def __init__(self) -> None:
        self.registers: list[str] = []
        self.lines: list[str] = []
        self._count = 0

    def register(self, kind: str) -> str:
        """Declare a register."""
        self._count += 1
        name = f"%x{self._count}"
        declared = kind if kind in ("f32", "f64", "pred") or kind[0] in "usb" else None
        if declared is None or "x" in kind or kind in ("u8", "s8", "b8") or kind.startswith("bf"):
            declared = _CONTAINERS[max(bits_of(kind), 16)]
        self.registers.append(f".reg .{declared} {name};")
        return name

    def emit(self, *lines: str) -> None:
        self.lines += lines


@dataclass
class Section:
    """The ops of one kernel and, once run, what each gave."""

    name: str
    ops: Sequence[Op]
    target: str = "sm_90"
    version: str = "8.6"
    _results: dict[int, dict[str, list[tuple[_Slot, list[np.ndarray]]]]] = field(default_factory=dict)

    def check(self, executor: Executor, op: Op) -> None:
        """Run the section's kernel if that is still to do, and compare what `op` gave."""
        key = id(executor)
        if key not in self._results:
            self._results[key] = _run(self, executor)
        outcomes = self._results[key][op.id]
        assert outcomes
        known: dict[Any, Any] = {}
        for slot, arrays in outcomes:
            _compare(slot, arrays, known)


def _compare(slot: _Slot, arrays: list[np.ndarray], known: dict[Any, Any]) -> None:
    columns = [operand.values for operand in slot.operands]
    for thread in range(TOTAL):
        values = tuple(column[thread] for column in columns)
        key = repr(values)  # tells 0.0 from -0.0, and NaN is NaN
        if key not in known:
            known[key] = slot.op.expect(*values)
        want = known[key]
        wants = want if len(slot.op.results) > 1 else (want,)
        for kind, array, one in zip(slot.op.results, arrays, wants, strict=True):
            bits = int(array[thread])
            assert agrees(bits, one, kind), (
                f"{slot.op.id} [{slot.way}] thread {thread}: operands {values!r} give "
                f"{decode(bits, kind)!r} ({bits:#x}), the ISA says {one!r}"
            )


def _run(section: Section, executor: Executor) -> dict[str, list[tuple[_Slot, list[np.ndarray]]]]:
    builder = _Builder(section)
    text = builder.text()
    outputs = {b: np.zeros(max(n, 1) * TOTAL, f"u{b // 8}") for b, n in builder.used.items()}
    artifact = artifact_from_ptx(text, "kernel")
    launch = Launch(grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1))
    executor(artifact, launch, [builder.data(), *outputs.values()])
    found: dict[str, list[tuple[_Slot, list[np.ndarray]]]] = {}
    for slot in builder.slots:
        arrays = []
        for kind, place in slot.places:
            bits = _stored_bits(kind)
            arrays.append(outputs[bits][place * TOTAL : (place + 1) * TOTAL])
        found.setdefault(slot.op.id, []).append((slot, arrays))
    return found


def _stored_bits(kind: str) -> int:
    return 32 if kind == "pred" else max(16, bits_of(kind))


class _Builder:
    """Writes a section's kernel: operands once for all ops that take the same, then each op."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self.t = _Text()
        self.rng = random.Random(zlib.crc32(section.name.encode()))
        self.slots: list[_Slot] = []
        self.used = {16: 0, 32: 0, 64: 0}
        self._data = bytearray()
        self._tables: list[int] | None = None

    def data(self) -> np.ndarray:
        """The input array."""
        return np.frombuffer(bytes(self._data).ljust(8, b"\0"), np.uint8).copy()

    def text(self) -> str:
        """The whole PTX file."""
        groups: dict[tuple[Domain, ...], list[Op]] = {}
        for one in self.section.ops:
            groups.setdefault(one.operands, []).append(one)
        self._prologue()
        for domains, ops in groups.items():
            self._group(domains, ops)
        declared = "\n".join(self.t.registers)
        body = "\n".join(self.t.lines)
        return (
            f".version {self.section.version}\n.target {self.section.target}\n.address_size 64\n"
            ".visible .entry kernel(.param .u64 data, .param .u64 out16, .param .u64 out32,"
            " .param .u64 out64)\n{\n"
            ".reg .b32 %tid, %ctaid, %gid;\n.reg .b64 %data, %at<10>, %out16, %out32, %out64;\n"
            f"{declared}\n{body}\nret;\n}}\n"
        )

    def _prologue(self) -> None:
        emit = self.t.emit
        emit("mov.u32 %tid, %tid.x;", "mov.u32 %ctaid, %ctaid.x;")
        emit(f"mad.lo.u32 %gid, %ctaid, {THREADS}, %tid;")
        for name in ("data", "out16", "out32", "out64"):
            emit(f"ld.param.u64 %{name}, [{name}];", f"cvta.to.global.u64 %{name}, %{name};")
        for size in (2, 4, 8):
            emit(f"mad.wide.u32 %at{size}, %gid, {size}, %data;")
            emit(f"mul.wide.u32 %at1, %ctaid, {size};", f"add.s64 %at{size + 1}, %at1, %data;")
        # The thread's number again, from memory: stores at addresses that nobody knows beforehand
        # share their code in the emulator, which compiles three times as fast.
        place = self._place(range(TOTAL), "u32")
        emit(f"ld.global.u32 %gid, [%at4+{place}];")
        for size in (2, 4, 8):
            emit(f"mad.wide.u32 %out{8 * size}, %gid, {size}, %out{8 * size};")

    # --- operands -----------------------------------------------------------------------------

    def _place(self, values: Sequence[Any], kind: str) -> int:
        """Put numbers in the input array; returns where."""
        size = _stored_bits(kind) // 8
        while len(self._data) % 8:
            self._data.append(0)
        place = len(self._data)
        for value in values:
            self._data += encode(value, kind).to_bytes(size, "little")
        return place

    def _loaded(self, values: Sequence[Any], kind: str, base: str, spelling: str) -> str:
        place = self._place(values, kind)
        if kind == "pred":
            number, truth = self.t.register("b32"), self.t.register("pred")
            self.t.emit(f"ld.global.b32 {number}, [{base}+{place}];")
            self.t.emit(f"setp.ne.b32 {truth}, {number}, 0;")
            return truth
        register = self.t.register(kind if spelling == "typed" else f"b{_stored_bits(kind)}")
        loaded = kind if is_float(kind) or kind[0] in "us" and "x" not in kind else ""
        if not loaded or spelling != "typed" or kind in ("f16", "bf16", "u8", "s8"):
            loaded = f"b{_stored_bits(kind)}"
        self.t.emit(f"ld.global.{loaded} {register}, [{base}+{place}];")
        return register

    def _varying(self, values: list[Any], kind: str) -> _Operand:
        base = f"%at{_stored_bits(kind) // 8}"
        return _Operand(self._loaded(values, kind, base, "typed"), values)

    def _uniform(self, values: list[Any], kind: str) -> _Operand:
        chosen = values[:BLOCKS]
        base = f"%at{_stored_bits(kind) // 8 + 1}"
        register = self._loaded(chosen, kind, base, "untyped")
        return _Operand(register, [chosen[g // THREADS] for g in range(TOTAL)])

    def _known(self, values: list[Any], domain: Domain) -> _Operand | None:
        """A value that follows from %tid: one of 16 numbers, picked by its low bits."""
        kind = domain.kind
        if bits_of(kind) > 32 and is_float(kind):
            return None
        wide = bits_of(kind) > 32
        narrow = f"{kind[0]}32" if wide else kind
        raw = [encode(v, narrow) for v in values[:16]] if not wide else [
            encode(v, narrow) for v in values[:16]
        ]
        t = self.t
        total, one, lane = (t.register("b32") for _ in range(3))
        t.emit(f"mov.b32 {total}, 0;", f"and.b32 {lane}, %tid, 15;")
        for i, number in enumerate(raw):
            t.emit(f"xor.b32 {one}, {lane}, {i};", f"min.u32 {one}, {one}, 1;")
            t.emit(f"sub.s32 {one}, {one}, 1;", f"and.b32 {one}, {one}, {number};")
            t.emit(f"or.b32 {total}, {total}, {one};")
        result = total
        if kind == "pred":
            result = t.register("pred")
            t.emit(f"setp.ne.u32 {result}, {total}, 0;")
        elif wide:
            result = t.register(f"b{bits_of(kind)}")
            t.emit(f"cvt.{'s64.s32' if kind[0] == 's' else 'u64.u32'} {result}, {total};")
        elif bits_of(kind) <= 16:
            result = t.register("b16")
            t.emit(f"cvt.u16.u32 {result}, {total};")
        decoded = [decode(b if not wide else wrap(b, narrow) & 2**64 - 1, kind) for b in raw]
        return _Operand(result, [decoded[g % THREADS % 16] for g in range(TOTAL)])

    def _affine(self, values: list[Any], domain: Domain, step: int) -> _Operand | None:
        """One number for the block plus a step a thread."""
        kind = domain.kind
        if is_float(kind) or "x" in kind or bits_of(kind) < 16 or domain.values:
            return None
        start = self._uniform(values, kind)
        bits = bits_of(kind)
        t = self.t
        tid, result = t.register(f"b{bits}"), t.register(f"b{bits}")
        t.emit(f"mov.b32 {tid}, %tid;" if bits == 32 else f"cvt.u{bits}.u32 {tid}, %tid;")
        sign = "s" if bits > 16 else "u"
        t.emit(f"mad.lo.{sign}{bits} {result}, {tid}, {step}, {start.text};")
        moved = [wrap(v + step * (g % THREADS), kind) for g, v in enumerate(start.values)]
        return _Operand(result, moved)

    def _immediate(self, value: Any, kind: str) -> _Operand:
        if kind in ("f32", "f64"):
            bits = bits_of(kind)
            text = f"0{'f' if bits == 32 else 'd'}{encode(value, kind):0{bits // 4}X}"
        else:
            text = str(encode(value, kind) if kind[0] != "s" else value)
        return _Operand(text, [value] * TOTAL)

    # --- instructions -------------------------------------------------------------------------

    def _group(self, domains: tuple[Domain, ...], ops: Sequence[Op]) -> None:
        tuples = _tuples(domains, self.rng)
        columns = [list(column) for column in zip(*tuples, strict=True)]
        shuffled = [self.rng.sample(c, len(c)) for c in columns]
        varying = [self._varying(c, d.kind) for c, d in zip(columns, domains, strict=True)]
        uniform = [self._uniform(c, d.kind) for c, d in zip(columns, domains, strict=True)]
        known = [
            self._known(c, d) or u for c, d, u in zip(shuffled, domains, uniform, strict=True)
        ]
        affine = [
            self._affine(c, d, step) or u
            for c, d, u, step in zip(shuffled, domains, uniform, (1, -3, 4, 2), strict=False)
        ]
        ways = {"varying": varying, "uniform": uniform, "known": known, "affine": affine}
        if len(domains) > 1:
            kinds = [varying, uniform, known, affine]
            for shift in range(2):
                mixed = [kinds[(2 * i + shift + 1) % 4][i] for i in range(len(domains))]
                ways[f"mixed {shift}"] = mixed
        for one in ops:
            for way, operands in ways.items():
                self._execute(one, way, operands)
            if one.immediates:
                self._with_immediates(one, [varying, uniform, known, affine])

    def _with_immediates(self, one: Op, kinds: list[list[_Operand]]) -> None:
        """The last operand as an immediate, the others of each kind in turn."""
        last = one.operands[-1]
        if last.kind in ("pred", "f16", "bf16", "u8", "s8") or "x" in last.kind:
            return
        literals = [v for v in last.edges() if not (is_float(last.kind) and math.isnan(v))]
        for number, others in enumerate(kinds if len(one.operands) > 1 else kinds[:1]):
            value = self.rng.choice(literals)
            operands = [*others[: len(one.operands) - 1], self._immediate(value, last.kind)]
            self._execute(one, f"immediate {number}", operands)

    def _execute(self, one: Op, way: str, operands: list[_Operand]) -> None:
        results = [self.t.register(kind) for kind in one.results]
        names = dict(zip("abcf", (o.text for o in operands), strict=False))
        names |= dict(zip("de", results, strict=False))
        self.t.emit(re.sub(r"\{(\w)\}", lambda m: names[m[1]], one.template))
        places = []
        for kind, register in zip(one.results, results, strict=True):
            bits = _stored_bits(kind)
            if kind == "pred":
                number = self.t.register("b32")
                self.t.emit(f"selp.b32 {number}, 1, 0, {register};")
                register = number
            place = self.used[bits]
            self.used[bits] += 1
            at = place * TOTAL * bits // 8
            self.t.emit(f"st.global.b{bits} [%out{bits}+{at}], {register};")
            places.append((kind, place))
        self.slots.append(_Slot(one, way, places, operands))


def parameters(section: Section) -> Iterable[Any]:
    """The ops of a section as pytest parameters."""
    import pytest

    return [pytest.param(one, id=one.id) for one in section.ops]


def half(bits: int) -> float:
    """A float16 by its bits."""
    return F16.decode(bits)

"""One PTX kernel that runs many instructions on many operands, and the check of what they give.

An `Op` is an instruction with its operand types and a reference written from the PTX ISA. `Section`
puts its ops in one kernel, where each runs in several *ways*, because the emulator has a code path
for each: operands that vary from lane to lane, that are one number for the warp, that follow from
%tid (so that they are known when the kernel is compiled), that are one number plus a step a lane,
and immediates.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ptx_values import Domain, agrees, bits_of, decode, encode, is_float, wrap

from tilewright.launch import Launch
from tilewright.toolchain import artifact_from_ptx

THREADS, BLOCKS = 64, 16
TOTAL = THREADS * BLOCKS
Executor = Callable[..., object]


@dataclass(frozen=True)
class Op:
    """An instruction: `template` with {d} {e} for results and {a} {b} {c} {f} for operands.

    `expect` gives the result (a tuple of two where there are two) from the operands' values.
    """

    name: str
    template: str
    results: tuple[str, ...]
    operands: tuple[Domain, ...]
    expect: Callable[..., Any]


def op(
    name: str,
    result: str | tuple[str, ...],
    operands: Sequence[str | Domain],
    expect: Callable[..., Any],
    *,
    template: str = "",
) -> Op:
    """An op whose text is `name d, a, b, …;` unless `template` says otherwise."""
    domains = tuple(Domain(o) if isinstance(o, str) else o for o in operands)
    places = ", ".join("{" + p + "}" for p in "abcf"[: len(domains)])
    results = (result,) if isinstance(result, str) else result
    text = template or f"{name} {'|'.join(('{d}', '{e}')[: len(results)])}, {places};"
    return Op(name, text, results, domains, expect)


def _tuples(domains: Sequence[Domain], rng: random.Random) -> list[tuple[Any, ...]]:
    """Operand tuples for every thread: edges against edges, then random ones."""
    pairs = list(product(*(d.edges() for d in domains)))
    rng.shuffle(pairs)
    chosen = pairs[: TOTAL * 3 // 4] if len(domains) > 1 else pairs
    while len(chosen) < TOTAL:
        chosen.append(tuple(d.draw(rng) for d in domains))
    return chosen[:TOTAL]


Bits = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class _Operand:
    """Text for an operand, and its bits in every thread."""

    text: str
    bits: Bits


class _Way:
    """One way to give an op its operands: their texts, and the distinct values of threads."""

    def __init__(self, name: str, operands: Sequence[_Operand], domains: Sequence[Domain]) -> None:
        self.name = name
        self.texts = [operand.text for operand in operands]
        table = np.stack([operand.bits for operand in operands])
        distinct, self.index = np.unique(table, axis=1, return_inverse=True)
        self.index = self.index.reshape(-1)
        kinds = [domain.kind for domain in domains]
        self.values = [
            tuple(decode(int(b), k) for b, k in zip(row, kinds, strict=True)) for row in distinct.T
        ]


@dataclass(frozen=True)
class _Slot:
    """One execution of an op: its operands, and where each of its results is."""

    op: Op
    way: _Way
    places: list[tuple[int, int]]


class Section:
    """The ops of one kernel and, once run, what each gave."""

    def __init__(
        self, name: str, ops: Sequence[Op], *, target: str = "sm_90", version: str = "8.6"
    ) -> None:
        self.name, self.ops, self.target, self.version = name, ops, target, version
        self._done: dict[int, dict[str, list[tuple[_Way, list[Bits]]]]] = {}

    def check(self, executor: Executor, one: Op) -> None:
        """Run the section's kernel if that is still to do, and compare what `one` gave."""
        key = id(executor)
        if key not in self._done:
            self._done[key] = self._run(executor)
        outcomes = self._done[key][one.name]
        assert outcomes
        for way, results in outcomes:
            _compare(one, way, results)

    def _run(self, executor: Executor) -> dict[str, list[tuple[_Way, list[Bits]]]]:
        builder = _Builder(self)
        artifact = artifact_from_ptx(builder.text(), "kernel")
        outputs = {b: np.zeros(max(n, 1) * TOTAL, f"u{b // 8}") for b, n in builder.used.items()}
        launch = Launch(grid=(BLOCKS, 1, 1), block=(THREADS, 1, 1))
        executor(artifact, launch, [builder.data(), *outputs.values()])
        found: dict[str, list[tuple[_Way, list[Bits]]]] = {}
        for slot in builder.slots:
            results = [outputs[b][n * TOTAL : (n + 1) * TOTAL] for b, n in slot.places]
            wide = [r.astype(np.uint64) for r in results]
            found.setdefault(slot.op.name, []).append((slot.way, wide))
        return found


def _compare(one: Op, way: _Way, results: Sequence[Bits]) -> None:
    wants = [one.expect(*values) for values in way.values]
    for number, (kind, got) in enumerate(zip(one.results, results, strict=True)):
        column = [want[number] if len(one.results) > 1 else want for want in wants]
        exact = np.array([encode(want, kind) for want in column], np.uint64)
        differs = got != exact[way.index]
        for thread in np.flatnonzero(differs):
            bits, which = int(got[thread]), way.index[thread]
            assert agrees(bits, column[which], kind), (
                f"{one.name} [{way.name}] thread {thread}: operands {way.values[which]!r} give "
                f"{decode(bits, kind)!r} ({bits:#x}), the ISA says {column[which]!r}"
            )


def _stored_bits(kind: str) -> int:
    return 32 if kind == "pred" else max(16, bits_of(kind))


def _register_type(kind: str) -> str:
    """The type to declare a register with that holds values of `kind`."""
    if kind in ("pred", "f32", "f64") or re.fullmatch(r"[usb](16|32|64)", kind):
        return kind
    return f"b{_stored_bits(kind)}"


class _Builder:
    """Writes a section's kernel: operands once for all ops that take the same, then each op."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self.rng = random.Random(zlib.crc32(section.name.encode()))
        self.slots: list[_Slot] = []
        self.used = {16: 0, 32: 0, 64: 0}
        self._data = bytearray()
        self._registers: list[str] = []
        self._lines: list[str] = []

    def data(self) -> npt.NDArray[np.uint8]:
        """The input array."""
        return np.frombuffer(bytes(self._data), np.uint8).copy()

    def text(self) -> str:
        """The whole PTX file."""
        groups: dict[tuple[Domain, ...], list[Op]] = {}
        for one in self.section.ops:
            groups.setdefault(one.operands, []).append(one)
        self._prologue()
        for domains, ops in groups.items():
            self._group(domains, ops)
        body = "\n".join([*self._registers, *self._lines])
        return (
            f".version {self.section.version}\n.target {self.section.target}\n.address_size 64\n"
            ".visible .entry kernel(.param .u64 data, .param .u64 out16, .param .u64 out32,"
            " .param .u64 out64)\n{\n"
            ".reg .b32 %thread, %cta, %gid;\n.reg .b64 %data, %at<10>, %out16, %out32, %out64;\n"
            f"{body}\nret;\n}}\n"
        )

    def _emit(self, *lines: str) -> None:
        self._lines += lines

    def _register(self, kind: str) -> str:
        name = f"%x{len(self._registers)}"
        self._registers.append(f".reg .{_register_type(kind)} {name};")
        return name

    def _prologue(self) -> None:
        """Addresses: %at2, 4, 8 of a thread's own operand of that size, %at3, 5, 9 of its block's.

        The address of the results goes through a number read from memory: stores at addresses that
        are not known beforehand share their code in the emulator, and compile five times as fast.
        """
        emit = self._emit
        emit("mov.u32 %thread, %tid.x;", "mov.u32 %cta, %ctaid.x;")
        emit(f"mad.lo.u32 %gid, %cta, {THREADS}, %thread;")
        for name in ("data", "out16", "out32", "out64"):
            emit(f"ld.param.u64 %{name}, [{name}];", f"cvta.to.global.u64 %{name}, %{name};")
        for size in (2, 4, 8):
            emit(f"mad.wide.u32 %at{size}, %gid, {size}, %data;")
            emit(f"mad.wide.u32 %at{size + 1}, %cta, {size}, %data;")
        place = self._place(np.arange(TOTAL, dtype=np.uint64), 32)
        emit(f"ld.global.u32 %gid, [%at4+{place}];")
        for size in (2, 4, 8):
            emit(f"mad.wide.u32 %out{8 * size}, %gid, {size}, %out{8 * size};")

    # --- operands -----------------------------------------------------------------------------

    def _place(self, bits: Bits, width: int) -> int:
        """Put numbers in the input array; returns where."""
        self._data += bytes(-len(self._data) % 8)
        place = len(self._data)
        self._data += bits.astype(f"u{width // 8}").tobytes()
        return place

    def _loaded(self, bits: Bits, kind: str, base: str, *, typed: bool) -> str:
        """A register loaded from the input array, spelled with its type or as sm_100 does."""
        width = _stored_bits(kind)
        place = self._place(bits, width)
        spelled = _register_type(kind) if typed and kind != "pred" else f"b{width}"
        register = self._register(spelled)
        self._emit(f"ld.global.{spelled} {register}, [{base}+{place}];")
        return self._truth(register) if kind == "pred" else register

    def _truth(self, number: str) -> str:
        predicate = self._register("pred")
        self._emit(f"setp.ne.b32 {predicate}, {number}, 0;")
        return predicate

    def _varying(self, bits: Bits, kind: str) -> _Operand:
        base = f"%at{_stored_bits(kind) // 8}"
        return _Operand(self._loaded(bits, kind, base, typed=True), bits)

    def _uniform(self, bits: Bits, kind: str) -> _Operand:
        base = f"%at{_stored_bits(kind) // 8 + 1}"
        register = self._loaded(bits[:BLOCKS], kind, base, typed=False)
        return _Operand(register, np.repeat(bits[:BLOCKS], THREADS))

    def _known(self, bits: Bits, kind: str) -> _Operand | None:
        """One of 16 numbers, picked by the low bits of %tid. 64 bits are 32 extended."""
        width = bits_of(kind)
        if width == 64 and kind[0] not in "bsu":
            return None
        total, one, lane = (self._register("b32") for _ in range(3))
        self._emit(f"mov.b32 {total}, 0;", f"and.b32 {lane}, %thread, 15;")
        for i, number in enumerate(bits[:16]):
            self._emit(f"xor.b32 {one}, {lane}, {i};", f"min.u32 {one}, {one}, 1;")
            self._emit(f"sub.s32 {one}, {one}, 1;")
            self._emit(f"and.b32 {one}, {one}, {int(number) & 0xFFFFFFFF};")
            self._emit(f"or.b32 {total}, {total}, {one};")
        chosen = bits[:16]
        if kind == "pred":
            return _Operand(self._truth(total), np.tile(chosen, TOTAL // 16))
        result = total
        if width == 64:
            source = "s32" if kind[0] == "s" else "u32"
            chosen = np.array([wrap(int(b), source) & 2**64 - 1 for b in chosen], np.uint64)
            result = self._register("b64")
            self._emit(f"cvt.{kind[0].replace('b', 'u')}64.{source} {result}, {total};")
        elif width <= 16:
            result = self._register("b16")
            self._emit(f"cvt.u16.u32 {result}, {total};")
        return _Operand(result, np.tile(chosen, TOTAL // 16))

    def _affine(self, bits: Bits, domain: Domain, step: int) -> _Operand | None:
        """One number for the block plus a step a thread."""
        kind, width = domain.kind, bits_of(domain.kind)
        if is_float(kind) or "x" in kind or width < 16 or domain.values:
            return None
        start = self._uniform(bits, kind)
        lane, result = self._register(f"b{width}"), self._register(f"b{width}")
        self._emit(
            f"mov.b32 {lane}, %thread;" if width == 32 else f"cvt.u{width}.u32 {lane}, %thread;"
        )
        self._emit(f"mad.lo.s{width} {result}, {lane}, {step}, {start.text};")
        thread = np.arange(TOTAL, dtype=np.int64) % THREADS
        moved = start.bits + (thread * step).view(np.uint64)
        return _Operand(result, moved & np.uint64((1 << width) - 1))

    @staticmethod
    def _immediate(value: Any, kind: str) -> _Operand:
        bits = encode(value, kind)
        text = str(value)
        if kind in ("f32", "f64"):
            text = f"0f{bits:08X}" if kind == "f32" else f"0d{bits:016X}"
        return _Operand(text, np.full(TOTAL, bits, np.uint64))

    # --- instructions -------------------------------------------------------------------------

    def _group(self, domains: tuple[Domain, ...], ops: Sequence[Op]) -> None:
        kinds = [domain.kind for domain in domains]
        columns = [
            np.array([encode(value, kind) for value in column], np.uint64)
            for column, kind in zip(
                zip(*_tuples(domains, self.rng), strict=True), kinds, strict=True
            )
        ]
        varying = [self._varying(c, k) for c, k in zip(columns, kinds, strict=True)]
        uniform = [self._uniform(self._picked(d), d.kind) for d in domains]
        known, affine = [], []
        for place, domain in enumerate(domains):
            bits = self._picked(domain)
            known.append(self._known(bits, domain.kind) or uniform[place])
            affine.append(self._affine(bits, domain, (1, -3, 4, 2)[place]) or uniform[place])
        forms = {"varying": varying, "uniform": uniform, "known": known, "affine": affine}
        every = [varying, uniform, known, affine]
        forms["mixed"] = [every[(3 * i + len(self.slots)) % 4][i] for i in range(len(domains))]
        distinct = {tuple(o.text for o in form): (name, form) for name, form in forms.items()}
        ways = [_Way(name, form, domains) for name, form in distinct.values()]
        for one in ops:
            for way in ways:
                self._execute(one, way)
            self._with_immediate(one, every)

    def _picked(self, domain: Domain) -> Bits:
        """Sixteen values of a domain, half of them edges."""
        known = domain.edges()
        values = self.rng.sample(known, min(8, len(known)))
        values += [domain.draw(self.rng) for _ in range(16 - len(values))]
        self.rng.shuffle(values)
        return np.array([encode(v, domain.kind) for v in values], np.uint64)

    def _with_immediate(self, one: Op, every: list[list[_Operand]]) -> None:
        """The last operand as an immediate, the others in each form in turn."""
        last = one.operands[-1]
        if not last.immediates():
            return
        immediate = self._immediate(self.rng.choice(last.immediates()), last.kind)
        others = every[len(self.slots) % 4][: len(one.operands) - 1]
        self._execute(one, _Way(f"immediate {immediate.text}", [*others, immediate], one.operands))

    def _execute(self, one: Op, way: _Way) -> None:
        results = [self._register(kind) for kind in one.results]
        names = dict(
            zip("abcfde", [*way.texts, *[""] * (4 - len(way.texts)), *results], strict=False)
        )
        self._emit(re.sub(r"\{(\w)\}", lambda m: names[m[1]], one.template))
        places = []
        for kind, result in zip(one.results, results, strict=True):
            width, register = _stored_bits(kind), result
            if kind == "pred":
                register = self._register("b32")
                self._emit(f"selp.b32 {register}, 1, 0, {result};")
            at = self.used[width] * TOTAL * width // 8
            self._emit(f"st.global.b{width} [%out{width}+{at}], {register};")
            places.append((width, self.used[width]))
            self.used[width] += 1
        self.slots.append(_Slot(one, way, places))


def parameters(sections: Sequence[Section]) -> list[Any]:
    """Every op of some sections, as pytest parameters (section, op)."""
    return [pytest.param(s, one, id=one.name) for s in sections for one in s.ops]


def pairwise(one: Callable[..., Any]) -> Callable[..., Any]:
    """A reference for packed operands, from that of their halves."""
    return lambda *pairs: tuple(one(*halves) for halves in zip(*pairs, strict=True))

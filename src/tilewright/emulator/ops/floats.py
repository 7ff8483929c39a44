"""float32 and float64 instructions (PTX ISA 9.7.3), each rounded once as the ISA says.

`.approx` forms give the correctly rounded result, or the host libm's: within the error that the
ISA states, not the bits of any GPU.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator.codegen import DOUBLE, FLOAT, I32, I64, Emitter, element, like
from tilewright.emulator.ops.table import elementwise, unsupported
from tilewright.toolchain.ptx.ir import Instruction

_DIRECTED = frozenset({"rz", "rm", "rp"})


def flush(e: Emitter, x: ir.Value) -> ir.Value:
    """Subnormals to zero of their sign."""
    tiny = e.b.fcmp_ordered("<", e.intrinsic("llvm.fabs", [x]), e.const(x, 2.0**-126))
    return e.select(tiny, e.intrinsic("llvm.copysign", [e.const(x, 0.0), x]), x)


def saturate(e: Emitter, x: ir.Value) -> ir.Value:
    """Clamp to [0, 1], NaN to 0."""
    low = e.select(e.b.fcmp_ordered(">", x, e.const(x, 0.0)), x, e.const(x, 0.0))
    return e.select(e.b.fcmp_ordered("<", low, e.const(x, 1.0)), low, e.const(x, 1.0))


def finish(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    """Apply the `.ftz` and `.sat` of an instruction to its result."""
    if "ftz" in ins.flags:
        x = flush(e, x)
    return saturate(e, x) if "sat" in ins.flags else x


def inputs(e: Emitter, ins: Instruction, *values: ir.Value) -> tuple[ir.Value, ...]:
    """The operands as the instruction sees them: flushed for `.ftz`."""
    return tuple(flush(e, v) for v in values) if "ftz" in ins.flags else values


def direction(ins: Instruction) -> str:
    """The rounding mode: rn where none is said."""
    return next((f for f in ins.flags if f in _DIRECTED), "rn")


def round_double(e: Emitter, x: ir.Value, mode: str) -> ir.Value:
    """Round float64 to float32: rn, rz, rm, rp, or `odd` (inexact results get an odd last bit).

    Rounding to odd first makes a second, narrower rounding exact.
    """
    near = e.b.fptrunc(x, like(x, FLOAT))
    if mode == "rn":
        return near
    back = e.b.fpext(near, x.type)
    bits = e.b.bitcast(near, like(x, I32))
    one = e.const(bits, 1)
    up, down = e.b.add(bits, one), e.b.sub(bits, one)  # away from zero, towards zero
    magnitude, wanted = (e.intrinsic("llvm.fabs", [v]) for v in (back, x))
    too_far = e.b.fcmp_ordered(">", magnitude, wanted)
    too_near = e.b.fcmp_ordered("<", magnitude, wanted)
    if mode == "odd":
        even = e.b.icmp_unsigned("==", e.b.and_(bits, one), e.const(bits, 0))
        moved = e.select(too_far, down, e.select(too_near, up, bits))
        return e.b.bitcast(e.select(even, moved, bits), near.type)
    negative = e.b.icmp_signed("<", bits, e.const(bits, 0))
    outward = {"rz": None, "rm": negative, "rp": e.b.not_(negative)}[mode]
    moved = e.select(too_far, down, bits)
    if outward is not None:
        moved = e.select(
            outward, e.select(too_near, up, bits), e.select(too_far, down, bits)
        )
    return e.b.bitcast(moved, near.type)


def _single_rounding(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value | None:
    """A directed rounding of float32 `mul`, whose product is exact in float64; None for rn."""
    mode = direction(ins)
    if mode == "rn":
        return None
    if element(args[0]) != FLOAT or ins.opcode != "mul":
        raise unsupported(ins, f"the rounding mode .{mode} of {ins.opcode}")
    wide = [e.b.fpext(a, like(a, DOUBLE)) for a in args]
    return round_double(e, e.b.fmul(*wide), mode)


@elementwise("add", "sub", "mul", family="float")
def arithmetic(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """One rounded operation."""
    a, b = inputs(e, ins, a, b)
    directed = _single_rounding(e, ins, a, b)
    if directed is None:
        directed = {"add": e.b.fadd, "sub": e.b.fsub, "mul": e.b.fmul}[ins.opcode](a, b)
    return finish(e, ins, directed)


@elementwise("fma", "mad", family="float")
def fma(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """a * b + c, rounded once."""
    if direction(ins) != "rn":
        raise unsupported(ins, f"the rounding mode .{direction(ins)} of {ins.opcode}")
    a, b, c = inputs(e, ins, a, b, c)
    return finish(e, ins, e.intrinsic("llvm.fma", [a, b, c]))


@elementwise("div", family="float")
def div(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """a / b, correctly rounded in every form."""
    if direction(ins) != "rn":
        raise unsupported(ins, f"the rounding mode .{direction(ins)} of div")
    a, b = inputs(e, ins, a, b)
    return finish(e, ins, e.b.fdiv(a, b))


def _unary(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    one = e.const(a, 1.0)
    match ins.opcode:
        case "rcp":
            return e.b.fdiv(one, a)
        case "sqrt":
            return e.intrinsic("llvm.sqrt", [a])
        case "rsqrt":
            return _reciprocal_root(e, a)
        case "ex2":
            return e.intrinsic("llvm.exp2", [a])
        case "lg2":
            return e.intrinsic("llvm.log2", [a])
        case "sin" | "cos":
            return e.intrinsic(f"llvm.{ins.opcode}", [a])
        case _:
            return e.intrinsic("llvm.tanh", [a])


def _reciprocal_root(e: Emitter, a: ir.Value) -> ir.Value:
    """1 / sqrt(a), through float64 for float32 so that it is rounded about once."""
    if element(a) != FLOAT:
        return e.b.fdiv(e.const(a, 1.0), e.intrinsic("llvm.sqrt", [a]))
    wide = e.b.fpext(a, like(a, DOUBLE))
    root = e.b.fdiv(e.const(wide, 1.0), e.intrinsic("llvm.sqrt", [wide]))
    return e.b.fptrunc(root, a.type)


@elementwise("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", family="float")
def function(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """A function of one number."""
    if direction(ins) != "rn":
        raise unsupported(ins, f"the rounding mode .{direction(ins)} of {ins.opcode}")
    (a,) = inputs(e, ins, a)
    return finish(e, ins, _unary(e, ins, a))


@elementwise("neg", family="float")
def neg(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """-a."""
    return e.b.fneg(*inputs(e, ins, a))


@elementwise("abs", family="float")
def abs_(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """|a|."""
    return e.intrinsic("llvm.fabs", list(inputs(e, ins, a)))


@elementwise("copysign", family="float")
def copysign(e: Emitter, _ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """b with the sign of a."""
    return e.intrinsic("llvm.copysign", [b, a])


def extreme(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """The smaller or larger: a NaN operand is ignored, or wins for .NaN; -0 is under +0."""
    larger = ins.opcode == "max"
    if "xorsign" in ins.flags:
        raise unsupported(ins, ".xorsign")
    ab = e.b.fcmp_ordered(">" if larger else "<", a, b)
    picked = e.select(ab, a, b)
    integer = like(a, {FLOAT: I32, DOUBLE: I64}[element(a)])
    join = e.b.and_ if larger else e.b.or_
    zeros = e.b.bitcast(join(e.b.bitcast(a, integer), e.b.bitcast(b, integer)), a.type)
    picked = e.select(e.b.fcmp_ordered("==", a, b), zeros, picked)
    a_nan, b_nan = e.b.fcmp_unordered("uno", a, a), e.b.fcmp_unordered("uno", b, b)
    if "NaN" in ins.flags:
        return e.select(a_nan, a, e.select(b_nan, b, picked))
    return e.select(a_nan, b, e.select(b_nan, a, picked))


@elementwise("min", "max", family="float")
def min_max(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """The extreme of two or three numbers."""
    result, *rest = inputs(e, ins, *args)
    for other in rest:
        result = extreme(e, ins, result, other)
    return result


_ORDERED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(e: Emitter, relation: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """a `relation` b; the `u` forms are true where either is NaN."""
    if relation == "num":
        return e.b.fcmp_ordered("ord", a, b)
    if relation == "nan":
        return e.b.fcmp_unordered("uno", a, b)
    if relation in _ORDERED:
        return e.b.fcmp_ordered(_ORDERED[relation], a, b)
    return e.b.fcmp_unordered(_ORDERED[relation[:-1]], a, b)


@elementwise("testp", family="float")
def testp(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """Whether a is finite, infinite, a number, not a number, normal or subnormal."""
    size = e.intrinsic("llvm.fabs", [a])
    infinity = e.const(a, float("inf"))
    least = e.const(a, 2.0**-126 if element(a) == FLOAT else 2.0**-1022)
    finite = e.b.fcmp_ordered("<", size, infinity)
    match ins.flags[0]:
        case "finite":
            return finite
        case "infinite":
            return e.b.fcmp_ordered("==", size, infinity)
        case "number":
            return e.b.fcmp_ordered("ord", a, a)
        case "notanumber":
            return e.b.fcmp_unordered("uno", a, a)
        case "normal":
            return e.b.and_(finite, e.b.fcmp_ordered(">=", size, least))
        case _:
            nonzero = e.b.fcmp_ordered(">", size, e.const(a, 0.0))
            return e.b.and_(nonzero, e.b.fcmp_ordered("<", size, least))

"""float32 and float64 instructions (PTX ISA 9.7.3), each rounded once as the ISA says.

`.approx` forms give the correctly rounded result, or the host libm's: within the error that the
ISA states, not the bits of any GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.emulator.codegen import DOUBLE, FLOAT, Emitter, element, integer_of, like
from tilewright.emulator.ops.rounding import directed, direction
from tilewright.emulator.ops.table import elementwise
from tilewright.toolchain.ptx.ir import Instruction

_LEAST_NORMAL = {FLOAT: 2.0**-126, DOUBLE: 2.0**-1022}


def flush(e: Emitter, x: ir.Value) -> ir.Value:
    """Turn subnormals into zero of their sign."""
    least = e.const(x, _LEAST_NORMAL[element(x)])
    tiny = e.b.fcmp_ordered("<", e.intrinsic("llvm.fabs", [x]), least)
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
    """Return the operands as the instruction sees them: flushed for `.ftz`."""
    return tuple(flush(e, v) for v in values) if "ftz" in ins.flags else values


def operation(
    e: Emitter, name: str, mode: str, args: Sequence[ir.Value], lane: ir.Type | None = None
) -> ir.Value:
    """Emit an arithmetic operation (fadd, fma, fptrunc, …) in a rounding mode."""
    if mode != "rn":
        return directed(e, name, mode, args, lane)
    if name in ("fma", "sqrt"):
        return e.intrinsic(f"llvm.{name}", args)
    if lane is not None:
        convert = {"fptrunc": e.b.fptrunc, "sitofp": e.b.sitofp, "uitofp": e.b.uitofp}[name]
        return convert(args[0], like(args[0], lane))
    plain = {"fadd": e.b.fadd, "fsub": e.b.fsub, "fmul": e.b.fmul, "fdiv": e.b.fdiv}
    return plain[name](*args)


# The operands to scale, for a result scaled alike. Sums that small are exact.
_SCALED = {"fmul": (0,), "fdiv": (0,), "fma": (0, 2), "fptrunc": (0,)}
_SCALE = 2.0**64


def rounded(
    e: Emitter, ins: Instruction, name: str, *args: ir.Value, lane: ir.Type | None = None
) -> ir.Value:
    """Emit an arithmetic operation in the instruction's rounding mode.

    `.ftz` flushes what would be subnormal were the exponent unbounded; some of that rounds up to
    the least normal number. Source: mul, fma and cvt next to 2^-126, measured on an H200.
    """
    mode = direction(ins)
    x = operation(e, name, mode, args, lane)
    if "ftz" not in ins.flags or name not in _SCALED or element(x) != FLOAT:
        return x
    large = [
        e.b.fmul(arg, e.const(arg, _SCALE)) if place in _SCALED[name] else arg
        for place, arg in enumerate(args)
    ]
    unbounded = operation(e, name, mode, large, lane)
    least = _LEAST_NORMAL[FLOAT]
    edge, tiny = (
        e.b.fcmp_ordered(order, e.intrinsic("llvm.fabs", [value]), e.const(x, bound))
        for order, value, bound in (("==", x, least), ("<", unbounded, least * _SCALE))
    )
    zero = e.intrinsic("llvm.copysign", [e.const(x, 0.0), x])
    return e.select(e.b.and_(edge, tiny), zero, x)


@elementwise("add", "sub", "mul", family="float")
def arithmetic(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Add, subtract or multiply, rounded once."""
    a, b = inputs(e, ins, a, b)
    return finish(e, ins, rounded(e, ins, f"f{ins.opcode}", a, b))


@elementwise("div", family="float")
def div(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Divide, correctly rounded in every form; for .approx as if 1 / b were 0 past 2^126."""
    a, b = inputs(e, ins, a, b)
    quotient = rounded(e, ins, "fdiv", a, b)
    if "approx" in ins.flags:
        far = e.b.fcmp_ordered(">", e.intrinsic("llvm.fabs", [b]), e.const(b, 2.0**126))
        nothing = e.b.fmul(a, e.intrinsic("llvm.copysign", [e.const(b, 0.0), b]))
        quotient = e.select(far, nothing, quotient)
    return finish(e, ins, quotient)


@elementwise("fma", "mad", family="float")
def fma(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Multiply and add, rounded once."""
    return finish(e, ins, rounded(e, ins, "fma", *inputs(e, ins, a, b, c)))


def _unary(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    match ins.opcode:
        case "rcp":
            return rounded(e, ins, "fdiv", e.const(a, 1.0), a)
        case "sqrt":
            return rounded(e, ins, "sqrt", a)
        case "rsqrt":
            return _reciprocal_root(e, a)
        case "ex2":
            return e.intrinsic("llvm.exp2", [a])
        case "lg2":
            return e.intrinsic("llvm.log2", [a])
        case _:
            return e.intrinsic(f"llvm.{ins.opcode}", [a])


def _reciprocal_root(e: Emitter, a: ir.Value) -> ir.Value:
    """1 / sqrt(a), through float64 so that a float32 is rounded about once."""
    wide = e.b.fpext(a, like(a, DOUBLE)) if element(a) == FLOAT else a
    root = e.b.fdiv(e.const(wide, 1.0), e.intrinsic("llvm.sqrt", [wide]))
    return e.b.fptrunc(root, a.type) if element(a) == FLOAT else root


@elementwise("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", family="float")
def function(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """Compute a function of one number."""
    (a,) = inputs(e, ins, a)
    return finish(e, ins, _unary(e, ins, a))


@elementwise("neg", family="float")
def neg(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """Negate, a NaN too."""
    return e.b.fneg(*inputs(e, ins, a))


@elementwise("abs", family="float")
def abs_(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """Clear the sign."""
    return e.intrinsic("llvm.fabs", inputs(e, ins, a))


@elementwise("copysign", family="float")
def copysign(e: Emitter, _ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Give b the sign of a."""
    return e.intrinsic("llvm.copysign", [b, a])


def extreme(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Pick the smaller or larger: a NaN operand is ignored, or wins for .NaN; -0 is under +0."""
    larger = ins.opcode == "max"
    ab = e.b.fcmp_ordered(">" if larger else "<", a, b)
    picked = e.select(ab, a, b)
    integer = like(a, integer_of(element(a)))
    join = e.b.and_ if larger else e.b.or_
    zeros = e.b.bitcast(join(e.b.bitcast(a, integer), e.b.bitcast(b, integer)), a.type)
    picked = e.select(e.b.fcmp_ordered("==", a, b), zeros, picked)
    a_nan, b_nan = e.b.fcmp_unordered("uno", a, a), e.b.fcmp_unordered("uno", b, b)
    if "NaN" in ins.flags:
        return e.select(a_nan, a, e.select(b_nan, b, picked))
    return e.select(a_nan, b, e.select(b_nan, a, picked))


def extreme_of(e: Emitter, ins: Instruction, values: tuple[ir.Value, ...]) -> ir.Value:
    """Pick the extreme of two or three; for .xorsign.abs of sizes, with all signs multiplied."""
    sizes = values
    if "abs" in ins.flags:
        sizes = tuple(e.intrinsic("llvm.fabs", [v]) for v in values)
    result, *rest = sizes
    for other in rest:
        result = extreme(e, ins, result, other)
    if "xorsign" not in ins.flags:
        return result
    integer = like(result, integer_of(element(result)))
    sign, *more = (e.b.bitcast(v, integer) for v in values)
    for bits in more:
        sign = e.b.xor(sign, bits)
    return e.intrinsic("llvm.copysign", [result, e.b.bitcast(sign, result.type)])


@elementwise("min", "max", family="float")
def min_max(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """Pick the extreme of two or three numbers."""
    return extreme_of(e, ins, inputs(e, ins, *args))


_ORDERED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(e: Emitter, relation: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Compare; the `u` forms are true where either is NaN."""
    if relation == "num":
        return e.b.fcmp_ordered("ord", a, b)
    if relation == "nan":
        return e.b.fcmp_unordered("uno", a, b)
    if relation in _ORDERED:
        return e.b.fcmp_ordered(_ORDERED[relation], a, b)
    return e.b.fcmp_unordered(_ORDERED[relation[:-1]], a, b)


@elementwise("testp", family="float")
def testp(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """Tell whether a is finite, infinite, a number, not a number, normal or subnormal."""
    size = e.intrinsic("llvm.fabs", [a])
    infinity, least = e.const(a, float("inf")), e.const(a, _LEAST_NORMAL[element(a)])
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
            zero = e.b.fcmp_ordered("==", size, e.const(a, 0.0))  # normal too, says the ISA
            return e.b.or_(zero, e.b.and_(finite, e.b.fcmp_ordered(">=", size, least)))
        case _:
            nonzero = e.b.fcmp_ordered(">", size, e.const(a, 0.0))
            return e.b.and_(nonzero, e.b.fcmp_ordered("<", size, least))

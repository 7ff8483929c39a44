"""Rounding: to another mode than to nearest, and from float64 to narrower types once.

LLVM's plain operations round to nearest. The directed ones are its constrained intrinsics, in
functions of their own that change the processor's mode and change it back: within a function LLVM
may move plain arithmetic past the change, across a call it may not.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.emulator.codegen import FLOAT, I32, I64, Emitter, declared, like, mangled
from tilewright.toolchain.ptx.ir import Instruction

# The processor's modes as llvm.set.rounding numbers them.
_NEAREST = 1
_MODES = {"rz": 0, "rp": 2, "rm": 3}


def direction(ins: Instruction) -> str:
    """Return the rounding mode of an instruction: rn where none is said."""
    return next((f for f in ins.flags if f in _MODES), "rn")


def directed(
    e: Emitter, operation: str, mode: str, args: Sequence[ir.Value], lane: ir.Type | None = None
) -> ir.Value:
    """Emit `operation` (fadd, fma, sqrt, fptrunc, …) rounded by `mode`: rz, rm or rp.

    The result has lanes of type `lane`, for conversions, or else of the arguments' type.
    """
    result = args[0].type if lane is None else like(args[0], lane)
    name = f"tw_{operation}_{mode}.{mangled(result)}.{mangled(args[0].type)}"
    function = e.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(result, [a.type for a in args])
        function = ir.Function(e.module, kind, name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        _build(e.module, function, operation, mode)
    return e.b.call(function, list(args))


def _build(module: ir.Module, function: ir.Function, operation: str, mode: str) -> None:
    b = ir.IRBuilder(function.append_basic_block())
    switch = declared(module, "llvm.set.rounding", ir.VoidType(), [I32])
    kinds = [a.type for a in function.args]
    result = function.function_type.return_type
    suffix = mangled(result) if kinds[0] == result else f"{mangled(result)}.{mangled(kinds[0])}"
    name = f"llvm.experimental.constrained.{operation}.{suffix}"
    note = ir.MetaDataType()
    intrinsic = declared(module, name, result, [*kinds, note, note])
    notes = [ir.MetaDataString(module, text) for text in ("round.dynamic", "fpexcept.ignore")]
    b.call(switch, [ir.Constant(I32, _MODES[mode])])
    value = b.call(intrinsic, [*function.args, *notes])
    b.call(switch, [ir.Constant(I32, _NEAREST)])
    b.ret(value)


def odd_sum(e: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    """Add float64 values so that inexact sums get an odd last bit (see `to_odd`)."""
    total = e.b.fadd(a, b)
    part = e.b.fsub(total, a)  # what rounding left of b; Knuth's two-sum gives the error exactly
    error = e.b.fadd(e.b.fsub(a, e.b.fsub(total, part)), e.b.fsub(b, part))
    bits, lost = (e.b.bitcast(x, like(x, I64)) for x in (total, error))
    zero, one = e.const(bits, 0), e.const(bits, 1)
    same = e.b.icmp_signed(">=", e.b.xor(bits, lost), zero)
    moved = e.select(same, e.b.add(bits, one), e.b.sub(bits, one))
    inexact = e.b.fcmp_ordered("!=", error, e.const(error, 0.0))
    even = e.b.icmp_unsigned("==", e.b.and_(bits, one), zero)
    return e.b.bitcast(e.select(e.b.and_(even, inexact), moved, bits), total.type)


def to_odd(e: Emitter, x: ir.Value) -> ir.Value:
    """Round float64 to float32 so that inexact results get an odd last bit.

    That keeps what a second, narrower rounding needs to know, which is then right.
    """
    near = e.b.fptrunc(x, like(x, FLOAT))
    bits = e.b.bitcast(near, like(x, I32))
    one = e.const(bits, 1)
    size = e.intrinsic("llvm.fabs", [e.b.fpext(near, x.type)])
    wanted = e.intrinsic("llvm.fabs", [x])
    even = e.b.icmp_unsigned("==", e.b.and_(bits, one), e.const(bits, 0))
    far, short = (e.b.fcmp_ordered(order, size, wanted) for order in "><")
    moved = e.select(far, e.b.sub(bits, one), e.select(short, e.b.add(bits, one), bits))
    return e.b.bitcast(e.select(even, moved, bits), near.type)

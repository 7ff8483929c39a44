"""Floating-point formats by their definition: exact rationals, rounded once.

The reference of the per-instruction tests. Nothing here knows the code it checks: a value is an
exact `Fraction` until `Format.rounded` picks the neighbour that the rounding mode names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

NAN, INF = math.nan, math.inf


@dataclass(frozen=True)
class Format:
    """A binary format: `exponent` and `mantissa` bits. `finite` ones have no infinity (e4m3)."""

    exponent: int
    mantissa: int
    finite: bool = False

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest normal number."""
        return 1 - self.bias

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return math.ldexp(1.0, self.least_exponent)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        if self.finite:  # only the all-ones mantissa of the top exponent is taken, by NaN
            return math.ldexp(2 - 2.0 ** (1 - self.mantissa), self.bias + 1)
        return math.ldexp(2 - 2.0**-self.mantissa, self.bias)

    def decode(self, bits: int) -> float:
        """The number that `bits` stand for."""
        sign = -1.0 if bits >> (self.bits - 1) else 1.0
        exponent = bits >> self.mantissa & (1 << self.exponent) - 1
        mantissa = bits & (1 << self.mantissa) - 1
        if exponent == (1 << self.exponent) - 1:
            if not self.finite:
                return NAN if mantissa else sign * INF
            if mantissa == (1 << self.mantissa) - 1:
                return NAN
        if exponent == 0:
            return sign * math.ldexp(mantissa, self.least_exponent - self.mantissa)
        one = mantissa | 1 << self.mantissa
        return sign * math.ldexp(one, exponent - self.bias - self.mantissa)

    def encode(self, value: float) -> int:
        """The bits of a number that the format holds exactly; of NaN, the canonical one."""
        if math.isnan(value):
            return (1 << (self.bits - 1)) - 1
        sign = (math.copysign(1, value) < 0) << (self.bits - 1)
        if math.isinf(value):
            return sign | ((1 << self.exponent) - 1) << self.mantissa
        if value == 0:
            return sign
        _, place = math.frexp(abs(value))
        exponent = max(place - 1, self.least_exponent)
        units = Fraction(abs(value)) / Fraction(2) ** (exponent - self.mantissa)
        if units.denominator != 1 or abs(value) > self.largest:
            raise ValueError(f"{value!r} is no value of {self}")
        mantissa = int(units)
        biased = exponent + self.bias if mantissa >> self.mantissa else 0
        return sign | biased << self.mantissa | mantissa & (1 << self.mantissa) - 1

    def rounded(self, exact: Fraction | float, mode: str = "rn") -> float:
        """Round once: rn, rz, rm, rp, or rna (ties away from zero). Past the range as IEEE says."""
        if isinstance(exact, float):
            if not math.isfinite(exact) or exact == 0:
                return exact
            exact = Fraction(exact)
        if exact == 0:
            return 0.0
        above, below = abs(exact.numerator), exact.denominator
        negative = exact.numerator < 0
        place = max(_floor_log2(above, below), self.least_exponent) - self.mantissa
        above, below = above << max(-place, 0), below << max(place, 0)
        units, rest = divmod(above, below)  # of 2^place, the last bit that the format keeps there
        away = {"rz": False, "rm": negative, "rp": not negative}.get(mode)
        if away is None:
            away = 2 * rest > below or (2 * rest == below and (mode == "rna" or units % 2 == 1))
        units += 1 if away and rest else 0
        if units.bit_length() + place > 1024 or math.ldexp(units, place) > self.largest:
            outward = {"rz": False, "rm": negative, "rp": not negative}.get(mode, True)
            number = INF if outward else self.largest
        else:
            number = math.ldexp(units, place)
        return -number if negative else number


def _floor_log2(above: int, below: int) -> int:
    """The exponent of the fraction above / below."""
    guess = above.bit_length() - below.bit_length()
    fits = above << max(-guess, 0) >= below << max(guess, 0)
    return guess if fits else guess - 1


F16, BF16, F32, F64 = Format(5, 10), Format(8, 7), Format(8, 23), Format(11, 52)
E4M3, E5M2, TF32 = Format(4, 3, finite=True), Format(5, 2), Format(8, 10)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64, "e4m3": E4M3, "e5m2": E5M2}
FORMATS["tf32"] = F32  # how a register holds it


def flushed(x: float) -> float:
    """float32 subnormals to zero of their sign (.ftz)."""
    return math.copysign(0.0, x) if abs(x) < F32.tiny else x


def saturated(x: float) -> float:
    """Clamp to [0, 1]; NaN gives 0 (.sat)."""
    return 0.0 if math.isnan(x) or x <= 0 else min(x, 1.0)


def _zero(signs: set[bool], mode: str) -> float:
    """An exact zero: the sign that its terms share, or else the one the mode gives."""
    if len(signs) == 1:
        return -0.0 if signs.pop() else 0.0
    return -0.0 if mode == "rm" else 0.0


def _sign(x: float) -> bool:
    return math.copysign(1, x) < 0


def add(a: float, b: float, to: Format, mode: str = "rn") -> float:
    """a + b."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a + b
    exact = Fraction(a) + Fraction(b)
    return to.rounded(exact, mode) if exact else _zero({_sign(a), _sign(b)}, mode)


def mul(a: float, b: float, to: Format, mode: str = "rn") -> float:
    """a · b."""
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return a * b
    return to.rounded(Fraction(a) * Fraction(b), mode)


def fma(a: float, b: float, c: float, to: Format, mode: str = "rn") -> float:
    """a · b + c, rounded once."""
    if not all(map(math.isfinite, (a, b, c))):
        product = a * b if not (math.isfinite(a) and math.isfinite(b)) else 0.0
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return to.rounded(exact, mode) if exact else _zero({_sign(a) ^ _sign(b), _sign(c)}, mode)


def div(a: float, b: float, to: Format, mode: str = "rn") -> float:
    """a / b."""
    sign = -1.0 if _sign(a) ^ _sign(b) else 1.0
    if math.isnan(a) or math.isnan(b) or (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return NAN
    if b == 0 or math.isinf(a):
        return sign * INF
    if a == 0 or math.isinf(b):
        return sign * 0.0
    return to.rounded(Fraction(a) / Fraction(b), mode)


def sqrt(a: float, to: Format, mode: str = "rn") -> float:
    """The root, from an integer root with enough bits that only exact ones are exact."""
    if math.isnan(a) or a < 0:
        return NAN
    if a == 0 or math.isinf(a):
        return a
    exact = Fraction(a)
    shift = 2 * (to.mantissa + 8) - _floor_log2(exact.numerator, exact.denominator)
    shift += shift % 2
    scaled = exact * Fraction(2) ** shift
    whole = scaled.numerator // scaled.denominator
    root = math.isqrt(whole)
    inexact = root * root != whole or scaled.denominator != 1
    return to.rounded(Fraction(2 * root + inexact, 2) / Fraction(2) ** (shift // 2), mode)

"""One argument of a kernel as a line of text: `f32[1024,64]:normal` or `i32=1024`.

The same text stands in a launch file, on the command line and in JSON. It says all there is to
say, so that a launch can be made again, to the last bit, anywhere.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.errors import LaunchError

_BITS = {"i": ("int", 8, 16, 32, 64), "u": ("uint", 8, 16, 32, 64), "f": ("float", 16, 32, 64)}
DTYPES: Mapping[str, str] = MappingProxyType(
    {f"{short}{bits}": f"{name}{bits}" for short, (name, *all_) in _BITS.items() for bits in all_}
    | {"bool": "bool"}
)

# How each fill takes its numbers: (name, default), None where it must be given.
_FILLS: Mapping[str, tuple[tuple[str, float | None], ...]] = MappingProxyType(
    {
        "zeros": (),
        "ones": (),
        "full": (("value", None),),
        "arange": (("start", 0), ("step", 1)),
        "normal": (("mean", 0), ("deviation", 1)),
        "uniform": (("low", 0), ("high", 1)),
        "integers": (("low", None), ("high", None)),
    }
)
RANDOM = ("normal", "uniform", "integers")

_ARRAY = re.compile(r"(?P<dtype>\w+)\s*\[(?P<shape>[^\]]*)\]\s*(?::\s*(?P<fill>.+))?")
_SCALAR = re.compile(r"(?P<dtype>\w+)\s*=\s*(?P<value>\S+)")
_FILL = re.compile(r"(?P<name>\w+)\s*(?:\((?P<inside>[^()]*)\))?")
_FORMS = (
    "expected an array, such as 'f32[1024,64]' or 'f32[1024,64]:normal', or a number, such as "
    "'i32=1024'"
)

Number: TypeAlias = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySpec:
    """An array in device memory: its dtype (as DTYPES spells it), shape and what it holds.

    `numbers` are those of the fill, all of them, in the order of its text form. `seed` is None
    where the argument's place in the list is the seed, so that no two arrays hold the same.
    """

    dtype: str
    shape: tuple[int, ...]
    fill: str = "zeros"
    numbers: tuple[Number, ...] = ()
    seed: int | None = None

    def __str__(self) -> str:
        shape = ",".join(map(str, self.shape))
        inside = [_number_text(n) for n in self.numbers]
        inside += [] if self.seed is None else [f"seed={self.seed}"]
        return f"{self.dtype}[{shape}]:{self.fill}" + (f"({','.join(inside)})" if inside else "")

    @property
    def size_bytes(self) -> int:
        """Bytes of device memory."""
        return math.prod(self.shape) * np.dtype(DTYPES[self.dtype]).itemsize

    def make(self, place: int) -> npt.NDArray[np.generic]:
        """Return the array; `place` is the argument's place in the list.

        Raises:
            LaunchError: more memory than this machine has.
        """
        try:
            return np.ascontiguousarray(self._values(place), DTYPES[self.dtype])
        except MemoryError:
            raise LaunchError(
                f"argument {place}: {self} takes {self.size_bytes} bytes, more than this machine "
                "has: launch a smaller problem"
            ) from None

    def _values(self, place: int) -> npt.NDArray[np.generic]:
        dtype = np.dtype(DTYPES[self.dtype])
        rng = np.random.default_rng(place if self.seed is None else self.seed)
        match self.fill, self.numbers:
            case "zeros", _:
                return np.zeros(self.shape, dtype)
            case "ones", _:
                return np.ones(self.shape, dtype)
            case "full", (value,):
                return np.full(self.shape, value, dtype)
            case "arange", (start, step):
                count = np.arange(math.prod(self.shape), dtype=np.int64)
                return (start + step * count).reshape(self.shape)
            case "normal", (mean, deviation):
                return rng.normal(mean, deviation, self.shape)
            case "uniform", (low, high):
                return rng.uniform(low, high, self.shape)
        low, high = map(int, self.numbers)
        wide = np.uint64 if high > 2**63 else np.int64
        return rng.integers(low, high, self.shape, wide)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarSpec:
    """A number passed by value: its dtype (as DTYPES spells it) and the number."""

    dtype: str
    value: Number

    def __str__(self) -> str:
        return f"{self.dtype}={_number_text(self.value)}"

    def make(self, place: int) -> np.generic:
        """Return the numpy scalar; `place` does not matter to it."""
        del place
        made: np.generic = np.dtype(DTYPES[self.dtype]).type(self.value)
        return made


ArgumentSpec: TypeAlias = ArraySpec | ScalarSpec


def parse_argument(text: str) -> ArgumentSpec:
    """Read an argument: DTYPE[SIZES], DTYPE[SIZES]:FILL or DTYPE=NUMBER.

    DTYPE is i8 … i64, u8 … u64, f16, f32, f64 or bool, or numpy's name of one. FILL is one of
    zeros (the default), ones, full(value), arange(start=0, step=1), normal(mean=0, deviation=1),
    uniform(low=0, high=1) and integers(low, high), high not being among them; the random ones
    take a seed=… as well.

    Raises:
        LaunchError: text in no such form; shows what was wrong and what is expected.

    Example:
        >>> str(parse_argument("float32[64, 8]:normal"))
        'f32[64,8]:normal(0,1)'
        >>> parse_argument("i32=7").make(0)
        np.int32(7)
    """
    stripped = text.strip()
    if array := _ARRAY.fullmatch(stripped):
        dtype = _dtype(array["dtype"], text)
        shape = _shape(array["shape"], text)
        return _filled(dtype, shape, array["fill"] or "zeros", text)
    if scalar := _SCALAR.fullmatch(stripped):
        dtype = _dtype(scalar["dtype"], text)
        value = _number(scalar["value"], text)
        _check_fits(value, dtype, text)
        return ScalarSpec(dtype=dtype, value=value)
    raise LaunchError(f"{text!r}: {_FORMS}")


def _dtype(given: str, text: str) -> str:
    for short, name in DTYPES.items():
        if given in (short, name):
            return short
    near = difflib.get_close_matches(given, [*DTYPES, *DTYPES.values()], n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise LaunchError(f"{text!r}: unknown dtype {given}: {hint}known: {', '.join(DTYPES)}")


def _shape(inside: str, text: str) -> tuple[int, ...]:
    sizes = tuple(_whole(part) for part in inside.split(","))
    if any(size is None or size < 0 for size in sizes):
        raise LaunchError(
            f"{text!r}: [{inside}] is no shape: expected whole numbers with commas between them, "
            "such as [1024,64]"
        )
    return tuple(size for size in sizes if size is not None)


def _filled(dtype: str, shape: tuple[int, ...], fill: str, text: str) -> ArraySpec:
    match = _FILL.fullmatch(fill.strip())
    if match is None or match["name"] not in _FILLS:
        near = difflib.get_close_matches(fill.partition("(")[0], _FILLS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise LaunchError(f"{text!r}: unknown fill {fill}: {hint}known: {', '.join(_FILLS)}")
    name = match["name"]
    takes = dict(_FILLS[name])
    given, seed = _fill_numbers(match["inside"] or "", name, text)
    missing = [n for n, default in takes.items() if n not in given and default is None]
    if missing:
        raise LaunchError(f"{text!r}: {name} needs {' and '.join(missing)}: {_usage(name)}")
    numbers = tuple(given.get(n, default) for n, default in takes.items())
    spec = ArraySpec(
        dtype=dtype,
        shape=shape,
        fill=name,
        numbers=tuple(n for n in numbers if n is not None),
        seed=seed,
    )
    _check_range(spec, text)
    return spec


def _fill_numbers(inside: str, fill: str, text: str) -> tuple[dict[str, Number], int | None]:
    """Return what stands in a fill's parentheses: its numbers by name, and its seed."""
    names = [name for name, _ in _FILLS[fill]]
    given: dict[str, Number] = {}
    for place, part in enumerate(inside.split(",") if inside.strip() else []):
        key, equals, value = part.partition("=")
        name = key.strip() if equals else (names[place] if place < len(names) else "")
        allowed = [*names, *(["seed"] if fill in RANDOM else [])]
        if name not in allowed or name in given:
            raise LaunchError(f"{text!r}: {fill} does not take {part.strip()!r}: {_usage(fill)}")
        given[name] = _number(value if equals else key, text)
    seed = given.pop("seed", None)
    if seed is not None and (not isinstance(seed, int) or seed < 0):
        raise LaunchError(f"{text!r}: seed {seed}: expected a whole number, at least 0")
    return given, seed


def _usage(fill: str) -> str:
    parts = [n if d is None else f"{n}={_number_text(d)}" for n, d in _FILLS[fill]]
    parts += ["seed=…"] if fill in RANDOM else []
    return f"it is written {fill}({', '.join(parts)})" if parts else f"it is written {fill}"


def _check_range(spec: ArraySpec, text: str) -> None:
    """Refuse a fill whose values its dtype cannot hold."""
    kind = np.dtype(DTYPES[spec.dtype]).kind
    numbers = spec.numbers
    if spec.fill in ("normal", "uniform") and kind != "f":
        raise LaunchError(
            f"{text!r}: {spec.fill} fills floating arrays, and {spec.dtype} is none: write "
            "integers(low, high)"
        )
    if spec.fill == "integers":
        low, high = numbers
        if not (isinstance(low, int) and isinstance(high, int) and low < high):
            raise LaunchError(
                f"{text!r}: integers({_number_text(low)}, {_number_text(high)}): expected whole "
                "numbers, low below high"
            )
        numbers = (low, high - 1)
    if spec.fill == "arange":
        start, step = numbers
        numbers = (start, start + step * max(math.prod(spec.shape) - 1, 0))
    for number in numbers:
        _check_fits(number, spec.dtype, text)


def _check_fits(value: Number, dtype: str, text: str) -> None:
    kind = np.dtype(DTYPES[dtype])
    if kind.kind == "f":
        most = float(np.finfo(DTYPES[dtype]).max)
        if math.isfinite(value) and abs(value) > most:
            raise LaunchError(f"{text!r}: {value} is beyond {dtype}, which ends at {most:.6g}")
        return
    low, high = (0, 1) if kind.kind == "b" else _limits(kind)
    if not isinstance(value, int) or not low <= value <= high:
        raise LaunchError(
            f"{text!r}: {dtype} holds whole numbers from {low} to {high}, not {value}"
        )


def _limits(dtype: np.dtype[np.generic]) -> tuple[int, int]:
    info = np.iinfo(dtype)  # type: ignore[type-var]
    return int(info.min), int(info.max)


def _number(given: str, text: str) -> Number:
    stripped = given.strip()
    words = {"true": 1, "false": 0}
    if stripped.lower() in words:
        return words[stripped.lower()]
    whole = _whole(stripped)
    if whole is not None:
        return whole
    try:
        return float(stripped)
    except ValueError:
        raise LaunchError(f"{text!r}: {stripped!r} is no number") from None


def _whole(text: str) -> int | None:
    """Return a decimal or hexadecimal integer, None where the text is none."""
    try:
        return int(text.strip(), 0)
    except ValueError:
        return None


def _number_text(number: Number) -> str:
    return repr(number)

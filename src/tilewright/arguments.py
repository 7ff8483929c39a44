"""The check of a kernel's arguments that both executors share. Imports only values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tilewright.errors import LaunchError
from tilewright.launch import Argument, Struct

POINTER_BYTES = 8

# What to write instead of a Python number, whose width in C is anybody's guess.
_EXACT = {bool: "np.bool_", int: "np.int32 or np.int64", float: "np.float32 or np.float64"}


def check_arguments(
    args: Sequence[object],
    param_sizes: Sequence[int] | None,
    kernel: str,
    param_types: Sequence[str] | None = None,
) -> tuple[Argument, ...]:
    """Return `args` as arguments that can be launched with, or say what to change.

    An array is device memory: the kernel gets its address and writes it in place, so it must be
    C-contiguous and writable. A numpy scalar is passed by value, its dtype giving the width; so is
    a `Struct`.
    `param_sizes` are the kernel's parameters in bytes, `param_types` their types in PTX; None where
    they are not known. A float32 and an int32 have one width, and the bits of one are no value of
    the other.

    Raises:
        LaunchError: a count, width or kind that does not fit the kernel, or an object that is no
            argument, with the argument's index and the remedy.
    """
    if param_sizes is not None and len(args) != len(param_sizes):
        raise LaunchError(
            f"kernel {kernel} takes {len(param_sizes)} arguments, got {len(args)}: "
            "pass one numpy array or numpy scalar for each parameter, in order"
        )
    checked: list[Argument] = []
    for index, arg in enumerate(args):
        where = f"kernel {kernel}, argument {index}"
        size = None if param_sizes is None else param_sizes[index]
        if isinstance(arg, np.ndarray):
            _check_array(arg, size, where)
        elif isinstance(arg, np.generic):
            _check_scalar(arg, size, where)
            if param_types is not None:
                _check_kind(arg, param_types[index], where)
        elif isinstance(arg, Struct):
            _check_struct(arg, size, where)
        else:
            raise LaunchError(f"{where}: {_not_an_argument(arg)}")
        checked.append(arg)
    return tuple(checked)


def _check_array(array: npt.NDArray[np.generic], size: int | None, where: str) -> None:
    what = f"{where}: an array of shape {array.shape} and dtype {array.dtype}"
    if size is not None and size != POINTER_BYTES:
        raise LaunchError(
            f"{what}: the kernel takes a value of {size} bytes here, not a pointer: "
            "pass a numpy scalar, such as np.int32(n)"
        )
    if array.dtype.hasobject:
        raise LaunchError(f"{what}: Python objects have no device memory: use a numeric dtype")
    if not array.dtype.isnative:
        raise LaunchError(
            f"{what}: its bytes are in the other order: "
            "pass array.astype(array.dtype.newbyteorder('='))"
        )
    if not array.flags.c_contiguous:
        raise LaunchError(
            f"{what} is not contiguous (strides {array.strides}): pass its whole storage and a "
            "leading dimension, or np.ascontiguousarray(array)"
        )
    if not array.flags.writeable:
        raise LaunchError(f"{what} is read-only, and arguments are written in place: pass a copy")


def _check_scalar(scalar: np.generic, size: int | None, where: str) -> None:
    what = f"{where}: {scalar!r} of {scalar.dtype.itemsize} bytes"
    if scalar.dtype.hasobject or scalar.dtype.kind in "OSUmM":
        raise LaunchError(f"{what} is no number: pass an integer, floating or boolean scalar")
    if size is None or size == scalar.dtype.itemsize:
        return
    if size == POINTER_BYTES:
        raise LaunchError(
            f"{what}: the kernel takes 8 bytes here: pass an array where it takes a pointer, "
            "np.int64 or np.float64 where it takes a number"
        )
    raise LaunchError(
        f"{what}: the kernel takes {size} bytes here: "
        f"pass a numpy scalar of that width{_widths(scalar.dtype.kind, size)}"
    )


def _check_kind(scalar: np.generic, ptx_type: str, where: str) -> None:
    """Refuse a float where the kernel takes a whole number, and the reverse."""
    takes = {"f": "f", "s": "iub", "u": "iub"}.get(ptx_type[0])  # b32 may be either
    if takes is not None and scalar.dtype.kind in "iubf" and scalar.dtype.kind not in takes:
        what, name = ("float", "float") if takes == "f" else ("whole number", "int")
        raise LaunchError(
            f"{where}: {scalar!r}: the kernel takes a {what} here, as which these bits are another "
            f"value: pass np.{name}{8 * scalar.dtype.itemsize}"
        )


def _check_struct(struct: Struct, size: int | None, where: str) -> None:
    if size is not None and size != struct.layout.itemsize:
        raise LaunchError(
            f"{where}: a struct of {struct.layout.itemsize} bytes; the kernel takes {size} bytes "
            "here: give its dtype the fields and the padding of the C++ struct"
        )
    for name, array in struct.arrays.items():
        _check_array(array, None, f"{where}, field {name}")


def _widths(kind: str, size: int) -> str:
    names = {"i": "int", "u": "uint", "f": "float", "b": "uint"}
    if kind not in names or size not in (1, 2, 4, 8) or (kind, size) == ("f", 1):
        return ""
    return f", such as np.{names[kind]}{size * 8}"


def _not_an_argument(arg: object) -> str:
    if type(arg) in _EXACT:
        return f"{arg!r} has no fixed width: write {_EXACT[type(arg)]}"
    text = f"a {type(arg).__module__}.{type(arg).__qualname__} is neither a numpy array "
    return text + "(device memory) nor a numpy scalar (a value): convert it with np.asarray first"

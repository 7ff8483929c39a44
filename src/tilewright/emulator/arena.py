"""Device memory: numpy arrays and module variables, each in a segment of the address space.

A kernel's pointers are emulated addresses, not the host's: array number i begins in segment
FIRST_ARRAY + i, and no arithmetic on one array's address reaches another. An array that owns its
memory starts at a multiple of 256, as cudaMalloc gives; a view keeps its place in its owner, so
that an unaligned view is unaligned for the kernel too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.emulator import state
from tilewright.emulator.frame import Layout
from tilewright.launch import Argument, Struct
from tilewright.toolchain.ptx.ir import Variable

ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class Piece:
    """One segment's content, for error messages: what it is called and how big it is."""

    name: str
    first: int
    size: int


def owner_offset(array: npt.NDArray[np.generic]) -> int:
    """Bytes from the start of the memory that an array is a view of to its first element."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return int(array.ctypes.data - owner.ctypes.data)


def _arrays(arg: Argument, name: str) -> list[tuple[str, npt.NDArray[np.generic]]]:
    if isinstance(arg, Struct):
        return [(f"{name}, field {field}", array) for field, array in arg.arrays.items()]
    return [(name, arg)] if isinstance(arg, np.ndarray) else []


class Arena:
    """The segments of one launch and the block of parameters that points into them."""

    def __init__(self, layout: Layout, args: Sequence[Argument]) -> None:
        first_array = state.FIRST_ARRAY + len(layout.globals)
        arrays = [named for i, arg in enumerate(args) for named in _arrays(arg, f"argument {i}")]
        self.count = first_array + len(arrays)
        self.table = (state.Segment * (self.count + 1))()
        self.pieces: dict[int, Piece] = {}
        self._keep: list[object] = [args]
        self.params = np.zeros(max(layout.param_bytes, 8), np.uint8)
        memory = self.params.ctypes.data
        self._segment(state.PARAM_SEGMENT, memory, 0, layout.param_bytes, "the kernel's parameters")
        for number, variable in enumerate(layout.globals):
            self._variable(state.FIRST_ARRAY + number, variable, layout.symbols)
        addresses: dict[int, int] = {}  # by the array's id
        for number, (name, array) in enumerate(arrays, first_array):
            start = owner_offset(array) % ALIGNMENT
            addresses.setdefault(id(array), (number << state.SEGMENT_SHIFT) + start)
            what = f"{name} ({array.dtype} array of shape {array.shape})"
            self._segment(number, array.ctypes.data, start, array.nbytes, what)
        for arg, place in zip(args, layout.params.values(), strict=True):
            value: object = arg
            if isinstance(arg, np.ndarray):
                value = np.uint64(addresses[id(arg)])
            elif isinstance(arg, Struct):
                value = arg.packed(lambda array: addresses[id(array)])
            raw = np.frombuffer(np.asarray(value).tobytes(), np.uint8)
            self.params[place : place + raw.size] = raw

    def _segment(self, number: int, host: int, first: int, size: int, name: str) -> None:
        self.table[number] = state.Segment((host - first) % 2**64, first, size)
        self.pieces[number] = Piece(name, first, size)

    def _variable(self, number: int, variable: Variable, symbols: Mapping[str, int]) -> None:
        memory = np.zeros(max(variable.size_bytes, 1), np.uint8)
        if variable.init is not None:
            memory[: len(variable.init)] = np.frombuffer(variable.init, np.uint8)
        for place, symbol in variable.relocations.items():
            # A function has no address: its pointer is null, and calls through one are refused.
            address = symbols.get(symbol.name, -symbol.offset) + symbol.offset
            memory[place : place + 8] = np.frombuffer(np.uint64(address).tobytes(), np.uint8)
        self._keep.append(memory)
        name = f"variable {variable.name} in {variable.space} memory"
        self._segment(number, memory.ctypes.data, 0, variable.size_bytes, name)

    def describe(self, address: int, width: int) -> str:
        """Say which array `width` bytes at an address miss, and by how much."""
        number, offset = address >> state.SEGMENT_SHIFT, address & ((1 << state.SEGMENT_SHIFT) - 1)
        if offset >= 1 << (state.SEGMENT_SHIFT - 1):  # rather below the next segment's start
            number, offset = number + 1, offset - (1 << state.SEGMENT_SHIFT)
        piece = self.pieces.get(number)
        if piece is None:
            return "it belongs to no array (an uninitialised or null pointer?)"
        place = offset - piece.first
        whole = f"{piece.name}, which has {piece.size} bytes"
        if place < 0:
            return f"{-place} bytes before the start of {whole}"
        if place >= piece.size:
            return f"{place - piece.size} bytes past the end of {whole}"
        return f"its last {place + width - piece.size} bytes are past the end of {whole}"

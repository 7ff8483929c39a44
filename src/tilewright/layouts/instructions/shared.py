"""Tiles in shared memory as wgmma reads them and TMA writes them: rows behind a swizzle.

A swizzle mode is named by its span in bytes: the 16-byte pieces inside each span change places by
the number of the 128-byte line modulo span / 16: the pattern repeats after 8 spans.

Source: PTX ISA, "Shared Memory Matrix Layout" (Table "canonical layouts"), "Swizzling Modes" of
tensors; CUDA driver API, cuTensorMapEncodeTiled, for the limits of a box.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import LayoutError
from tilewright.layouts.layout import Layout
from tilewright.layouts.recast import upcast
from tilewright.layouts.swizzle import ComposedLayout, Swizzle

PIECE_BYTES = 16
SPANS = (0, 32, 64, 128)  # bytes; 0 is no swizzle
_CORE_ROWS = 8

_BOX_RANK = 5
_BOX_SIDE = 256
_BOX_BITS = (8, 16, 32, 64)


def byte_swizzle(span: int) -> Swizzle:
    """Return the swizzle of a mode, on byte addresses: span 0, 32, 64 or 128.

    >>> print(*map(byte_swizzle, SPANS))
    Sw<0,4,3> Sw<1,4,3> Sw<2,4,3> Sw<3,4,3>

    Raises:
        LayoutError: another span.
    """
    if span not in SPANS:
        raise LayoutError(f"a swizzle of {span} bytes: give 32, 64 or 128, or 0 for none")
    return Swizzle(SPANS.index(span), 4, 3)


def shared_atom(span: int, bits: int, *, k_major: bool = True) -> ComposedLayout:
    """Return the smallest tile (mn, k) that wgmma reads in a swizzle mode, in elements.

    K-major: 8 rows of `span` bytes along k. MN-major: the same with mn and k exchanged. `span` 0
    has rows of 16 bytes. Repeat it with `tile_to_shape`; it starts at a multiple of 8 spans. Of
    MN-major tiles wgmma takes those of 16-bit elements alone.

    >>> print(shared_atom(128, 16))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    >>> print(shared_atom(64, 32, k_major=False))
    Sw<2,2,3> o 0 o (16,8):(1,16)

    Units: bits an element, span in bytes.

    Raises:
        LayoutError: another span, or elements that wgmma does not take.
    """
    swizzle = byte_swizzle(span)
    if bits not in (8, 16, 32):
        raise LayoutError(f"wgmma on elements of {bits} bits: it takes 8, 16 or 32")
    row = 8 * (span or PIECE_BYTES) // bits
    plain = Layout((_CORE_ROWS, row), (row, 1)) if k_major else Layout((row, _CORE_ROWS), (1, row))
    return ComposedLayout(_on_elements(swizzle, bits), 0, plain)


def tma_box(box: Sequence[int], bits: int, span: int = 0) -> ComposedLayout:
    """Return where TMA puts a box in shared memory: coordinates, innermost first, to elements.

    The box starts at a multiple of 128 bytes, with a swizzle of 8 spans (128 at least).

    >>> print(tma_box((64, 128), 16, 128))
    Sw<3,3,3> o 0 o (64,128):(1,64)

    Units: bits an element, span in bytes.

    Raises:
        LayoutError: a limit passed; or rows shorter than the swizzle's span, for which the
            documents do not say where the next row starts.
    """
    swizzle = byte_swizzle(span)
    sides = tuple(box)
    if not 1 <= len(sides) <= _BOX_RANK or not all(1 <= side <= _BOX_SIDE for side in sides):
        raise LayoutError(
            f"TMA box {sides}: give 1 to {_BOX_RANK} sides of 1 to {_BOX_SIDE} elements"
        )
    if bits not in _BOX_BITS:
        raise LayoutError(f"TMA on elements of {bits} bits: it takes 8, 16, 32 or 64")
    row_bytes = sides[0] * bits // 8
    if row_bytes % PIECE_BYTES:
        raise LayoutError(
            f"TMA box {sides}: a row of {row_bytes} bytes is no multiple of {PIECE_BYTES}; try "
            f"{-(-row_bytes // PIECE_BYTES) * PIECE_BYTES * 8 // bits} elements"
        )
    if span and row_bytes != span:
        raise LayoutError(
            f"TMA box {sides}: with a swizzle of {span} bytes give rows of {span} bytes, "
            f"{span * 8 // bits} elements, not {row_bytes}; a wider tile is several boxes"
        )
    return ComposedLayout(_on_elements(swizzle, bits), 0, Layout(sides))


def _on_elements(swizzle: Swizzle, bits: int) -> Swizzle:
    """Return the swizzle of byte addresses as one of elements."""
    return upcast(ComposedLayout(swizzle, 0, Layout(1, 0)), bits // 8).swizzle

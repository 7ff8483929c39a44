"""Which thread holds which element: the maps of the tensor core's instructions, as layouts.

A `Fragment` maps (thread, value) to an element of a matrix tile. Sources: the PTX ISA, sections
named in each module; tests hold every map to the formulas there, and on a GPU to the hardware.
"""

from tilewright.layouts.instructions.fragment import Fragment
from tilewright.layouts.instructions.ldmatrix import Ldmatrix, ldmatrix
from tilewright.layouts.instructions.mma import MMA_SHAPES, Mma, mma
from tilewright.layouts.instructions.shared import SPANS, byte_swizzle, shared_atom, tma_box
from tilewright.layouts.instructions.wgmma import Wgmma, wgmma

__all__ = [
    "MMA_SHAPES",
    "SPANS",
    "Fragment",
    "Ldmatrix",
    "Mma",
    "Wgmma",
    "byte_swizzle",
    "ldmatrix",
    "mma",
    "shared_atom",
    "tma_box",
    "wgmma",
]

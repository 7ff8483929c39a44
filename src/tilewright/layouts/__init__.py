"""The layout algebra: a shape and its strides as a function, and the operations on such functions.

The meaning of every operation is CuTe's. Where CuTe accepts operands for which no layout obeys the
operation's law, these raise a LayoutError that names the modes and the nearest ones that would do.
"""

from tilewright.layouts.complement import complement
from tilewright.layouts.composition import Tiler, composition
from tilewright.layouts.divide import flat_divide, logical_divide, tiled_divide, zipped_divide
from tilewright.layouts.draw import draw, draw_thread_value
from tilewright.layouts.drawing import Cell, Colouring, Drawing
from tilewright.layouts.int_tuple import (
    Coordinate,
    IntTuple,
    compatible,
    congruent,
    crd2idx,
    idx2crd,
)
from tilewright.layouts.inverse import (
    left_inverse,
    max_common_layout,
    max_common_vector,
    right_inverse,
)
from tilewright.layouts.layout import Layout
from tilewright.layouts.majors import column_major, k_major, like, mn_major, ordered, row_major
from tilewright.layouts.memory import Memory
from tilewright.layouts.modes import (
    append,
    concat,
    flatten,
    group,
    prepend,
    replace,
    select,
    take,
)
from tilewright.layouts.parsing import parse, parse_layout, parse_swizzle, parse_tiler
from tilewright.layouts.predicates import is_contiguous, is_injective, is_surjective
from tilewright.layouts.product import (
    blocked_product,
    flat_product,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_product,
    zipped_product,
)
from tilewright.layouts.recast import downcast, recast, upcast
from tilewright.layouts.simplify import coalesce, equivalent, filter
from tilewright.layouts.swizzle import AnyLayout, ComposedLayout, Swizzle

__all__ = [
    "AnyLayout",
    "Cell",
    "Colouring",
    "ComposedLayout",
    "Coordinate",
    "Drawing",
    "IntTuple",
    "Layout",
    "Memory",
    "Swizzle",
    "Tiler",
    "append",
    "blocked_product",
    "coalesce",
    "column_major",
    "compatible",
    "complement",
    "composition",
    "concat",
    "congruent",
    "crd2idx",
    "downcast",
    "draw",
    "draw_thread_value",
    "equivalent",
    "filter",
    "flat_divide",
    "flat_product",
    "flatten",
    "group",
    "idx2crd",
    "is_contiguous",
    "is_injective",
    "is_surjective",
    "k_major",
    "left_inverse",
    "like",
    "logical_divide",
    "logical_product",
    "max_common_layout",
    "max_common_vector",
    "mn_major",
    "ordered",
    "parse",
    "parse_layout",
    "parse_swizzle",
    "parse_tiler",
    "prepend",
    "raked_product",
    "recast",
    "replace",
    "right_inverse",
    "row_major",
    "select",
    "take",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "upcast",
    "zipped_divide",
    "zipped_product",
]

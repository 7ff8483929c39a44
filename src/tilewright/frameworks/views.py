"""Where an array lies in memory: its shape and strides, without its address."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.frameworks.shapes import Shape
from tilewright.kernels.tiles import FLOAT_BYTES

VECTOR_BYTES = 16  # read by one instruction, from a multiple of as many


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An array of float32 in memory.

    Units: strides in elements. `aligned` says that the first element is at a multiple of 16 bytes.
    """

    shape: Shape
    strides: Shape
    aligned: bool = True

    def broadcast(self, shape: Shape) -> View:
        """Return it repeated to a shape that it broadcasts to; along a size of 1 no step counts."""
        missing = len(shape) - len(self.shape)
        steps = (
            0 if size == 1 else stride
            for size, stride in zip(self.shape, self.strides, strict=True)
        )
        return View(shape=shape, strides=(*(0,) * missing, *steps), aligned=self.aligned)

    def with_axis(self, place: int) -> View:
        """Return it with an axis of size 1 before the axis `place`, counted from 0."""
        shape, strides = self.shape, self.strides
        return View(
            shape=(*shape[:place], 1, *shape[place:]),
            strides=(*strides[:place], 0, *strides[place:]),
            aligned=self.aligned,
        )

    @property
    def span(self) -> tuple[int, int]:
        """The bytes from the lowest element to past the highest, counted from the first one."""
        if 0 in self.shape:
            return 0, 0
        ends = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
        return FLOAT_BYTES * low, FLOAT_BYTES * (high + 1)

    @property
    def overlaps_itself(self) -> bool:
        """Whether elements of it may share memory: no order of its axes is one of nested steps."""
        reach = 0
        axes = zip(self.shape, self.strides, strict=True)
        for size, stride in sorted(axes, key=lambda axis: abs(axis[1])):
            if size > 1:
                if abs(stride) <= reach:
                    return True
                reach += (size - 1) * abs(stride)
        return False


def packed(shape: Shape) -> View:
    """Return a new row-major array of a shape: what an allocator gives."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return View(shape=shape, strides=tuple(reversed(strides)))

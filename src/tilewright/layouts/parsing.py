"""Reading layouts in the form that CuTe prints: `((4,8),2):((8,1),32)`, `Sw<3,4,3> o 0 o …`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from tilewright.errors import LayoutError
from tilewright.layouts.composition import Tiler
from tilewright.layouts.int_tuple import IntTuple
from tilewright.layouts.layout import Layout
from tilewright.layouts.swizzle import AnyLayout, ComposedLayout, Swizzle

_SWIZZLES = ("Sw<", "S<")
_THEN = ("o", "∘")
_Read = TypeVar("_Read")


def parse(text: str) -> AnyLayout:
    """Read a layout, with a swizzle before it or not; without strides it is column-major.

    Static integers may keep CuTe's underscore: `(_4,_8):(_8,_1)`.

    >>> print(parse("(4,8):(8,1)"), parse("(4, (2, 3))"))
    (4,8):(8,1) (4,(2,3)):(1,(4,8))
    >>> print(parse("Sw<3,4,3> o (8,64):(64,1)"))
    Sw<3,4,3> o 0 o (8,64):(64,1)

    Raises:
        LayoutError: text that is no layout, with a caret under the character.
    """
    return _whole(text, _Reader.any_layout)


def parse_layout(text: str) -> Layout:
    """Read a layout without a swizzle.

    >>> print(parse_layout("((4,8),2):((8,1),32)"))
    ((4,8),2):((8,1),32)

    Raises:
        LayoutError: text that is no such layout, with a caret under the character.
    """
    return _whole(text, _Reader.layout)


def parse_tiler(text: str) -> Tiler:
    """Read a tiler: a layout, a shape (sizes by mode), or `<3:3,(2,4):(1,8)>`; `_` leaves a mode.

    >>> parse_tiler("<3:3,_>"), parse_tiler("(3,8)"), parse_tiler("4:2")
    ((Layout(3, 3), None), (3, 8), Layout(4, 2))

    Raises:
        LayoutError: text that is no tiler, with a caret under the character.
    """
    return _whole(text, _Reader.tiler)


def parse_swizzle(text: str) -> Swizzle:
    """Read a swizzle alone.

    >>> print(parse_swizzle("Sw<3,4,3>"))
    Sw<3,4,3>

    Raises:
        LayoutError: text that is no swizzle, with a caret under the character.
    """
    return _whole(text, _Reader.swizzle)


def _whole(text: str, read: Callable[[_Reader], _Read]) -> _Read:
    """Read one thing that takes up all of a text."""
    reader = _Reader(text)
    found = read(reader)
    reader.end()
    return found


class _Reader:
    """A cursor over the text; each method reads one thing and leaves the cursor behind it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def any_layout(self) -> AnyLayout:
        start = self._skip()
        if not self.text.startswith(_SWIZZLES, start):
            return self.layout()
        swizzle = self.swizzle()
        self._then("a swizzle needs a layout behind it, as in Sw<3,4,3> o (8,64):(64,1)")
        offset = 0
        if self._offset_ahead():
            offset = self._integer("an offset")
            self._then("the layout after the offset")
        return ComposedLayout(swizzle, offset, self.layout())

    def layout(self) -> Layout:
        start = self._skip()
        shape = self._tuple("a size", 1)
        if not self._take(":"):
            return Layout(shape)
        stride = self._tuple("a stride", 0)
        return self._layout(shape, stride, start)

    def tiler(self) -> Tiler:
        if self._take("<"):
            parts = [self.tiler()]
            while self._take(","):
                parts.append(self.tiler())
            self._expect(">", "',' or '>'")
            return tuple(parts)
        if self._take("_", unless_digit=True):
            return None
        start = self._skip()
        shape = self._tuple("a size", 1)
        if not self._take(":"):
            return shape
        return self._layout(shape, self._tuple("a stride", 0), start)

    def end(self) -> None:
        if self._skip() < len(self.text):
            self._fail("expected the end; a layout is shape:stride, as in (4,8):(8,1)")

    def _layout(self, shape: IntTuple, stride: IntTuple, start: int) -> Layout:
        try:
            return Layout(shape, stride)
        except LayoutError as error:
            self._fail(str(error), start)

    def swizzle(self) -> Swizzle:
        start = self._skip()
        if not self.text.startswith(_SWIZZLES, start):
            self._fail("expected Sw<bits,base,shift>")
        self.at = self.text.index("<", start) + 1
        numbers = [self._integer("the number of bits")]
        for what in ("the base", "the shift"):
            self._expect(",", f"',' and {what}: a swizzle is Sw<bits,base,shift>")
            numbers.append(self._integer(what, signed=True))
        self._expect(">", "'>': a swizzle is Sw<bits,base,shift>")
        try:
            return Swizzle(*numbers)
        except LayoutError as error:
            self._fail(str(error), start)

    def _tuple(self, what: str, least: int) -> IntTuple:
        if not self._take("("):
            return self._integer(f"{what} or '('", least=least)
        items = [self._tuple(what, least)]
        while self._take(","):
            items.append(self._tuple(what, least))
        self._expect(")", "',' or ')'")
        return tuple(items)

    def _integer(self, what: str, *, signed: bool = False, least: int = 0) -> int:
        start = self._skip()
        end = start + (self.text.startswith("_", start))
        end += signed and self.text.startswith("-", end)
        digits = end
        while end < len(self.text) and self.text[end] in "0123456789":
            end += 1
        if end == digits:
            self._fail(f"expected {what}")
        value = int(self.text[start:end].removeprefix("_"))
        if not signed and value < least:
            self._fail(f"{value} is below {least}, the least that this may be")
        self.at = end
        return value

    def _offset_ahead(self) -> bool:
        """Say whether an integer and another `o` follow, so not the layout itself."""
        mark = self._skip()
        while self.at < len(self.text) and self.text[self.at] in "_0123456789":
            self.at += 1
        found = self.at > mark and self.text.startswith(_THEN, self._skip())
        self.at = mark
        return found

    def _then(self, what: str) -> None:
        if not self.text.startswith(_THEN, self._skip()):
            self._fail(f"expected 'o': {what}")
        self.at += 1

    def _take(self, mark: str, *, unless_digit: bool = False) -> bool:
        at = self._skip()
        if not self.text.startswith(mark, at):
            return False
        if unless_digit and self.text[at + 1 : at + 2].isdigit():
            return False
        self.at = at + 1
        return True

    def _expect(self, mark: str, what: str) -> None:
        if not self._take(mark):
            self._fail(f"expected {what}")

    def _skip(self) -> int:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at

    def _fail(self, message: str, at: int | None = None) -> NoReturn:
        place = self.at if at is None else at
        raise LayoutError(f"{message}\n  {self.text}\n  {' ' * place}^")

"""What all charts share: matplotlib to a PNG, or to an SVG that takes the colours of its page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from tilewright.errors import TilewrightError

# What is drawn in the ink of the page: a colour that nothing else has, replaced in the SVG.
INK = "#010203"
PAGE = "#fdfefc"  # likewise the page's own ground, behind text that something crosses
_INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
# Text stays text in the SVG, and the same records give the same bytes.
SETTINGS = {
    **dict.fromkeys(_INKED, INK),
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "tilewright",
}
_DPI = 110
# Of an SVG: what nobody sees, names that would be several times in a page of several, the font.
_LEFT_OUT = re.compile(
    r"<!--.*?-->|<metadata>.*?</metadata>|(?<=<g) id=\"[^\"]*\"|font-family: [^;]*; |^\s+",
    re.DOTALL | re.MULTILINE,
)
# Digits of a place beyond a hundredth of a point, which nobody sees: in elements, not in text.
_ELEMENT = re.compile(r"<[^>]*>")
_FINER = re.compile(r"(\d\.\d\d)\d+")


def require_matplotlib(option: str) -> None:
    """Check that there is what draws, for an option that needs it.

    Raises:
        TilewrightError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise TilewrightError(
            f"{option} needs matplotlib ({error}): pip install 'tilewright[plot]'"
        ) from error


def svg(figure: Any, label: str) -> str:  # noqa: ANN401 - a figure of matplotlib
    """Return a figure as an element of a page; `label` is the id of the text that says the same.

    It is drawn under `SETTINGS`, as the figure was.
    """
    image = io.BytesIO()
    figure.savefig(image, format="svg", transparent=True, metadata={"Date": None})
    text = image.getvalue().decode()
    picture = text[text.index("<svg") :].replace(INK, "currentColor")
    picture = picture.replace(PAGE, "var(--page)")
    picture = _LEFT_OUT.sub("", picture)
    picture = _ELEMENT.sub(lambda found: _FINER.sub(r"\1", found[0]), picture)
    return picture.replace("<svg ", f'<svg role="img" aria-labelledby="{label}" ', 1)


def png(figure: Any) -> bytes:  # noqa: ANN401 - a figure of matplotlib
    """Return a figure as an image on white; it is drawn under `SETTINGS`, as the figure was."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=_DPI, facecolor="white")
    return image.getvalue()


def spread_bars(
    axes: Any,  # noqa: ANN401 - axes of matplotlib
    places: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    colour: str,
) -> None:
    """Draw upright bars from `low` to `high`, as one line with gaps: hundreds take little room."""
    nan = float("nan")
    x = [value for place in places for value in (place, place, nan)]
    y = [value for least, most in zip(low, high, strict=True) for value in (least, most, nan)]
    axes.plot(x, y, color=colour, linewidth=1.2)

"""What all charts share: matplotlib to an SVG whose text and axes take the colours of its page."""

from __future__ import annotations

import io
from typing import Any

from tilewright.errors import TilewrightError

# What is drawn in the ink of the page: a colour that nothing else has, replaced in the SVG.
INK = "#010203"
_INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
# Text stays text in the SVG, and the same records give the same bytes.
SETTINGS = {
    **dict.fromkeys(_INKED, INK),
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "tilewright",
}


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
    return picture.replace("<svg ", f'<svg role="img" aria-labelledby="{label}" ', 1)

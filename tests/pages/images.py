"""What tests ask of a PNG: its size, and how much of it has a colour."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.int64]
_NEAR = 12  # of 255: edges of marks are blended with what is below


def pixels(path: str | Path) -> Pixels:
    """Return an image's rows of pixels, red, green and blue from 0 to 255."""
    from matplotlib.image import imread

    found: Pixels = np.round(255 * imread(path)[..., :3]).astype(np.int64)
    return found


def coloured(image: Pixels, colour: str) -> npt.NDArray[np.bool_]:
    """Return where an image has about that colour, given as #rrggbb."""
    wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    found: npt.NDArray[np.bool_] = abs(image - wanted).max(axis=2) < _NEAR
    return found


def count(image: Pixels, colour: str) -> int:
    """Return how many pixels have about that colour."""
    return int(coloured(image, colour).sum())

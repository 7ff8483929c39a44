"""Pages: templates filled in, with their styles, scripts and data inside. They load nothing."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.report.palette import QUALITATIVE, SEQUENTIAL

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_FOLDER = Path(__file__).with_name("pages")


def render(template: str, **values: object) -> str:
    """Return a template of `report/pages` filled in; text is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals |= {"asset": _asset, "qualitative": QUALITATIVE, "sequential": SEQUENTIAL}
    found.filters |= {"data": _data}
    return found


def _asset(name: str) -> Markup:
    """Return a style or script of ours, as it stands."""
    from markupsafe import Markup

    return Markup((_FOLDER / name).read_text(encoding="utf-8"))


def _data(value: object) -> Markup:
    """Return JSON that can stand in a script element, whatever text is in it."""
    from markupsafe import Markup

    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)

"""Markdown as the pages have it: tables, and paragraphs of 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    head, *body = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return [head, f"|{'---|' * len(heads)}", *body]


def paragraph(text: str) -> list[str]:
    """Return the lines of a paragraph."""
    return textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)

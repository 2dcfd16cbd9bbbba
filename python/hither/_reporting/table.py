"""Tables of names and properties, as text and for notebooks."""

from __future__ import annotations

import html
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MAX_HTML_ROWS = 200
"""Rows of a table in a notebook; the rest is counted."""


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> str:
    """Return a table as text. Cells that are longer than the width of their column are cut."""
    lines = [_text_row(header, widths), "-+-".join("-" * width for width in widths)]
    lines += (_text_row(row, widths) for row in rows)
    return "".join(f"{line}\n" for line in lines)


def _text_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    cut = (
        cell if len(cell) <= width else f"{cell[: max(0, width - 3)]}..."
        for cell, width in zip(cells, widths, strict=True)
    )
    return " | ".join(f"{cell:<{width}}" for cell, width in zip(cut, widths, strict=True)).rstrip()


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a title and a table as HTML, with all text escaped."""
    remaining = iter(rows)
    shown = [_html_row("td", row) for row in itertools.islice(remaining, _MAX_HTML_ROWS)]
    left = sum(1 for _ in remaining)
    more = f"<div>and {left} more</div>" if left else ""
    return f"<div>{html.escape(title)}</div><table>{_html_row('th', header)}{''.join(shown)}</table>{more}"


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

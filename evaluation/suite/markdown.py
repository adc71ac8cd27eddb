"""Parts of a Markdown page."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.measures.bootstrap import Interval
from evaluation.reports.text_table import interval_cell

NOTHING = "–"
"""In the place of a figure that there is none of."""


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is flush left, all others flush right.

    Raises:
        ValueError: if a row has another length than the header.
    """
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"rows should have {len(header)} cells, as the header has")
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def with_interval(value: float, interval: Interval, *, digits: int = 1, sign: str = "") -> str:
    """A figure and its interval in brackets; ``sign`` is "+" where a plus should be shown."""
    return f"{value:{sign}.{digits}f} ({interval_cell(interval, digits=digits, sign=sign)})"


def section(title: str, *parts: str) -> str:
    """A second-level heading with its parts, empty ones left out."""
    return "\n\n".join([f"## {title}", *(part for part in parts if part)])

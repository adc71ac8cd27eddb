"""Markdown tables of figures."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, padded: bool = False) -> str:
    """A table whose first column is flush left and all others flush right.

    Args:
        header: the column titles.
        rows: the cells, one per column.
        padded: whether cells are filled with spaces, so that columns line up in a terminal as well.

    Raises:
        ValueError: if the length of a row differs from the header's.
    """
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"rows should have {len(header)} cells like the header")
    if not padded:
        return "\n".join(map(_line, (header, ["---", *["---:"] * (len(header) - 1)], *rows)))
    widths = [max(3, *(len(line[column]) for line in (header, *rows))) for column in range(len(header))]
    first, *others = ("-" * width for width in widths)
    rule = [first, *(dashes[1:] + ":" for dashes in others)]
    return "\n".join(_line(_aligned(line, widths)) for line in (header, rule, *rows))


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

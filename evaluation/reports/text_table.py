"""Tables of plain text: the first column flush left, all others flush right."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.measures.bootstrap import Interval


def text_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """The lines under their header and a rule."""
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]
    return "\n".join(_aligned(line, widths) for line in (header, tuple("-" * width for width in widths), *lines))


def interval_cell(interval: Interval | None, *, digits: int = 1, sign: str = "") -> str:
    """Both ends, empty for None; ``sign`` is "+" where a plus should be shown."""
    return "" if interval is None else f"{interval.low:{sign}.{digits}f} to {interval.high:{sign}.{digits}f}"


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
    return "  ".join([line[0].ljust(widths[0]), *cells]).rstrip()

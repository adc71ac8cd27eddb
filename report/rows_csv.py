"""Rows as CSV for spreadsheets: no cell is taken for a formula."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from report.rows_values import Plain, plain_rows

BYTE_ORDER_MARK = "\ufeff"
_FORMULA_STARTS = tuple("=+-@＝＋－＠")
_CELL_BREAKS = ("\t", "\r", "\n")


def csv_lines(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """A line of column names, then one record a row (RFC 4180), after the mark by which spreadsheets know UTF-8.

    Lists and structs are JSON. A text that a spreadsheet might take for a formula gets an apostrophe before it.
    """
    yield BYTE_ORDER_MARK + _record([_cell(name) for name in schema.names])
    for batch in batches:
        for row in plain_rows(batch):
            yield _record([_cell(value) for value in row])


def _cell(value: Plain) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    return f"'{text}" if _looks_like_formula(text) else text


def _looks_like_formula(text: str) -> bool:
    """Also behind white space, which some spreadsheets skip, and where a tab or a line break may start a new cell."""
    return text.lstrip().startswith(_FORMULA_STARTS) or text.startswith(_CELL_BREAKS)


def _record(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()

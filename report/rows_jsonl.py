"""Rows as JSON lines: one object a row, texts exactly as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa

from report.rows_values import plain_rows


def jsonl_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """One line a row, with its line feed; fields in the order of the schema."""
    for batch in batches:
        names = batch.schema.names
        for row in plain_rows(batch):
            fields = dict(zip(names, row, strict=True))
            yield json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"

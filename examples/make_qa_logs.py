"""Writes qa_logs.parquet from qa_logs.jsonl; the same source and pyarrow version give the same bytes.

Run it from anywhere: ``python examples/make_qa_logs.py``. ``example_note`` and ``expected`` stay in the source: a
production log has neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NotRequired, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq

SOURCE = Path(__file__).with_name("qa_logs.jsonl")
TARGET = SOURCE.with_suffix(".parquet")
ROWS_PER_GROUP = 20

_PASSAGE = pa.struct([("passage_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_SPAN = pa.struct([("char_start", pa.int32()), ("char_end", pa.int32())])
SCHEMA = pa.schema(
    [
        ("record_id", pa.string()),
        ("question", pa.string()),
        ("passages", pa.list_(_PASSAGE)),
        ("answer", pa.string()),
        ("target_spans", pa.list_(_SPAN)),
        ("answered_at", pa.timestamp("us", tz="UTC")),
        ("generator", pa.string()),
        ("tenant", pa.string()),
        ("thumbs", pa.int8()),
    ]
)


class SourceRow(TypedDict):
    """One line of the source."""

    record_id: str
    example_note: str
    expected: str
    question: str | None
    passages: list[dict[str, str | None]]
    answer: str
    answer_encoding: NotRequired[str]
    target_texts: NotRequired[list[str]]
    target_ranges: NotRequired[list[list[int]]]
    answered_at: str
    generator: str
    tenant: str
    thumbs: int | None


def read_source(path: Path = SOURCE) -> list[SourceRow]:
    """The rows of the readable source, in its order."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def make_table(rows: Iterable[SourceRow]) -> pa.Table:
    """The log of ``rows`` as a table with ``SCHEMA``; every text is UTF-8 but where ``answer_encoding`` says else."""
    rows = list(rows)
    columns = [_column(rows, field) for field in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def write_log(table: pa.Table, path: Path = TARGET) -> None:
    """Writes ``table`` as zstd Parquet with small row groups, as a log that grew over a few days has."""
    pq.write_table(table, path, compression="zstd", row_group_size=ROWS_PER_GROUP)


def target_spans(row: SourceRow) -> list[dict[str, int]] | None:
    """The code point ranges of ``target_texts``, then ``target_ranges`` as they stand; None where a row has neither.

    Raises:
        ValueError: if a target text does not occur exactly once in the answer.
    """
    texts, ranges = row.get("target_texts"), row.get("target_ranges")
    if texts is None and ranges is None:
        return None
    found = [_only_occurrence(row["record_id"], row["answer"], text) for text in texts or ()]
    given = [(start, end) for start, end in ranges or ()]
    return [{"char_start": start, "char_end": end} for start, end in [*found, *given]]


def _only_occurrence(record_id: str, answer: str, text: str) -> tuple[int, int]:
    char_start = answer.find(text)
    if char_start < 0 or answer.find(text, char_start + 1) >= 0:
        raise ValueError(f"{record_id}: a target text should occur exactly once in the answer; make it longer: {text}")
    return char_start, char_start + len(text)


def _column(rows: list[SourceRow], field: pa.Field) -> pa.Array:
    if field.name == "answer":
        return _unchecked_strings([_answer_bytes(row) for row in rows])
    return pa.array([_value(row, field.name) for row in rows], type=field.type)


def _value(row: SourceRow, column: str) -> object:
    if column == "target_spans":
        return target_spans(row)
    if column == "answered_at":
        return datetime.fromisoformat(row["answered_at"])
    return row.get(column)


def _answer_bytes(row: SourceRow) -> bytes:
    return row["answer"].encode(row.get("answer_encoding", "utf-8"))


def _unchecked_strings(values: list[bytes]) -> pa.Array:
    """``values`` as a string array without the UTF-8 check: one example is invalid on purpose."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, type=pa.binary()).buffers())


if __name__ == "__main__":
    write_log(make_table(read_source()))

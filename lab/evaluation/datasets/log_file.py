"""The rows of a QA log in our own input format, checked column by column; an error names file, row and column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.lab.evaluation.datasets.dataset_file import DataRow
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.errors import DataError
from attribeam.schemas.qa_record import LABEL_GROUP, SPAN_LABELS, UNSUPPORTED_SPANS

_BATCH_ROWS = 256
_NEEDED = ("record_id", "question", "passages", "answer")
_READ = (*_NEEDED, "target_spans", "generator", "split", SPAN_LABELS, UNSUPPORTED_SPANS, LABEL_GROUP)


def read_log(path: Path, *, label_columns: tuple[str, ...]) -> Iterator[DataRow]:
    """The rows of a Parquet file, their columns under the names of docs/schema.md.

    Raises:
        DataError: if the file cannot be read, lacks a needed column, or has none of ``label_columns``.
    """
    try:
        with pq.ParquetFile(path) as parquet:
            names = parquet.schema_arrow.names
            _check_columns(path, names, label_columns)
            row = 0
            for batch in parquet.iter_batches(
                batch_size=_BATCH_ROWS, columns=[name for name in _READ if name in names]
            ):
                for fields in batch.to_pylist():
                    yield DataRow(fields, row, f"{path}, row {row}")
                    row += 1
    except FileNotFoundError as error:
        raise DataError(f"data file {path} does not exist; --data should name a Parquet file") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"data file {path} should be a readable Parquet file: {error}") from error


def log_record(row: DataRow, path: Path) -> QARecord | str:
    """The record of a row, or the reason why it can be none: ``empty_answer`` or ``no_passages``.

    Raises:
        DataError: if a value is missing or of another type.
    """
    answer = row.optional_text("answer") or ""
    if not answer.strip():
        return "empty_answer"
    passages = _passages(row)
    if not any(passage.text.strip() for passage in passages):
        return "no_passages"
    number = row.fields.get("record_id")
    return QARecord(
        record_id=str(number) if isinstance(number, int) else row.text("record_id"),
        question=row.text("question"),
        passages=passages,
        answer=answer,
        source=RowSource(path.name, row.row),
        target_spans=_target_spans(row, len(answer)),
        generator=row.optional_text("generator"),
    )


def char_range(item: DataRow, length: int) -> CharRange:
    """``char_start`` and ``char_end`` of an object, within a text of ``length`` code points."""
    start, end = item.integer("char_start"), item.integer("char_end")
    if not 0 <= start < end <= length:
        raise item.error("char_start", f"should satisfy 0 <= char_start < char_end <= {length}, was: [{start}, {end})")
    return CharRange(start, end)


def _check_columns(path: Path, names: list[str], label_columns: tuple[str, ...]) -> None:
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise DataError(f"data file {path} should have the columns {missing}, has: {names}")
    if not any(name in names for name in label_columns):
        raise DataError(
            f"data file {path} should have labels in a column {' or '.join(label_columns)}, has: {names}; see "
            "'Labels' in docs/schema.md"
        )


def _passages(row: DataRow) -> tuple[Passage, ...]:
    found = row.fields.get("passages") or []
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return tuple(Passage(text=text) for text in row.texts("passages")) if found else ()
    return tuple(_passage(one) for one in row.objects("passages"))


def _passage(one: DataRow) -> Passage:
    number = one.fields.get("passage_id")
    passage_id = str(number) if isinstance(number, int) else one.optional_text("passage_id")
    return Passage(text=one.text("text"), title=one.optional_text("title"), passage_id=passage_id)


def _target_spans(row: DataRow, length: int) -> tuple[CharRange, ...] | None:
    if not row.fields.get("target_spans"):
        return None
    return tuple(char_range(one, length) for one in row.objects("target_spans"))

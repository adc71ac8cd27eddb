"""Reading a QA log for training: the columns of docs/schema.md, nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.errors import DataError

_NEEDED = ("record_id", "question", "passages", "answer")
_BATCH_ROWS = 256


def read_qa_log(path: Path) -> Iterator[QARecord]:
    """The rows of a Parquet file that have an answer and passages, in their order.

    Raises:
        DataError: if it is not there or no Parquet file, a needed column is missing, or a row does not have the types
            of docs/schema.md; the message names file and row.
        OSError: if it cannot be read.
    """
    try:
        with pq.ParquetFile(path) as parquet:
            names = parquet.schema_arrow.names
            missing = [name for name in _NEEDED if name not in names]
            if missing:
                raise DataError(f"QA log {path} should have the columns {missing}, has: {names}")
            columns = [name for name in (*_NEEDED, "target_spans") if name in names]
            row = 0
            for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
                for fields in batch.to_pylist():
                    if _is_usable(fields):
                        yield _record(fields, RowSource(path.name, row), where=f"QA log {path}, row {row}")
                    row += 1
    except FileNotFoundError as error:
        raise DataError(f"QA log {path} does not exist; --data should name a Parquet file") from error
    except pa.ArrowException as error:
        raise DataError(f"QA log {path} should be a Parquet file: {error}") from error


def _is_usable(fields: Mapping[str, Any]) -> bool:
    return bool((fields["answer"] or "").strip()) and bool(fields["passages"])


def _record(fields: Mapping[str, Any], source: RowSource, *, where: str) -> QARecord:
    try:
        spans = fields.get("target_spans")
        return QARecord(
            record_id=str(fields["record_id"]),
            question=fields["question"],
            passages=tuple(_passage(one) for one in fields["passages"]),
            answer=fields["answer"],
            source=source,
            target_spans=tuple(CharRange(one["char_start"], one["char_end"]) for one in spans) if spans else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{where} should be as docs/schema.md says: {error!r}") from error


def _passage(one: str | Mapping[str, Any]) -> Passage:
    if isinstance(one, str):
        return Passage(text=one)
    return Passage(text=one["text"], title=one.get("title"))

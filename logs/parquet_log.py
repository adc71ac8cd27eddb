"""Reading one Parquet log: ranges of rows in small batches, one outcome a row; and rows that repeat an id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from attribeam.logs.columns import InputFormat, is_text, plain_array
from attribeam.logs.files import open_file
from attribeam.logs.rows import RawRow, RowRange, RowValidator, raw_rows
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, RowSource, Stage
from attribeam.transforms.audit_settings import AuditSettings

BATCH_ROWS = 256
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class QARecordReader:
    """Reads QA logs; memory depends on ``BATCH_ROWS`` rows and never on the size of a row group."""

    settings: AuditSettings

    def read(self, row_range: RowRange) -> Iterator[QARecord | DeadLetter]:
        """Exactly one outcome a row of the range, in the order of the rows.

        Raises:
            LogFormatError: if the file lacks a column.
            EOFError: if the file has fewer rows than the range.
            OSError, pyarrow.ArrowInvalid: if it cannot be read.
        """
        duplicates = frozenset(row_range.duplicate_rows)
        with closing(FileSystems.open(row_range.file, compression_type=CompressionTypes.UNCOMPRESSED)) as file:
            parquet = pq.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
            input_format = InputFormat.from_schema(row_range.file, parquet.schema_arrow, self.settings)
            validator = RowValidator(input_format, self.settings.max_text_chars)
            for first_row, batch in record_batches(parquet, row_range, input_format.leaf_paths(parquet.schema)):
                for row, raw in enumerate(raw_rows(batch, input_format), start=first_row):
                    source = RowSource(row_range.file, row)
                    yield self._outcome(raw, source, validator, duplicate=row in duplicates)

    def _outcome(
        self, raw: RawRow, source: RowSource, validator: RowValidator, *, duplicate: bool
    ) -> QARecord | DeadLetter:
        try:
            return validator.validate(raw, source, duplicate=duplicate)
        except RowFault as fault:
            return DeadLetter(
                record_id=_value_or_none(validator.record_id, raw),
                source=source,
                stage=Stage.READ if fault.reason is Reason.INVALID_UTF8 else Stage.VALIDATE,
                reason=fault.reason,
                message=str(fault),
                column=fault.column,
                answer=_value_or_none(validator.answer, raw) if self.settings.dead_letter_text else None,
            )


def record_batches(
    parquet: pq.ParquetFile, row_range: RowRange, columns: list[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(first row, batch) pairs that together are the range; a batch has at most ``BATCH_ROWS`` rows.

    Raises:
        EOFError: if the file has fewer rows than the range.
    """
    groups, row = _row_groups(parquet.metadata, row_range)
    batches = parquet.iter_batches(batch_size=BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False)
    for batch in batches:
        start = max(row_range.row_start - row, 0)
        end = min(row_range.row_end - row, batch.num_rows)
        if start < end:
            yield row + start, batch.slice(start, end - start)
        row += batch.num_rows
        if row >= row_range.row_end:
            return
    if row < row_range.row_end:
        raise EOFError(
            f"{row_range.file} should have at least {row_range.row_end} rows, has {row}; "
            "it was changed after the run was planned, start the audit again"
        )


def _row_groups(metadata: pq.FileMetaData, row_range: RowRange) -> tuple[list[int], int]:
    """The row groups that share a row with the range, and the first row of the first of them."""
    groups: list[int] = []
    first_row = row = 0
    for group in range(metadata.num_row_groups):
        end = row + metadata.row_group(group).num_rows
        if row < row_range.row_end and end > row_range.row_start:
            first_row = first_row if groups else row
            groups.append(group)
        row = end
    return groups, first_row if groups else row


def _value_or_none(part: Callable[[RawRow], str], raw: RawRow) -> str | None:
    """A part of the row, None where it is what is faulty."""
    try:
        return part(raw)
    except RowFault:
        return None


_ID_BATCH_ROWS = 16_384


def find_duplicate_rows(path: str, *, id_column: str) -> npt.NDArray[np.int64]:
    """0-based rows, ascending, whose id stands in an earlier row of the file; nulls are no duplicates.

    A first pass keeps a 64-bit hash a row; only ids whose hash comes up more than once are compared, in a second.
    """
    hashes = np.concatenate([_id_hashes(ids) for ids in _id_batches(path, id_column)] or [np.empty(0, np.int64)])
    values, counts = np.unique(hashes, return_counts=True)
    repeated = values[counts > 1]
    if not len(repeated):
        return np.empty(0, np.int64)
    return np.array(list(_repeated_rows(path, id_column, repeated)), np.int64)


def _repeated_rows(path: str, id_column: str, repeated: npt.NDArray[np.int64]) -> Iterator[int]:
    seen: set[object] = set()
    row_start = 0
    for ids in _id_batches(path, id_column):
        for row in np.flatnonzero(np.isin(_id_hashes(ids), repeated)).tolist():
            value = ids[row]
            if value is None:
                continue
            if value in seen:
                yield row_start + row
            seen.add(value)
        row_start += len(ids)


def _id_batches(path: str, id_column: str) -> Iterator[list[object]]:
    """The ids in small batches; text as bytes, because it may be no UTF-8."""
    with open_file(path) as file, pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(batch_size=_ID_BATCH_ROWS, columns=[id_column]):
            yield _comparable_ids(batch.column(0)).to_pylist()


def _comparable_ids(ids: pa.Array) -> pa.Array:
    plain = plain_array(ids)
    return plain.cast(pa.large_binary()) if is_text(plain.type) else plain


def _id_hashes(ids: list[object]) -> npt.NDArray[np.int64]:
    return np.fromiter((hash(value) for value in ids), np.int64, len(ids))

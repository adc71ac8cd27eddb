"""A table in memory as a log: anything that gives Arrow data, in batches, checked row by row as a file's rows are."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Protocol, cast, runtime_checkable

import pyarrow as pa

from attribeam.logs.columns import IMPORT_HINT, ColumnMap, LogOptions
from attribeam.logs.reader import BATCH_ROWS
from attribeam.logs.rows import FaultyRow, RawRow, RowValidator, raw_rows
from attribeam.schemas import QARecord, RowFault, RowSource
from attribeam.schemas.errors import LogFormatError, UsageError


@runtime_checkable
class ArrowStream(Protocol):
    """A table of any library by Arrow's PyCapsule interface: of pyarrow, pandas, polars, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@runtime_checkable
class Dataset(Protocol):
    """What is used of a ``datasets.Dataset``, whose chosen and shuffled rows its own iterator knows."""

    features: object

    def with_format(self, type: str) -> Dataset: ...

    def iter(self, batch_size: int) -> Iterator[pa.Table]: ...


@dataclass(frozen=True)
class TableLog:
    """A table that is read once, from its first row to its last.

    Attributes:
        data: what holds the rows.
        name: what stands for the file's name in records and messages.
        options: as for a file; the format says nothing.
    """

    data: object
    name: str
    options: LogOptions

    @cached_property
    def columns(self) -> ColumnMap:
        """Which columns hold which fields.

        Raises:
            UsageError: if the data are no table.
            LogFormatError: if a column is missing, is there twice or has another type than expected.
        """
        schema, _ = self._opened
        if self.row_count == 0:
            schema = _with_types(schema, passages=dict(self.options.columns).get("passages", "passages"))
        try:
            found = ColumnMap.from_schema(self.name, schema, self.options)
        except LogFormatError as error:
            raise LogFormatError(in_python(str(error))) from error
        for note in found.notes:
            warnings.warn(in_python(note), stacklevel=2)
        return found

    @property
    def row_count(self) -> int | None:
        """Number of rows where the table knows it; None for a stream or a query, which asking might use up."""
        counts = [getattr(self.data, name, None) for name in ("num_rows", "height")]
        if hasattr(self.data, "iloc"):
            counts.append(len(cast(Sized, self.data)))
        return next((count for count in counts if isinstance(count, int)), None)

    def outcomes(self) -> Iterator[QARecord | FaultyRow]:
        """Exactly one outcome per row, in order; a row whose id an earlier one has is faulty."""
        validator = RowValidator(self.columns, self.options.max_text_chars)
        names = list(dict.fromkeys(part.column for part in self.columns.parts()))
        seen: set[object] = set()
        row = 0
        for batch in _small(self._opened[1]):
            for raw in raw_rows(batch.select(names), self.columns, self.options.max_text_chars):
                source = RowSource(self.name, row)
                yield _explained(validator.outcome(raw, source, duplicate=_is_repeated(raw, seen)))
                row += 1

    @cached_property
    def _opened(self) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
        return _record_batches(self.data)


def in_python(message: str) -> str:
    """A message that names options of the command line, with the keywords of the same names."""
    message = message.replace(IMPORT_HINT, "give lists, such as json.loads makes of JSON text")
    message = re.sub(r"--columns (\w+)=\.\.\.", r'columns={"\1": ...}', message)
    message = re.sub(r"--columns (\w+)=(\w+)", r'columns={"\1": "\2"}', message)
    message = re.sub(r"--columns (\w+)=", r'columns={"\1": ""}', message)
    return re.sub(r"--(columns|extra-columns|max-text-chars)", lambda found: found[1].replace("-", "_"), message)


def _record_batches(data: object) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    if isinstance(data, ArrowStream):
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise UsageError(
                "the table should be one that Arrow can hold, with one name and one type of values for each column; "
                "the error before this one says what is in the way"
            ) from error
        return reader.schema, reader
    if isinstance(data, pa.RecordBatch):
        return data.schema, [data]
    if isinstance(data, Dataset):
        return _dataset_batches(data)
    raise UsageError(
        "a table is needed that gives Arrow data (__arrow_c_stream__), as those of pyarrow, pandas, polars and DuckDB "
        f"do, or a datasets.Dataset; was a {type(data).__name__}; collect a lazy one, and give a list of dicts to "
        "attribute_many"
    )


def _dataset_batches(data: Dataset) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    tables = data.with_format("arrow").iter(batch_size=BATCH_ROWS)
    first = next(tables, None)
    if first is None:
        schema: pa.Schema = getattr(data.features, "arrow_schema", pa.schema([]))
        return schema, []
    return first.schema, (batch for table in chain([first], tables) for batch in table.to_batches())


def _with_types(schema: pa.Schema, *, passages: str) -> pa.Schema:
    """A table without rows may have columns without a type; they are taken for what they should be."""
    types = {passages: pa.list_(pa.string())}
    return pa.schema(
        [one.with_type(types.get(one.name, pa.string())) if pa.types.is_null(one.type) else one for one in schema]
    )


def _small(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _is_repeated(raw: RawRow, seen: set[object]) -> bool:
    """Whether an earlier row has the same id; a missing id is never repeated."""
    if raw.record_id is None:
        return False
    repeated = raw.record_id in seen
    seen.add(raw.record_id)
    return repeated


def _explained(outcome: QARecord | FaultyRow) -> QARecord | FaultyRow:
    if isinstance(outcome, QARecord):
        return outcome
    fault = outcome.fault
    explained = RowFault(fault.reason, in_python(str(fault)), column=fault.column)
    return FaultyRow(outcome.source, outcome.record_id, explained, outcome.answer)

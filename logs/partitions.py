"""Columns that stand in the names of folders, as in ``dt=2026-01-01/part-0.parquet``, and in no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa

from attribeam.logs.columns import ColumnPart
from attribeam.logs.reader import LogBatch, OpenLog

_NULL = "__HIVE_DEFAULT_PARTITION__"


def with_partitions(log: OpenLog, path: str) -> OpenLog:
    """The log with a column of text for each folder ``name=value`` above its file; a column of the file goes before."""
    found = {name: value for name, value in _partitions(path).items() if name not in log.schema.names}
    return _PartitionedLog(log, found) if found and log.schema.names else log


def _partitions(path: str) -> dict[str, str | None]:
    """The names and values, decoded as URLs are; the innermost folder of a name counts."""
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    decoded = ((unquote(name), unquote(value)) for name, sign, value in pairs if name and sign)
    return {name: None if value == _NULL else value for name, value in decoded}


class _PartitionedLog:
    """A log with columns of one value, see ``OpenLog``."""

    def __init__(self, log: OpenLog, values: Mapping[str, str | None]) -> None:
        self._log = log
        self._values = values
        self.schema: pa.Schema = pa.schema([*log.schema, *(pa.field(name, pa.string()) for name in values)])
        self.row_count = log.row_count

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        """See ``OpenLog``."""
        own = [part for part in parts if part.column not in self._values]
        for one in self._log.batches(own or [ColumnPart(self._log.schema.names[0])], rows):
            found = one.rows
            for name, value in self._values.items():
                found = found.append_column(name, pa.array([value] * found.num_rows, pa.string()))
            yield LogBatch(one.first_row, found.select([part.column for part in parts]), one.faults)

"""What a kind of log is: a reader that gives its rows as Arrow record batches; everything else is written once.

Readers of other packages are found by the entry-point group ``attribeam.log_readers``, whose names are the values of
``--log-format``; docs/extending.md shows one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import BinaryIO, Protocol

import pyarrow as pa

from attribeam.logs.columns import PARQUET, ColumnPart, LogOptions, parse_column_mapping
from attribeam.schemas import RowFault
from attribeam.schemas.errors import UsageError

BATCH_ROWS = 256
"""The most rows of one batch: a worker's memory depends on it, and never on the size of a file."""

ENTRY_POINTS = "attribeam.log_readers"
OWN_READERS = {
    PARQUET: "attribeam.logs.arrow_logs:ParquetReader",
    "jsonl": "attribeam.logs.jsonl_log:JsonlReader",
    **dict.fromkeys(
        ("ragas", "openinference", "langfuse", "otel-genai", "mlflow", "langsmith", "responses"),
        "attribeam.logs.traces.trace_reader:TraceReader",
    ),
}


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Consecutive rows of a file; ``first_row`` is the 0-based row of the first one.

    ``faults`` are what the reader itself found wrong with rows, by their 0-based rows in the file; such a row becomes a
    dead letter, with its id and answer where they can be read.
    """

    first_row: int
    rows: pa.RecordBatch
    faults: Mapping[int, RowFault] = field(default_factory=dict)


class RowsMemoryError(MemoryError):
    """Rows, ascending and none of them given yet, that need more memory to be read than there is, and which fault."""

    def __init__(self, rows: Sequence[int], fault: RowFault) -> None:
        super().__init__(str(fault))
        self.rows = rows
        self.fault = fault


def runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """[start, stop) of each run of consecutive ``rows``, which ascend."""
    begin = 0
    for index in range(1, len(rows) + 1):
        if index == len(rows) or rows[index] != rows[index - 1] + 1:
            yield rows[begin], rows[index - 1] + 1
            begin = index


class OpenLog(Protocol):
    """One open file. ``schema`` has the names and types of the log itself."""

    schema: pa.Schema
    row_count: int

    def batches(self, parts: Sequence[ColumnPart], rows: Sequence[int]) -> Iterator[LogBatch]:
        """Exactly ``rows``, which ascend and are all in the file, in batches of at most ``BATCH_ROWS``.

        A batch has the columns of ``parts`` under the log's names. Texts may be no UTF-8: they are checked later, row
        by row, so that a broken one harms no other row.

        Raises:
            DataError: if the file is damaged; the message does not name it.
            OSError: if it cannot be read.
            RowsMemoryError: if some of the rows need too much memory; others behind them can still be asked for.
        """


class LogReader(Protocol):
    """One kind of log. ``suffix`` is how its files end where a folder is searched for them; braces hold several."""

    suffix: str

    def open(self, file: BinaryIO) -> OpenLog:
        """The log in a seekable file, which the caller closes. Reads no more than names, types and the row count need.

        Raises:
            LogFormatError: if the file is not of this kind.
            DataError: if it is, but is damaged; no message names the file.
            OSError: if it cannot be read.
        """


def reader_names() -> list[str]:
    """What ``--log-format`` may be: our own readers first."""
    return [*OWN_READERS, *sorted({one.name for one in entry_points(group=ENTRY_POINTS)} - OWN_READERS.keys())]


def reader_named(name: str) -> LogReader:
    """The reader of a format; other packages are imported only where they are asked for.

    Raises:
        UsageError: if there is none, or its package cannot be imported.
    """
    if name in OWN_READERS:
        module, _, kind = OWN_READERS[name].partition(":")
        make: Callable[..., LogReader] = getattr(import_module(module), kind)
        return make(name) if kind == "TraceReader" else make()
    for found in entry_points(group=ENTRY_POINTS, name=name):
        try:
            loaded: LogReader = found.load()()
        except (ImportError, AttributeError, TypeError) as error:
            raise UsageError(
                f"--log-format {name!r} should be {found.value!r}, which cannot be imported: {error}"
            ) from error
        if not callable(getattr(loaded, "open", None)) or not isinstance(getattr(loaded, "suffix", None), str):
            raise UsageError(
                f"--log-format {name!r} should be a class with a suffix and a method open, {found.value!r} is none; "
                "docs/extending.md shows one"
            )
        return loaded
    raise UsageError(f"--log-format should be one of {', '.join(reader_names())}, was: {name!r}")


LOG_FORMAT_HELP = f"{', '.join(OWN_READERS)}, or that of a package"
COLUMNS_HELP = "which column holds which field, e.g. record_id=trace_id,answer=response"


def add_log_arguments(add: Callable[..., argparse.Action]) -> None:
    """Add ``--log-format`` and ``--columns`` with the ``add_argument`` of a parser or a group."""
    add("--log-format", default=PARQUET, metavar="NAME", help=f"{LOG_FORMAT_HELP} (default: %(default)s)")
    add("--columns", default="", metavar="FIELD=COLUMN,...", help=COLUMNS_HELP)


def log_options(arguments: argparse.Namespace) -> LogOptions:
    """How to read the logs.

    Raises:
        UsageError: if ``--columns`` is no list of fields and columns.
    """
    return LogOptions(parse_column_mapping(arguments.columns), format=arguments.log_format)

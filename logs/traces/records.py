"""The records of an export, whatever kind of file it is: JSON, JSON lines, CSV, Parquet or Arrow, perhaps gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

from attribeam.logs.traces.json_values import Found, json_values
from attribeam.logs.traces.table_rows import arrow_rows, parquet_rows
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, LogFormatError

_HEAD_BYTES = 1 << 12
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_ARROW_STREAM = b"\xff\xff\xff\xff"

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))


def records(file: BinaryIO, *, wrappers: Sequence[str] = (), takes_csv: bool = True) -> Iterator[Found]:
    """The records in order; a ``RowFault`` stands in the place of one that cannot be read. An empty file has none.

    The content decides what kind of file it is, never a name. Of two members of the same name the last one counts.
    Columns of embeddings are not read.

    Raises:
        LogFormatError: if the file is none of these kinds.
        DataError: if it is damaged.
        OSError: if it cannot be read.
    """
    head = file.read(_HEAD_BYTES)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        yield from _unzipped(file, wrappers, takes_csv)
    elif head.startswith(b"PAR1"):
        yield from parquet_rows(file)
    elif head.startswith((b"ARROW1", _ARROW_STREAM)):
        yield from arrow_rows(file, is_stream=head.startswith(_ARROW_STREAM))
    else:
        yield from _text_records(file, head, wrappers, takes_csv)


def _unzipped(file: BinaryIO, wrappers: Sequence[str], takes_csv: bool) -> Iterator[Found]:
    with gzip.GzipFile(fileobj=file) as unzipped:
        try:
            head = unzipped.read(_HEAD_BYTES)
            unzipped.seek(0)
            yield from _text_records(cast(BinaryIO, unzipped), head, wrappers, takes_csv)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"should be whole gzip, is damaged: {error}; fetch it again") from error


def _text_records(file: BinaryIO, head: bytes, wrappers: Sequence[str], takes_csv: bool) -> Iterator[Found]:
    if head.startswith(_UTF16):
        raise LogFormatError("should be UTF-8, begins like UTF-16; save it as UTF-8")
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if begin.startswith((b"{", b"[")):
        yield from json_values(file, wrappers)
    elif begin and takes_csv and b"\x00" not in begin:
        yield from _csv_rows(file)
    elif begin:
        kinds = "JSON, JSON lines, CSV, Parquet or Arrow" if takes_csv else "JSON, JSON lines, Parquet or Arrow"
        raise LogFormatError(f"should be {kinds}, begins like none of these")


def _csv_rows(file: BinaryIO) -> Iterator[Found]:
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        yield from _read_csv(text)
    finally:
        text.detach()


def _read_csv(text: io.TextIOWrapper) -> Iterator[Found]:
    reader = csv.reader(text, strict=True)
    names: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield Found(line, _no_csv(line, reader.line_num, error))
            continue
        if cells is None:
            return
        if names is None:
            names = cells
            _check_names(names)
        elif cells:
            yield Found(line, _row_of(names, cells, line))


def _no_csv(first: int, last: int, error: csv.Error) -> RowFault:
    """The fault of a row that cannot be read; a quote that is not closed takes the lines after it along."""
    where = f"line {first} should be CSV, is not"
    if last > first:
        where = f"line {first} should be CSV, is not, and takes the lines up to {last} along"
    return RowFault(Reason.INVALID_VALUE, f"{where}: {error}; correct its quotes or export the file again", column=None)


def _check_names(names: Sequence[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise LogFormatError(f"should name each column once, line 1 has {repeated[0]!r} twice")
    if len(names) < 2:
        raise LogFormatError(
            "should be CSV with commas and a line of names, line 1 has no comma; check the format's name"
        )


def _row_of(names: Sequence[str], cells: Sequence[str], line: int) -> object:
    if len(cells) != len(names):
        return RowFault(
            Reason.INVALID_VALUE,
            f"line {line} should have {len(names)} fields as line 1 has, has {len(cells)}; export the file again",
            column=None,
        )
    return {name: cell or None for name, cell in zip(names, cells, strict=True)}

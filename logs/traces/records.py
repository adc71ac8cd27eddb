"""The records of an export, whatever kind of file it is: JSON, JSON lines, CSV, Parquet or Arrow, perhaps gzipped."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

from attribeam.logs.traces.csv_rows import csv_rows
from attribeam.logs.traces.json_values import Found, json_values
from attribeam.logs.traces.table_rows import arrow_rows, parquet_rows
from attribeam.schemas.errors import DataError, LogFormatError

_HEAD_BYTES = 1 << 12
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_ARROW_STREAM = b"\xff\xff\xff\xff"


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
        yield from csv_rows(file)
    elif begin:
        kinds = "JSON, JSON lines, CSV, Parquet or Arrow" if takes_csv else "JSON, JSON lines, Parquet or Arrow"
        raise LogFormatError(f"should be {kinds}, begins like none of these")

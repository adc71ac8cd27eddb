"""The records of an export, whatever kind of file it is: JSON, JSON lines, CSV, Parquet or Arrow, perhaps gzipped."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import BinaryIO, cast

from attribeam.logs.jsonl_log import BLOCK_BYTES
from attribeam.logs.traces.csv_rows import csv_rows
from attribeam.logs.traces.json_values import Found, json_values
from attribeam.logs.traces.table_rows import arrow_rows, parquet_rows
from attribeam.schemas.errors import DataError, LogFormatError

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BLANK = re.compile(rb"(?:\s++|\xef\xbb\xbf)*+")
_PARTS_OF_MARK = (b"", codecs.BOM_UTF8[:1], codecs.BOM_UTF8[:2])
_MOST_RATIO = 300
_LEAST_UNPACKED = 1 << 26
"""What is unpacked without a question, 64 MiB; beyond it, at most ``_MOST_RATIO`` times the packed bytes."""
_ARROW_STREAM = b"\xff\xff\xff\xff"


def records(
    file: BinaryIO, *, wrappers: Sequence[str] = (), takes_csv: bool = True, notes: Counter[str] | None = None
) -> Iterator[Found]:
    """The records in order; a ``RowFault`` stands in the place of one that cannot be read. An empty file has none.

    The content decides what kind of file it is, never a name. Of two members of the same name the last one counts.
    Columns of embeddings are not read; ``notes`` counts their rows.

    Raises:
        LogFormatError: if the file is none of these kinds.
        DataError: if it is damaged.
        OSError: if it cannot be read.
    """
    head = file.read(len(b"ARROW1"))
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        yield from _unzipped(file, wrappers, takes_csv)
    elif head.startswith(b"PAR1"):
        yield from parquet_rows(file, Counter() if notes is None else notes)
    elif head.startswith((b"ARROW1", _ARROW_STREAM)):
        yield from arrow_rows(file, Counter() if notes is None else notes, is_stream=head.startswith(_ARROW_STREAM))
    else:
        yield from _text_records(file, wrappers, takes_csv)


def _unzipped(file: BinaryIO, wrappers: Sequence[str], takes_csv: bool) -> Iterator[Found]:
    with _Unzipped(file) as unzipped:
        try:
            yield from _text_records(cast(BinaryIO, unzipped), wrappers, takes_csv)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"should be whole gzip, is damaged: {error}; fetch it again") from error


class _Unzipped(gzip.GzipFile):
    """A zipped file that is read, unless it unpacks to far more than logs do."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__(fileobj=packed)
        self._packed = packed

    def read(self, size: int | None = -1) -> bytes:
        """See ``_checked``."""
        return self._checked(super().read(size))

    def read1(self, size: int = -1) -> bytes:
        """See ``_checked``."""
        return self._checked(super().read1(size))

    def _checked(self, content: bytes) -> bytes:
        """``content``, which was read.

        Raises:
            DataError: if it is too much for what it was packed in.
        """
        if self.tell() > max(_LEAST_UNPACKED, _MOST_RATIO * self._packed.tell()):
            raise DataError(
                f"should unpack to at most {_MOST_RATIO} times its size, its first {self._packed.tell()} bytes give "
                f"{self.tell()}; if that is right, unpack it and name the unpacked file"
            )
        return content


def _text_records(file: BinaryIO, wrappers: Sequence[str], takes_csv: bool) -> Iterator[Found]:
    begin = _beginning(file)
    file.seek(0)
    if begin.startswith(_UTF16):
        raise LogFormatError("should be UTF-8, begins like UTF-16; save it as UTF-8")
    if begin.startswith((b"{", b"[")):
        yield from json_values(file, wrappers, may_be_lines=begin.startswith(b"{"))
    elif begin and takes_csv and b"\x00" not in begin:
        yield from csv_rows(file)
    elif begin:
        kinds = "JSON, JSON lines, CSV, Parquet or Arrow" if takes_csv else "JSON, JSON lines, Parquet or Arrow"
        raise LogFormatError(f"should be {kinds}, begins like none of these")


def _beginning(file: BinaryIO) -> bytes:
    """Some bytes from the first one on that is not blank; none of a blank file. Byte order marks are blank, too."""
    begin = b""
    while begin in _PARTS_OF_MARK and (block := file.read(BLOCK_BYTES)):
        begin = _BLANK.sub(b"", begin + block, count=1)
    return begin

"""Records of an export, and the spans that every format is mapped to.

What every format is mapped to: a span of a trace, a retrieved document, and the row that a trace comes to.

The records of an export, whatever kind of file it is: JSON, JSON lines, CSV, Parquet or Arrow, perhaps gzipped.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, NamedTuple, cast

from attribeam.logs.jsonl_log import BLOCK_BYTES
from attribeam.logs.traces.csv_rows import csv_rows
from attribeam.logs.traces.json_values import Found, json_values
from attribeam.logs.traces.table_rows import arrow_rows, parquet_rows
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import DataError, LogFormatError

Record = Mapping[str, object]
"""One record of an export as it was parsed: a row, a span, a run, or a whole trace."""


class Role(StrEnum):
    """What a span means to us. ``OTHER`` spans, such as embeddings and guardrails, only hold the tree together."""

    CHAIN = "chain"
    MODEL = "model"
    RETRIEVER = "retriever"
    RERANKER = "reranker"
    TOOL = "tool"
    OTHER = "other"


class Document(NamedTuple):
    """A retrieved passage as a trace has it; ``text`` is None where only its id was logged."""

    text: str | None
    title: str | None = None
    passage_id: str | None = None
    score: float | None = None


class Span(NamedTuple):
    """One step of a trace.

    ``input`` and ``output`` are texts or parsed JSON, ``documents`` what a retriever or reranker returned (None: look
    for them in ``output``), ``inputs_reranked`` what a reranker was given. Times are microseconds since 1970 in UTC.
    ``is_trace`` marks a record of the trace itself, which is the root whatever its parent; ``is_root`` a span that the
    store calls a root although it has a parent.
    """

    trace_id: str
    span_id: str | None
    parent_id: str | None
    role: Role
    name: str = ""
    kind: str = ""
    started_at: int | None = None
    ended_at: int | None = None
    input: object = None
    output: object = None
    documents: tuple[Document, ...] | None = None
    inputs_reranked: tuple[Document, ...] = ()
    metadata: object = None
    model: str | None = None
    session_id: str | None = None
    failed: bool = False
    is_trace: bool = False
    is_root: bool = False


class TraceRow(NamedTuple):
    """One question with its passages and answer. ``fault`` says why there is no row; what is known stands beside it.

    ``notes`` say what was chosen, and what could not be read, in words that are the same for all such rows.
    """

    record_id: str | None
    question: str | None = None
    passages: tuple[Document, ...] | None = None
    answer: str | None = None
    answered_at: int | None = None
    generator: str | None = None
    session_id: str | None = None
    fault: RowFault | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How a trace becomes a row; picklable.

    Attributes:
        question_path: JMESPath to the question, see ``attribeam.logs.traces.field_choice``; so for the other two.
        history: how many earlier messages of a conversation stand in front of the question.
        retrievals: which retrievals of a trace count: "all", "first" or "last".
        tool_outputs: take what tools returned as passages, too.
        passages_table: table with the texts of passages of which a trace has only the ids.
        preset: whose responses a log holds, see ``attribeam.logs.traces.providers``; None asks each record.
    """

    question_path: str | None = None
    passages_path: str | None = None
    answer_path: str | None = None
    history: int = 0
    retrievals: str = "all"
    tool_outputs: bool = False
    passages_table: str | None = None
    preset: str | None = None


def fault(reason: Reason, column: str | None, message: str) -> RowFault:
    """The fault of a trace or a record."""
    return RowFault(reason, message, column=column)


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

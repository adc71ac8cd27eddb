"""One row of a QA log: the record as the rest of the system sees it, the dead letter in its place, and their schemas.

Ranges are half-open and count Unicode code points.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial

import pyarrow as pa

from attribeam.schemas.errors import SCHEMA_VERSION


@dataclass(frozen=True, slots=True, order=True)
class CharRange:
    """Half-open range of code points, ``text[char_start:char_end]``; never empty, never negative.

    Raises:
        ValueError: if not 0 <= char_start < char_end.
    """

    char_start: int
    char_end: int

    def __post_init__(self) -> None:
        if not 0 <= self.char_start < self.char_end:
            raise ValueError(
                f"a range should satisfy 0 <= char_start < char_end, was: [{self.char_start}, {self.char_end})"
            )

    def overlaps(self, other: CharRange) -> bool:
        """True where at least one code point is in both."""
        return self.char_start < other.char_end and other.char_start < self.char_end

    def covers(self, other: CharRange) -> bool:
        """True where all code points of the other are in this one."""
        return self.char_start <= other.char_start and other.char_end <= self.char_end

    def of(self, text: str) -> str:
        """The characters of ``text`` in this range."""
        return text[self.char_start : self.char_end]


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrieved passage. ``title`` and ``passage_id`` are None where the log has none."""

    text: str
    title: str | None = None
    passage_id: str | None = None


@dataclass(frozen=True, slots=True)
class RowSource:
    """Where a row was read from: the input file and the 0-based row within that file."""

    source_file: str
    source_row: int


@dataclass(frozen=True, slots=True)
class QARecord:
    """One valid row of the input.

    ``target_spans`` is None where the row has none; ``answered_at``, in UTC, and ``generator``, what gave the answer,
    are None where the log does not say. ``extra_columns`` holds (column, value) pairs in the order
    of ``--extra-columns``; the values are plain Python values of that column's Arrow type. ``notes`` say what of the
    row could not be read, in words that are the same for all such rows.
    """

    record_id: str
    question: str
    passages: tuple[Passage, ...]
    answer: str
    source: RowSource
    target_spans: tuple[CharRange, ...] | None = None
    answered_at: datetime | None = None
    generator: str | None = None
    extra_columns: tuple[tuple[str, object], ...] = ()
    notes: tuple[str, ...] = ()


class Stage(StrEnum):
    """The stage that refused the row."""

    READ = "read"
    VALIDATE = "validate"
    PARSE = "parse"
    ATTRIBUTE = "attribute"
    EVIDENCE = "evidence"


class Reason(StrEnum):
    """Why a row was refused. The values are stable: scripts may rely on them."""

    INVALID_UTF8 = "invalid_utf8"
    MISSING_VALUE = "missing_value"
    EMPTY_ANSWER = "empty_answer"
    NO_PASSAGES = "no_passages"
    DUPLICATE_RECORD_ID = "duplicate_record_id"
    TEXT_TOO_LONG = "text_too_long"
    SPAN_OUT_OF_RANGE = "span_out_of_range"
    INVALID_VALUE = "invalid_value"
    INVALID_JSON = "invalid_json"
    INCOMPLETE_TRACE = "incomplete_trace"
    TRACE_FAILED = "trace_failed"
    TRACE_TOO_LARGE = "trace_too_large"
    PASSAGE_TEXT_MISSING = "passage_text_missing"
    PARSE_FAILED = "parse_failed"
    TEMPLATE_FAILED = "template_failed"
    TOO_MANY_TOKENS = "too_many_tokens"
    OUT_OF_MEMORY = "out_of_memory"
    NON_FINITE_ATTENTION = "non_finite_attention"
    REDACTION_FAILED = "redaction_failed"
    WORKER_DIED = "worker_died"


def reading_stage(reason: Reason) -> Stage:
    """The stage of a fault that is found while a log is read and checked."""
    is_unreadable = reason in (Reason.INVALID_UTF8, Reason.INVALID_JSON, Reason.OUT_OF_MEMORY)
    return Stage.READ if is_unreadable else Stage.VALIDATE


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row that was not audited, why, and the way out.

    ``record_id`` is None if the row has no readable one. ``column`` names the faulty input column, if one is to blame.
    ``message`` says what was expected and found, and never holds answer text; ``answer`` holds it if
    ``dead_letter_text`` of ``AuditAnswers`` asked for it.
    """

    record_id: str | None
    source: RowSource
    stage: Stage
    reason: Reason
    message: str
    column: str | None = None
    answer: str | None = None


class RowFault(Exception):  # noqa: N818 - a fault of the data, not of the program
    """A permanent fault of one row, raised by pure code; the Beam stages turn it into a dead letter.

    ``reason`` is stable, ``column`` names the field to blame or is None, and ``str`` gives the message, which says what
    was expected, what was found and the way out, and quotes no answer.
    """

    def __init__(self, reason: Reason, message: str, *, column: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.column = column

    def __reduce__(self) -> tuple[object, ...]:
        return (partial(RowFault, column=self.column), (self.reason, str(self)))


def dead_letter_row(letter: DeadLetter) -> dict[str, object]:
    """The Parquet row of a dead letter, in the order of ``dead_letter_schema``."""
    return {
        "record_id": letter.record_id,
        "source_file": letter.source.source_file,
        "source_row": letter.source.source_row,
        "stage": str(letter.stage),
        "reason": str(letter.reason),
        "column": letter.column,
        "message": letter.message,
        "answer": letter.answer,
    }


def dead_letter_schema(metadata: dict[str, str] | None = None) -> pa.Schema:
    """The Arrow schema of ``dead_letters/``; every field carries its description in its metadata."""
    own = {"attribeam.schema_version": SCHEMA_VERSION}
    return pa.schema(described_fields(_DEAD_LETTER_FIELDS), metadata={**own, **(metadata or {})})


def described_fields(
    declared: Iterable[tuple[str, pa.DataType, bool, str]], nullable: Collection[str] = ()
) -> list[pa.Field]:
    """Fields of (name, type, whether it may be null, description); those that are named ``nullable`` may be null."""
    return [
        pa.field(name, kind, nullable=may_be_null or name in nullable, metadata={"description": text})
        for name, kind, may_be_null, text in declared
    ]


_DEAD_LETTER_FIELDS: tuple[tuple[str, pa.DataType, bool, str], ...] = (
    ("record_id", pa.string(), True, "id of the row, where it has a readable one"),
    ("source_file", pa.string(), False, "input file of the row"),
    ("source_row", pa.int64(), False, "0-based row within source_file"),
    ("stage", pa.string(), False, "stage that refused the row: read, validate, parse, attribute, evidence"),
    ("reason", pa.string(), False, "stable reason, see docs/schema.md"),
    ("column", pa.string(), True, "input column to blame, where one is"),
    ("message", pa.string(), False, "what was expected, what was found, and the way out"),
    ("answer", pa.string(), True, "the answer's text, only with dead_letter_text of AuditAnswers"),
)


RETRIEVALS = "retrievals"
"""Column with one struct per passage that a span of the trace retrieved: ``span_id``, ``position``, ``passage_index``.

``position`` is that among the documents of the span, and ``passage_index`` that among the passages, both from 0.
"""

SPAN_LABELS, LABEL_GROUP = "span_labels", "label_group"
UNSUPPORTED_SPANS, ANSWER_SUPPORTED = "unsupported_spans", "answer_supported"
FAITHFULNESS, ERROR_KINDS = "faithfulness", "error_kinds"
"""Columns with labels, which ``_LABELLED_FIELDS`` describes: of spans, unsupported ranges, and whole answers.

``SPAN_LABELS`` has one struct per target span. Null is what nobody looked at, judged or graded.
"""

RANGE = [pa.field("char_start", pa.int32(), nullable=False), pa.field("char_end", pa.int32(), nullable=False)]
_INDICES = pa.list_(pa.int32())
_PASSAGE = pa.struct([("passage_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_GOLD_EVIDENCE = pa.list_(pa.struct([pa.field("passage_index", pa.int32(), nullable=False), *RANGE]))
_SPAN_LABEL = pa.struct(
    [
        ("gold_passages", _INDICES),
        ("gold_evidence", _GOLD_EVIDENCE),
        ("cited_passages", _INDICES),
        ("supported", pa.bool_()),
    ]
)
_UNSUPPORTED_RANGE = pa.struct([*RANGE, pa.field("kind", pa.string())])
_LABELLED_FIELDS: tuple[tuple[str, pa.DataType, bool, str], ...] = (
    ("record_id", pa.string(), True, "id of the row"),
    ("question", pa.string(), True, "what was asked"),
    ("passages", pa.list_(_PASSAGE), True, "what was retrieved, in the order of the prompt"),
    ("answer", pa.string(), True, "what was answered"),
    ("target_spans", pa.list_(pa.struct(RANGE)), True, "ranges of the answer to attribute"),
    ("generator", pa.string(), True, "what gave the answer"),
    (SPAN_LABELS, pa.list_(_SPAN_LABEL), True, "labels of the target spans, in their order"),
    (UNSUPPORTED_SPANS, pa.list_(_UNSUPPORTED_RANGE), True, "ranges of the answer that a person found unsupported"),
    (LABEL_GROUP, pa.string(), True, "part of the data set that the row is of"),
    (ANSWER_SUPPORTED, pa.bool_(), True, "whether people found that the passages support all of the answer"),
    (FAITHFULNESS, pa.float64(), True, "mean grade that people gave the answer, larger for better"),
    (ERROR_KINDS, pa.list_(pa.string()), True, "ways in which the answer as a whole is unsupported"),
    ("split", pa.string(), True, "training, development or test part of the data set"),
)


def labelled_log_schema() -> pa.Schema:
    """The Arrow schema of a QA log with labels, as ``attribeam import`` writes it; see docs/schema.md."""
    return pa.schema(described_fields(_LABELLED_FIELDS))

"""One row of a QA log: the record as the rest of the system sees it, and the Arrow schema of a log with labels.

Ranges are half-open and count Unicode code points.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

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


RETRIEVALS = "retrievals"
"""Column with one struct per passage that a span of the trace retrieved: ``span_id``, ``position``, ``passage_index``.

``position`` is that among the documents of the span, and ``passage_index`` that among the passages, both from 0.
"""

SPAN_LABELS = "span_labels"
"""Column with one struct per target span, in the order of ``target_spans``."""

UNSUPPORTED_SPANS = "unsupported_spans"
"""Column with the ranges of the answer that a person found unsupported; null where nobody looked."""

LABEL_GROUP = "label_group"
"""Column with the part of the data set that a row belongs to, such as its task."""

ANSWER_SUPPORTED = "answer_supported"
"""Column that says whether the passages support all of the answer; null where nobody judged the whole answer."""

FAITHFULNESS = "faithfulness"
"""Column with the mean grade that people gave the answer; null where they gave none."""

ERROR_KINDS = "error_kinds"
"""Column with the ways in which an answer that was judged as a whole is unsupported."""

_RANGE = [pa.field("char_start", pa.int32(), nullable=False), pa.field("char_end", pa.int32(), nullable=False)]
_PASSAGE = pa.struct([("passage_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_GOLD_EVIDENCE = pa.struct([pa.field("passage_index", pa.int32(), nullable=False), *_RANGE])
_SPAN_LABEL = pa.struct(
    [
        ("gold_passages", pa.list_(pa.int32())),
        ("gold_evidence", pa.list_(_GOLD_EVIDENCE)),
        ("cited_passages", pa.list_(pa.int32())),
        ("supported", pa.bool_()),
    ]
)
_UNSUPPORTED_RANGE = pa.struct([*_RANGE, pa.field("kind", pa.string())])


def labelled_log_schema() -> pa.Schema:
    """The Arrow schema of a QA log with labels, as ``attribeam import`` writes it; see docs/schema.md."""
    return pa.schema(
        [
            _field("record_id", pa.string(), "id of the row"),
            _field("question", pa.string(), "what was asked"),
            _field("passages", pa.list_(_PASSAGE), "what was retrieved, in the order of the prompt"),
            _field("answer", pa.string(), "what was answered"),
            _field("target_spans", pa.list_(pa.struct(_RANGE)), "ranges of the answer to attribute"),
            _field("generator", pa.string(), "what gave the answer"),
            _field(SPAN_LABELS, pa.list_(_SPAN_LABEL), "labels of the target spans, in their order"),
            _field(
                UNSUPPORTED_SPANS, pa.list_(_UNSUPPORTED_RANGE), "ranges of the answer that a person found unsupported"
            ),
            _field(LABEL_GROUP, pa.string(), "part of the data set that the row is of"),
            _field(ANSWER_SUPPORTED, pa.bool_(), "whether people found that the passages support all of the answer"),
            _field(FAITHFULNESS, pa.float64(), "mean grade that people gave the answer, larger for better"),
            _field(ERROR_KINDS, pa.list_(pa.string()), "ways in which the answer as a whole is unsupported"),
            _field("split", pa.string(), "training, development or test part of the data set"),
        ]
    )


def _field(name: str, kind: pa.DataType, description: str) -> pa.Field:
    return pa.field(name, kind, metadata={"description": description})


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


_FOUND_WHILE_READING = (Reason.INVALID_UTF8, Reason.INVALID_JSON, Reason.OUT_OF_MEMORY)


def reading_stage(reason: Reason) -> Stage:
    """The stage of a fault that is found while a log is read and checked."""
    return Stage.READ if reason in _FOUND_WHILE_READING else Stage.VALIDATE


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
        return (_rebuild_row_fault, (self.reason, str(self), self.column))


def _rebuild_row_fault(reason: Reason, message: str, column: str | None) -> RowFault:
    return RowFault(reason, message, column=column)


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
    fields = [
        pa.field(name, kind, nullable=nullable, metadata={"description": text})
        for name, kind, nullable, text in _DEAD_LETTER_FIELDS
    ]
    return pa.schema(fields, metadata={"attribeam.schema_version": SCHEMA_VERSION, **(metadata or {})})


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

"""The dead letter, one per row that could not be audited, and its Arrow schema."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from attribeam.schemas.errors import SCHEMA_VERSION
from attribeam.schemas.qa_record import RowSource


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

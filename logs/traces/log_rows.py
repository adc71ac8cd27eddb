"""Rows of traces as rows of a QA log: the Arrow schema, bytes of texts, and faults that are kept beside them."""

from __future__ import annotations

import pyarrow as pa

from attribeam.logs.columns import INPUT_FIELDS, ColumnMap
from attribeam.logs.rows import FaultyRow, RawPassage, RawRow, RowValidator
from attribeam.logs.traces.span import Document, TraceRow
from attribeam.schemas import QARecord, Reason, RowFault, RowSource

FAULT_COLUMNS = ("fault_reason", "fault_message", "fault_column")

_MADE = ("record_id", "question", "passages", "answer", "answered_at", "generator")
_MAP = ColumnMap(tuple((one.name, one.name) for one in INPUT_FIELDS if one.name in _MADE), ())
_NO_LIMIT = 2**62
_DESCRIPTIONS = {
    "record_id": "id of the trace or the row",
    "question": "what was asked",
    "passages": "what was retrieved, in the order of the prompt",
    "answer": "what was answered",
    "answered_at": "when the trace ended",
    "generator": "model that gave the answer",
    "session_id": "conversation that the trace belongs to",
}


def log_schema(*, stored: bool = False) -> pa.Schema:
    """The schema of the QA log; ``stored`` adds the columns of faults.

    Texts of a stored log are bytes, because they may be no valid Unicode, which is found when its rows are checked.
    """
    text = pa.binary() if stored else pa.string()
    passage = pa.struct([("passage_id", text), ("title", text), ("text", text)])
    kinds = {
        "passages": pa.list_(passage),
        "answered_at": pa.timestamp("us", tz="UTC"),
        "session_id": pa.string(),
    }
    fields = [
        pa.field(name, kinds.get(name, text), metadata={"description": words}) for name, words in _DESCRIPTIONS.items()
    ]
    return pa.schema([*fields, *(pa.field(name, pa.string()) for name in FAULT_COLUMNS)] if stored else fields)


def stored_row(row: TraceRow) -> dict[str, object]:
    """The values of a row in the stored schema."""
    fault = row.fault
    return {
        "record_id": text_bytes(row.record_id),
        "question": text_bytes(row.question),
        "passages": None if row.passages is None else [_stored_passage(one) for one in row.passages],
        "answer": text_bytes(row.answer),
        "answered_at": row.answered_at,
        "generator": text_bytes(row.generator),
        "session_id": _valid(row.session_id),
        FAULT_COLUMNS[0]: None if fault is None else str(fault.reason),
        FAULT_COLUMNS[1]: None if fault is None else _valid(str(fault)),
        FAULT_COLUMNS[2]: None if fault is None else fault.column,
    }


def stored_fault(reason: str, message: str, column: str | None) -> RowFault:
    """The fault that ``stored_row`` kept."""
    return RowFault(Reason(reason), message, column=column)


def checked(row: TraceRow, source: RowSource) -> QARecord | FaultyRow:
    """The record that an audit would read, or why it would refuse the row; ``session_id`` is an extra column."""
    raw = RawRow(
        record_id=text_bytes(row.record_id),
        question=text_bytes(row.question),
        passages=None if row.passages is None else [_raw_passage(one) for one in row.passages],
        answer=text_bytes(row.answer),
        target_spans=None,
        answered_at=row.answered_at,
        generator=text_bytes(row.generator),
        extra_columns=(("session_id", _valid(row.session_id)),),
    )
    validator = RowValidator(_MAP, _NO_LIMIT)
    if row.fault is not None:
        return validator.refusal(raw, source, row.fault)
    return validator.outcome(raw, source, duplicate=False)


def text_bytes(text: str | None) -> bytes | None:
    """The bytes of a text as they stood in the file, valid Unicode or not."""
    if text is None:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _valid(text: str | None) -> str | None:
    """The text with a question mark for what is no valid Unicode."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _raw_passage(one: Document) -> RawPassage:
    return RawPassage(text_bytes(one.text), text_bytes(one.title), text_bytes(one.passage_id))


def _stored_passage(one: Document) -> dict[str, object]:
    return {
        "passage_id": text_bytes(one.passage_id),
        "title": text_bytes(one.title),
        "text": text_bytes(one.text),
    }

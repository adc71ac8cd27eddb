"""Stage 1: ranges of a log's rows, or elements of a pipeline of one's own, as QA records or dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attribeam.attribution.record_input import check_record, outcome_of
from attribeam.logs.arrow_logs import in_python
from attribeam.logs.files import LogStorage
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import FaultyRow, RowRange, check_size
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, RowSource, Stage
from attribeam.schemas.dead_letter import reading_stage
from attribeam.schemas.errors import DataError
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import RowGroup, dead_letter
from attribeam.transforms.stage_metrics import stage

_NO_SOURCE = RowSource("", 0)
_FIELDS = ("record_id", "question", "passages", "answer", "target_spans")


def read_rows(
    group: RowGroup, settings: AuditSettings, storage: LogStorage, fatal_rows: Mapping[int, str] | None = None
) -> RowGroup:
    """Ranges in, the records of their rows out, in order.

    ``fatal_rows`` are not audited, because each has ended a worker process; the value says how it ended. They are None
    before the last try, in which rows that memory does not suffice to read become dead letters, too.
    """
    fatal = fatal_rows or {}

    def records() -> Iterator[QARecord]:
        for rows in group.rows:
            for outcome in _outcomes(rows, settings, storage, last_try=fatal_rows is not None):
                if isinstance(outcome, FaultyRow):
                    group.refuse(_letter_of(outcome, settings))
                elif (how := fatal.get(outcome.source.source_row)) is not None:
                    group.refuse(dead_letter(outcome, worker_died(how), Stage.READ, settings))
                else:
                    yield outcome

    return group.of(records())


def _outcomes(
    rows: RowRange, settings: AuditSettings, storage: LogStorage, *, last_try: bool
) -> Iterator[QARecord | FaultyRow]:
    outcomes = QALog(rows.file, settings.log_options, storage, rows.stamp).outcomes(
        range(rows.row_start, rows.row_end), duplicate_rows=rows.duplicate_rows, last_try=last_try
    )
    while True:
        with stage("read"):
            outcome = next(outcomes, None)
        if outcome is None:
            return
        yield outcome


def _letter_of(row: FaultyRow, settings: AuditSettings) -> DeadLetter:
    return DeadLetter(
        record_id=row.record_id,
        source=row.source,
        stage=reading_stage(row.fault.reason),
        reason=row.fault.reason,
        message=str(row.fault),
        column=row.fault.column,
        answer=row.answer if settings.dead_letter_text else None,
    )


def worker_died(how: str) -> RowFault:
    """The fault of a row whose worker process ended by, say, "signal SIGKILL"."""
    return RowFault(
        Reason.WORKER_DIED,
        f"the worker process should survive any row, but ended by {how} on this row alone; give it more memory, or "
        "leave the row out of the log",
    )


def read_answers(group: RowGroup, settings: AuditSettings) -> RowGroup:
    """``QARecord``s, dicts, ``beam.Row``s or named tuples in, valid records out.

    What is wrong with an element harms no other. A dead letter has the element's id, if there is one, and names
    the field.
    """

    def records() -> Iterator[QARecord]:
        for element in group.rows:
            given: Mapping[str, object] | QARecord | None = None
            try:
                given = element if isinstance(element, QARecord) else _fields(element, settings)
                record = _record(given, settings)
            except RowFault as fault:
                group.refuse(_letter_of_element(given, fault, settings))
            except DataError as error:
                invalid = RowFault(Reason.INVALID_VALUE, str(error), column=_field_named(str(error)))
                group.refuse(_letter_of_element(given, invalid, settings))
            else:
                yield record

    return group.of(records())


def _fields(element: object, settings: AuditSettings) -> dict[str, object]:
    """The element's values by the names of a record's fields; those that it lacks are left out."""
    plain = _plain(element)
    if not isinstance(plain, dict):
        kind = type(element).__name__
        raise RowFault(Reason.INVALID_VALUE, f"an element should be a QARecord, a dict or a row, was a {kind}")
    names = {field: field for field in _FIELDS} | dict(settings.columns)
    return {field: plain[names[field]] for field in _FIELDS if names[field] in plain}


def _record(given: Mapping[str, object] | QARecord, settings: AuditSettings) -> QARecord:
    names = dict(settings.columns)
    if not isinstance(given, QARecord):
        missing = next((field for field in _FIELDS[:-1] if given.get(field) is None), None)
        if missing is not None:
            name = names.get(missing, missing)
            found = "was None" if missing in given else "is not there; rename it, or map it with columns={...}"
            message = f"the field {name!r} should have a value, {found}"
            raise RowFault(Reason.MISSING_VALUE, message, column=name)
    record = outcome_of(given, _NO_SOURCE)
    if isinstance(record, RowFault):
        raise record
    check_record(record)
    try:
        check_size(record, settings.max_text_chars, column=names.get("passages", "passages"))
    except RowFault as fault:
        raise RowFault(fault.reason, in_python(str(fault)), column=fault.column) from fault
    return record


def _letter_of_element(
    given: Mapping[str, object] | QARecord | None, fault: RowFault, settings: AuditSettings
) -> DeadLetter:
    fields = {"record_id": given.record_id, "answer": given.answer} if isinstance(given, QARecord) else given or {}
    record_id, answer = fields.get("record_id"), fields.get("answer")
    return DeadLetter(
        record_id=str(record_id) if isinstance(record_id, str | int) else None,
        source=given.source if isinstance(given, QARecord) else _NO_SOURCE,
        stage=Stage.VALIDATE,
        reason=fault.reason,
        message=str(fault),
        column=fault.column,
        answer=answer if settings.dead_letter_text and isinstance(answer, str) else None,
    )


def _field_named(message: str) -> str | None:
    """The field that an error of ``record_input`` begins with."""
    return next((field for field in _FIELDS if message.startswith(field)), None)


def _plain(value: Any) -> Any:
    """Rows and named tuples as dicts, at any depth."""
    if hasattr(value, "as_dict"):  # a beam.Row
        return {name: _plain(item) for name, item in value.as_dict().items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _plain(item) for name, item in zip(value._fields, value, strict=True)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value

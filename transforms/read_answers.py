"""Stage 1 of a pipeline of one's own: elements of a PCollection as QA records, or as dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam

from attribeam.attribution.record_input import check_record, outcome_of
from attribeam.logs.arrow_logs import in_python
from attribeam.logs.rows import check_size
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, RowSource, Stage
from attribeam.schemas.errors import DataError
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.dead_letters import tag_dead_letter
from attribeam.transforms.stage_metrics import count_row_read

_NO_SOURCE = RowSource("", 0)
_FIELDS = ("record_id", "question", "passages", "answer", "target_spans")


class ReadAnswers(beam.DoFn):
    """A ``QARecord``, dict, ``beam.Row`` or named tuple in; a valid record or a dead letter out.

    What is wrong with an element harms no other. A dead letter has the element's id, if there is one, and names
    the field.
    """

    def __init__(self, settings: AuditSettings) -> None:
        self._names = dict(settings.columns)
        self._max_text_chars = settings.max_text_chars
        self._with_text = settings.dead_letter_text

    def process(self, element: object) -> Iterator[QARecord | beam.pvalue.TaggedOutput]:
        count_row_read()
        given: Mapping[str, object] | QARecord | None = None
        try:
            given = element if isinstance(element, QARecord) else self._fields(element)
            yield self._record(given)
        except RowFault as fault:
            yield self._refuse(given, fault)
        except DataError as error:
            yield self._refuse(given, RowFault(Reason.INVALID_VALUE, str(error), column=_field_named(str(error))))

    def _fields(self, element: object) -> dict[str, object]:
        """The element's values by the names of a record's fields; those that it lacks are left out."""
        plain = _plain(element)
        if not isinstance(plain, dict):
            kind = type(element).__name__
            raise RowFault(Reason.INVALID_VALUE, f"an element should be a QARecord, a dict or a row, was a {kind}")
        names = {field: self._names.get(field, field) for field in _FIELDS}
        return {field: plain[name] for field, name in names.items() if name in plain}

    def _record(self, given: Mapping[str, object] | QARecord) -> QARecord:
        if not isinstance(given, QARecord):
            for field in _FIELDS[:-1]:
                if given.get(field) is None:
                    raise self._missing(field, there=field in given)
        record = outcome_of(given, _NO_SOURCE)
        if isinstance(record, RowFault):
            raise record
        check_record(record)
        try:
            check_size(record, self._max_text_chars, column=self._names.get("passages", "passages"))
        except RowFault as fault:
            raise RowFault(fault.reason, in_python(str(fault)), column=fault.column) from fault
        return record

    def _missing(self, field: str, *, there: bool) -> RowFault:
        name = self._names.get(field, field)
        found = "was None" if there else "is not there; rename it, or map it with columns={...}"
        return RowFault(Reason.MISSING_VALUE, f"the field {name!r} should have a value, {found}", column=name)

    def _refuse(self, given: Mapping[str, object] | QARecord | None, fault: RowFault) -> beam.pvalue.TaggedOutput:
        fields = {"record_id": given.record_id, "answer": given.answer} if isinstance(given, QARecord) else given or {}
        record_id, answer = fields.get("record_id"), fields.get("answer")
        return tag_dead_letter(
            DeadLetter(
                record_id=str(record_id) if isinstance(record_id, str | int) else None,
                source=given.source if isinstance(given, QARecord) else _NO_SOURCE,
                stage=Stage.VALIDATE,
                reason=fault.reason,
                message=str(fault),
                column=fault.column,
                answer=answer if self._with_text and isinstance(answer, str) else None,
            )
        )


def _field_named(message: str) -> str | None:
    """The field that an error of ``record_input`` begins with."""
    return next((field for field in _FIELDS if message.startswith(field)), None)


def _plain(value: Any) -> Any:
    """Rows and named tuples as dicts, at any depth."""
    if isinstance(value, beam.Row):
        return {name: _plain(item) for name, item in value.as_dict().items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _plain(item) for name, item in zip(value._fields, value, strict=True)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value

"""``AuditAnswers``: the audit as one transform of a Beam pipeline of one's own, in Python or in YAML."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional, cast

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.coders import Coder, registry
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.typehints import Sequence
from apache_beam.utils.timestamp import Timestamp

from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.options import AttributorOptions, MethodOptions, ModelOptions
from attribeam.attribution.rows import check_record, outcome_of
from attribeam.attribution.verdict.verified import with_calibrated_mass
from attribeam.logs.privacy import PatternsFile, PrivacySettings
from attribeam.logs.qa_log import in_python
from attribeam.logs.rows import FaultyRow, check_size
from attribeam.schemas import QARecord, Reason, RowFault, RowSource, Stage, dead_letter_schema, evidence_schema
from attribeam.schemas.errors import DataError, UsageError
from attribeam.transforms.audit_settings import AuditSettings, with_template_text
from attribeam.transforms.row_groups import RowGroup, dead_letter_of_faulty_row, dead_letter_table, hide_texts
from attribeam.transforms.stages import BLOCK_ROWS, audit_stages


class RowGroupCoder(Coder):
    """Pickles groups, and tells Beam a size without doing so, which would take longer than many a stage."""

    def encode(self, value: RowGroup) -> bytes:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def decode(self, encoded: bytes) -> RowGroup:
        group: RowGroup = pickle.loads(encoded)
        return group

    def estimate_size(self, value: RowGroup) -> int:  # noqa: ARG002 - the rows are not made yet
        return 1


registry.register_coder(RowGroup, RowGroupCoder)


_DEAD_LETTERS = "dead_letters"
_NO_SOURCE = RowSource("", 0)
_FIELDS = ("record_id", "question", "passages", "answer", "target_spans")
_PLAIN: dict[pa.DataType, type] = {
    pa.string(): str,
    pa.bool_(): bool,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
}


class AuditedAnswers(dict[str, beam.PCollection]):
    """Two PCollections of ``beam.Row`` with schemas: ``evidence`` and ``dead_letters``."""

    @property
    def evidence(self) -> beam.PCollection:
        """One row per target span, with the fields of the evidence record."""
        return self["evidence"]

    @property
    def dead_letters(self) -> beam.PCollection:
        """One row per answer that was not audited, with its id, the reason and the field to blame."""
        return self["dead_letters"]


@beam.typehints.with_input_types(Any)
class AuditAnswers(beam.PTransform):
    """Audits the answers of a bounded PCollection in the global window; see ``AuditedAnswers`` for what comes out.

    Elements are ``QARecord``s, or dicts, ``beam.Row``s or named tuples with the fields ``record_id``, ``question``,
    ``passages`` and ``answer``, perhaps ``target_spans``; other fields are not read. Every element becomes evidence or
    one dead letter. Ids should be unique; that is not checked, since no worker sees all of them.

    Nothing is shuffled: put ``beam.Reshuffle()`` before it where few elements come out of one. ``with_resource_hints``
    puts it on machines of their own.

    Args:
        settings: the settings of an audit; those that say how log files are read are not used.
        options: instead of ``settings``, options of ``Attributor.from_pretrained`` by name, and ``columns`` (a mapping
            from fields to other names), ``max_text_chars``, ``dead_letter_text``, ``redact``, ``redact_patterns`` (a
            file of them) and ``no_texts``.

    Raises:
        UsageError: if settings and options are both given, or contradict each other, or the method does not exist.
        ValueError: if an option is unknown or out of its range.
    """

    def __init__(self, settings: AuditSettings | None = None, **options: Any) -> None:
        super().__init__()
        if settings is not None and options:
            raise UsageError(f"settings should come alone, but there are options, too: {', '.join(sorted(options))}")
        self._settings = with_template_text(_settings_of(options) if settings is None else settings)
        if self._settings.extra_columns:
            raise UsageError("extra columns are those of log files; join the evidence with your elements by record_id")
        if self._settings.privacy.no_texts and self._settings.dead_letter_text:
            raise UsageError("dead_letter_text is for answers, and no_texts writes none; leave one out")
        self._schema = evidence_schema(has_mass=resolve_method(self._settings.method).gives_mass)

    def expand(self, answers: beam.PCollection) -> AuditedAnswers:
        if not isinstance(answers.windowing.windowfn, GlobalWindows):
            raise UsageError("AuditAnswers needs the global window; put beam.WindowInto(GlobalWindows()) before it")
        read = (
            answers
            | "GroupAnswers" >> beam.BatchElements(BLOCK_ROWS, BLOCK_ROWS)
            | "ReadAnswers" >> beam.Map(read_answers, self._settings).with_output_types(RowGroup)
        )
        made = through_stages(read, self._settings, self._schema) | (
            "Tables" >> beam.FlatMap(_tables).with_outputs(_DEAD_LETTERS, main="evidence")
        )
        return AuditedAnswers(
            evidence=made.evidence | "EvidenceRows" >> self._rows(self._schema),
            dead_letters=made[_DEAD_LETTERS] | "DeadLetterRows" >> self._rows(dead_letter_schema()),
        )

    def _rows(self, schema: pa.Schema) -> beam.PTransform:
        """Tables to rows that hold nothing of what the settings hide."""
        privacy = self._settings.privacy
        return beam.FlatMap(lambda table: rows_of(hide_texts(table, privacy))).with_output_types(row_type(schema))


def through_stages(groups: beam.PCollection, settings: AuditSettings, evidence: pa.Schema) -> beam.PCollection:
    """Groups of records through the stages of an audit: groups of evidence tables."""
    for name, run in audit_stages(settings, evidence).items():
        groups |= name >> beam.Map(run).with_output_types(RowGroup)
    return groups


def read_answers(answers: Iterable[object], settings: AuditSettings) -> RowGroup:
    """The valid records of ``QARecord``s, dicts, ``beam.Row``s or named tuples.

    What is wrong with an element harms no other. A dead letter has the element's id, if there is one, and names
    the field.
    """
    group = RowGroup(None, ())

    def records() -> Iterator[QARecord]:
        for element in answers:
            given: Mapping[str, object] | QARecord | None = None
            try:
                given = element if isinstance(element, QARecord) else _fields(element, settings)
                record = _record(given, settings)
            except RowFault as fault:
                group.refuse(dead_letter_of_faulty_row(_faulty(given, fault), Stage.VALIDATE, settings))
            else:
                yield record

    return group.with_rows(records())


def _fields(element: object, settings: AuditSettings) -> dict[str, object]:
    """The element's values by the names of a record's fields; those that it lacks are left out."""
    values = _named_values(element)
    if values is None:
        kind = type(element).__name__
        raise RowFault(Reason.INVALID_VALUE, f"an element should be a QARecord, a dict or a row, was a {kind}")
    names = {field: field for field in _FIELDS} | dict(settings.columns)
    return {field: _plain(values[names[field]]) for field in _FIELDS if names[field] in values}


def _record(given: Mapping[str, object] | QARecord, settings: AuditSettings) -> QARecord:
    names = dict(settings.columns)
    if not isinstance(given, QARecord):
        missing = next((field for field in _FIELDS[:-1] if given.get(field) is None), None)
        if missing is not None:
            name = names.get(missing, missing)
            was = "was None" if missing in given else "is not there; rename it, or map it with columns={...}"
            raise RowFault(Reason.MISSING_VALUE, f"the field {name!r} should have a value, {was}", column=name)
    try:
        record = outcome_of(given, _NO_SOURCE)
    except DataError as error:  # its message begins with the field
        named = next((field for field in _FIELDS if str(error).startswith(field)), None)
        raise RowFault(Reason.INVALID_VALUE, str(error), column=named) from error
    if isinstance(record, RowFault):
        raise record
    check_record(record)
    try:
        check_size(record, settings.max_text_chars, column=names.get("passages", "passages"))
    except RowFault as fault:
        raise RowFault(fault.reason, in_python(str(fault)), column=fault.column) from fault
    return record


def _faulty(given: Mapping[str, object] | QARecord | None, fault: RowFault) -> FaultyRow:
    fields = {"record_id": given.record_id, "answer": given.answer} if isinstance(given, QARecord) else given or {}
    record_id, answer = fields.get("record_id"), fields.get("answer")
    return FaultyRow(
        given.source if isinstance(given, QARecord) else _NO_SOURCE,
        str(record_id) if isinstance(record_id, str | int) else None,
        fault,
        answer if isinstance(answer, str) else None,
    )


def _named_values(value: Any) -> Mapping[str, Any] | None:
    """The values of a row, a named tuple or a mapping by their names; None of anything else."""
    if isinstance(value, beam.Row):
        return cast(dict[str, Any], value.as_dict())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    return value if isinstance(value, Mapping) else None


def _plain(value: Any, depth: int = 3) -> Any:
    """Rows and named tuples as dicts, as deep as a record's fields: a list of passages, one of them, and its text."""
    if depth == 0:
        return value
    if (named := _named_values(value)) is not None:
        return {name: _plain(item, depth - 1) for name, item in named.items()}
    if isinstance(value, list | tuple):
        return (tuple if isinstance(value, tuple) else list)(_plain(item, depth - 1) for item in value)
    return value


def _tables(group: RowGroup) -> Iterator[pa.Table | beam.pvalue.TaggedOutput]:
    yield from group.rows
    if group.dead_letters:
        yield beam.pvalue.TaggedOutput(_DEAD_LETTERS, dead_letter_table(group.dead_letters, dead_letter_schema()))


def _settings_of(options: Mapping[str, Any]) -> AuditSettings:
    rest = dict(options)
    own = {name: rest.pop(name) for name in ("max_text_chars", "dead_letter_text") if name in rest}
    columns, patterns = rest.pop("columns", {}), rest.pop("redact_patterns", None)
    redact, no_texts = (bool(rest.pop(name, None)) for name in ("redact", "no_texts"))
    given = AttributorOptions(**rest)
    return AuditSettings(
        columns=tuple(columns.items()),
        span_kinds=given.spans,
        parser=given.parser,
        model=given.only(ModelOptions),
        method=with_calibrated_mass(given.only(MethodOptions), model=given.model),
        privacy=PrivacySettings(
            redact=redact, patterns=None if patterns is None else PatternsFile.read(patterns), no_texts=no_texts
        ),
        threads=given.threads or AuditSettings().threads,
        **own,
    )


def row_type(schema: pa.Schema | pa.StructType) -> RowTypeConstraint:
    """The type of the rows of a table of this schema, or of the structs of a type.

    Raises:
        TypeError: if Beam has no such type.
    """
    return RowTypeConstraint.from_fields([(field.name, _field_type(field)) for field in schema])


def rows_of(table: pa.Table) -> Iterator[beam.Row]:
    """The rows of a table in its order; structs are rows, and times are ``Timestamp``s of Beam."""
    return (_value(row, pa.struct(table.schema)) for row in table.to_pylist())


def _field_type(field: pa.Field) -> Any:
    kind = _type(field.type)
    return Optional[kind] if field.nullable else kind  # noqa: UP045 - Beam's types know no "|"


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return Sequence[_type(kind.value_type)]
    if pa.types.is_struct(kind):
        return row_type(kind)
    if pa.types.is_timestamp(kind):
        return Timestamp
    if kind not in _PLAIN:
        raise TypeError(f"a Beam row should have no column of type {kind}")
    return _PLAIN[kind]


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_value(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return beam.Row(**{field.name: _value(value[field.name], field.type) for field in kind})
    if pa.types.is_timestamp(kind):
        return Timestamp.from_utc_datetime(value)
    return value

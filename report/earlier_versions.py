"""What the evidence files of earlier schema versions lack, and what it means where it is missing.

Before version 1.2 every span was a claim with a verdict of its own; version 1.0 had no ``sentence_cut``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from attribeam.schemas import AnswerKind, ClaimKind, evidence_schema

_CONSTANTS: dict[str, object] = {
    "sentence_cut": False,
    "claim_kind": ClaimKind.CLAIM.value,
    "answer_kind": AnswerKind.ANSWER.value,
    "unsupported_words": [],
    "cited_passages": [],
}
_SOURCES = {"claim_index": "span_index"}
_NULLS = (
    "support_score", "answer_risk", "reason", "expected", "how", "evidence_agrees", "citation_agrees",
    "token_evidence",
)  # fmt: skip
_MASS = "evidence_mass"
"""May be null if the method has none."""
_FIELDS = {field.name: field for field in evidence_schema() if field.name in {*_CONSTANTS, *_SOURCES, *_NULLS}}


def with_later_fields(schema: pa.Schema) -> pa.Schema:
    """The schema of a file of any version, with the fields that it lacks behind those of its record."""
    own = [field for field in schema if field.name in evidence_schema().names]
    extra = [field for field in schema if field not in own]
    return pa.schema([*own, *(_FIELDS[name] for name in lacking(_FIELDS, schema.names)), *extra], schema.metadata)


def check_fields(schema: pa.Schema, record: pa.Schema) -> pa.Schema:
    """``schema``, which is that of a file of records, of this version or an earlier one.

    Raises:
        OSError: if a field of ``record`` is missing, has another type, or may be null although it never is.
    """
    for field in record:
        found = schema.field(field.name) if schema.get_field_index(field.name) >= 0 else _FIELDS.get(field.name)
        may_be_null = field.nullable or field.name == _MASS
        if found is None or found.type != field.type or (found.nullable and not may_be_null):
            is_now = "missing" if found is None else f"{found.type}{', perhaps null' if found.nullable else ''}"
            raise OSError(f"its column {field.name!r} should be {field.type}, is {is_now}")
    return schema


def lacking(wanted: Collection[str], names: Collection[str]) -> list[str]:
    """The later fields among ``wanted`` that a file with the columns ``names`` lacks."""
    return [name for name in wanted if name in _FIELDS and name not in names]


def columns_to_read(wanted: Sequence[str], names: Collection[str]) -> list[str]:
    """The columns of a file with ``names`` from which ``completed`` makes those that are wanted."""
    sources = [_SOURCES[name] for name in lacking(wanted, names) if name in _SOURCES]
    present = [name for name in wanted if name not in lacking(wanted, names)]
    return list(dict.fromkeys([*present, *sources]))


def completed(batch: pa.RecordBatch, missing: Sequence[str]) -> pa.RecordBatch:
    """The batch with the missing fields behind its own, as files of this version would have them."""
    for name in missing:
        field = _FIELDS[name]
        if name in _SOURCES:
            values = batch.column(_SOURCES[name])
        else:
            values = pa.array([_CONSTANTS.get(name)] * batch.num_rows, type=field.type)
        batch = batch.append_column(field, values)
    return batch

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
_FIELDS = {field.name: field for field in evidence_schema() if field.name in {*_CONSTANTS, *_SOURCES, *_NULLS}}


def with_later_fields(schema: pa.Schema) -> pa.Schema:
    """The schema of a file of any version, with the fields that it lacks behind those of its record."""
    own = [field for field in schema if field.name in evidence_schema().names]
    extra = [field for field in schema if field not in own]
    return pa.schema([*own, *(_FIELDS[name] for name in lacking(_FIELDS, schema.names)), *extra], schema.metadata)


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

"""What crosses a boundary: QA record, evidence record, dead letter, manifests. Imports no other room."""

from schemas.char_range import CharRange
from schemas.dead_letter import DeadLetter, Reason, RowFault, Stage, dead_letter_row, dead_letter_schema
from schemas.evidence_record import (
    EvidencePiece,
    SpanEvidence,
    SpanKind,
    Support,
    TargetSpan,
    evidence_row,
    evidence_schema,
)
from schemas.qa_record import Passage, QARecord, RowSource
from schemas.version import SCHEMA_VERSION

__all__ = [
    "SCHEMA_VERSION",
    "CharRange",
    "DeadLetter",
    "EvidencePiece",
    "Passage",
    "QARecord",
    "Reason",
    "RowFault",
    "RowSource",
    "SpanEvidence",
    "SpanKind",
    "Stage",
    "Support",
    "TargetSpan",
    "dead_letter_row",
    "dead_letter_schema",
    "evidence_row",
    "evidence_schema",
]

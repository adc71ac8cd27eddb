"""What crosses a boundary: QA record, evidence record, dead letter, manifests. Imports no other room."""

from attribeam.schemas.errors import SCHEMA_VERSION
from attribeam.schemas.evidence_record import (
    VERDICTS,
    AnswerKind,
    ClaimKind,
    EvidencePiece,
    SpanEvidence,
    SpanKind,
    Support,
    SupportedHow,
    TargetSpan,
    TokenEvidence,
    UnsupportedReason,
    evidence_schema,
)
from attribeam.schemas.qa_record import (
    CharRange,
    DeadLetter,
    Passage,
    QARecord,
    Reason,
    RowFault,
    RowSource,
    Stage,
    dead_letter_row,
    dead_letter_schema,
)

__all__ = [
    "SCHEMA_VERSION", "VERDICTS", "AnswerKind", "CharRange", "ClaimKind", "DeadLetter", "EvidencePiece", "Passage",
    "QARecord", "Reason", "RowFault", "RowSource", "SpanEvidence", "SpanKind", "Stage", "Support", "SupportedHow",
    "TargetSpan", "TokenEvidence", "UnsupportedReason", "dead_letter_row", "dead_letter_schema", "evidence_schema",
]  # fmt: skip

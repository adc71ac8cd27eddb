"""Which words of which retrieved passage support each span of a RAG answer, and which claims have no support.

Names load on first use, so that importing this package loads neither torch nor spaCy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attribeam.attribution.attribute_table import TableEvidence
    from attribeam.attribution.attributor import Attributor
    from attribeam.schemas import (
        AnswerKind,
        CharRange,
        ClaimKind,
        DeadLetter,
        EvidencePiece,
        Passage,
        QARecord,
        Reason,
        RowFault,
        RowSource,
        SpanEvidence,
        SpanKind,
        Support,
        SupportedHow,
        TargetSpan,
        UnsupportedReason,
    )
    from attribeam.schemas.errors import (
        AttribeamError,
        DataError,
        ExitCode,
        LeakError,
        LogFormatError,
        LogReadError,
        ModelLoadError,
        ModelUnavailableError,
        RunError,
        SchemaVersionError,
        UsageError,
    )
    from attribeam.schemas.evidence_html import Explanation
    from attribeam.transforms.audit_answers import AuditAnswers

__version__ = "0.1.0"

__all__ = [
    "AnswerKind", "AttribeamError", "Attributor", "AuditAnswers", "CharRange", "ClaimKind", "DataError", "DeadLetter",
    "EvidencePiece", "ExitCode", "Explanation", "LeakError", "LogFormatError", "LogReadError", "ModelLoadError",
    "ModelUnavailableError", "Passage", "QARecord", "Reason", "RowFault", "RowSource", "RunError",
    "SchemaVersionError", "SpanEvidence", "SpanKind", "Support", "SupportedHow", "TableEvidence", "TargetSpan",
    "UnsupportedReason", "UsageError", "__version__",
]  # fmt: skip

_ERRORS = (
    *("AttribeamError", "DataError", "ExitCode", "LeakError", "LogFormatError", "LogReadError"),
    *("ModelLoadError", "ModelUnavailableError", "RunError", "SchemaVersionError", "UsageError"),
)
_MODULES = {
    "Attributor": "attribeam.attribution.attributor",
    "AuditAnswers": "attribeam.transforms.audit_answers",
    "Explanation": "attribeam.schemas.evidence_html",
    "TableEvidence": "attribeam.attribution.attribute_table",
} | dict.fromkeys(_ERRORS, "attribeam.schemas.errors")
"""The module of each name; all other names are in ``attribeam.schemas``."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "attribeam.schemas")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

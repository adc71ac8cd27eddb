"""Joins marks with what the audit measured: numbers of the marked claims and answers, and what people said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedAnswer, audited_answers
from attribeam.report.labelling import Mark, Marks, marks_by_answer, read_marks
from attribeam.schemas import CharRange, SpanEvidence
from attribeam.schemas.errors import DataError, UsageError

_Numbers = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MarkedItems:
    """Marked claims, or marked answers; an array has one entry for each.

    Attributes:
        suspicion: larger for more suspicious items: the answer's risk, one minus a claim's support score or mass.
        lacking: whether people said that the item lacks support.
        answers: the number of the answer that each item belongs to.
    """

    suspicion: _Numbers
    lacking: _Flags
    answers: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.suspicion)


@dataclass(frozen=True, slots=True)
class MarkedAudit:
    """What the marks say of an audit.

    Attributes:
        answers: marked answers, by their ``answer_risk``.
        scored: marked claims, by their ``support_score``.
        massed: marked claims, by their ``evidence_mass``.
        lost: marks on answers or claims that the audit does not have.
    """

    answers: MarkedItems
    scored: MarkedItems
    massed: MarkedItems
    lost: int


_Item = tuple[float | None, bool, int]
"""The support of a claim or an answer, None if it has none; whether it lacks support; and its answer's number."""


def given_marks(files: Sequence[Path]) -> Marks:
    """The marks of the files that a user names.

    Raises:
        UsageError: if they cannot be read.
    """
    try:
        return read_marks(files)
    except DataError as error:
        raise UsageError(f"--marks: {error}") from error


def marked_audit(audit: AuditDirectory, marks: Marks) -> MarkedAudit:
    """Find the marked claims and answers in the evidence.

    A mark on a name or number within a claim counts for the claim where it lacks support. An answer without a mark of
    its own lacks support if one of its claims does, and is supported if all its claims are marked as supported.

    Raises:
        RunError: if a file of the audit cannot be read.
    """
    audited = [*audited_answers(audit.evidence_of(sorted({mark.record_id for mark in marks.marks})))]
    by_answer = marks_by_answer(marks.marks, ((one.record_id, one.source) for one in audited))
    answers: list[_Item] = []
    scored: list[_Item] = []
    massed: list[_Item] = []
    found = 0
    for number, answer in enumerate(audited):
        own = by_answer.get(answer.source, [])
        claims = _marked_claims(answer, own)
        found += sum(mark.chars is None or _span_at(answer, mark.chars) is not None for mark in own)
        for span in answer.spans:
            if (lacking := claims.get(span.span_index)) is not None:
                scored.append((span.support_score, lacking, number))
                massed.append((span.evidence_mass, lacking, number))
        whole, risk = _answer_label(answer, own, claims), answer.spans[0].answer_risk
        if whole is not None:
            answers.append((None if risk is None else 1 - risk, whole, number))
    return MarkedAudit(_items(answers), _items(scored), _items(massed), len(marks.marks) - found)


def _items(found: Sequence[_Item]) -> MarkedItems:
    rows = [(1 - support, lacking, answer) for support, lacking, answer in found if support is not None]
    suspicion, lacking, answers = zip(*rows, strict=True) if rows else ((), (), ())
    return MarkedItems(np.array(suspicion, np.float64), np.array(lacking, np.bool_), np.array(answers, np.intp))


def _span_at(answer: AuditedAnswer, chars: CharRange) -> SpanEvidence | None:
    """The span of a place; of several the claim."""
    found = [span for span in answer.spans if span.chars == chars]
    return next((span for span in found if span.is_claim), found[0] if found else None)


def _marked_claims(answer: AuditedAnswer, marks: Sequence[Mark]) -> dict[int, bool]:
    """Whether each marked claim, by its index, lacks support."""
    said: dict[int, bool] = {}
    for mark in marks:
        span = None if mark.chars is None else _span_at(answer, mark.chars)
        if span is None:
            continue
        if span.is_claim:
            said[span.span_index] = said.get(span.span_index, False) or not mark.supported
        elif span.claim_index is not None and not mark.supported:
            said[span.claim_index] = True
    return said


def _answer_label(answer: AuditedAnswer, marks: Sequence[Mark], claims: Mapping[int, bool]) -> bool | None:
    whole = next((mark for mark in marks if mark.chars is None), None)
    if whole is not None:
        return not whole.supported
    if any(claims.values()):
        return True
    every = {span.span_index for span in answer.spans if span.is_claim}
    return False if every and every <= set(claims) else None

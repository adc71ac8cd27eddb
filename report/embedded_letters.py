"""The dead letters that the page carries: some of every reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from report.audit_directory import AuditDirectory

LETTERS_A_REASON = 50
_LONGEST_ANSWER = 20_000


@dataclass(frozen=True, slots=True)
class EmbeddedLetter:
    """One dead letter of the worklist; the fields are those of ``schemas.dead_letter_schema``."""

    record_id: str | None
    source_file: str
    source_row: int
    stage: str
    reason: str
    column: str | None
    message: str
    answer: str | None


def embedded_letters(audit: AuditDirectory) -> tuple[EmbeddedLetter, ...]:
    """The first ``LETTERS_A_REASON`` dead letters of each reason, in the order of the input.

    Raises:
        ReportError: if a file of the audit cannot be read.
    """
    taken: Counter[str] = Counter()
    letters = []
    for batch in audit.dead_letter_batches():
        for row in batch.to_pylist():
            if taken[row["reason"]] < LETTERS_A_REASON:
                taken[row["reason"]] += 1
                letters.append(_letter(row))
    return tuple(letters)


def _letter(row: dict[str, object]) -> EmbeddedLetter:
    letter = EmbeddedLetter(**row)  # type: ignore[arg-type]
    if letter.answer is None or len(letter.answer) <= _LONGEST_ANSWER:
        return letter
    cut = f"{letter.answer[:_LONGEST_ANSWER]}…"
    return EmbeddedLetter(**{**row, "answer": cut})  # type: ignore[arg-type]

"""What stands for the texts of an audit that wrote none, and who may read what is written of an audit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path

from attribeam.report.audited_answer import AuditedAnswer
from attribeam.schemas import EvidencePiece, QARecord, SpanEvidence

UNKNOWN_VALUE = "(not written)"


def with_texts(answer: AuditedAnswer, record: QARecord | None = None) -> AuditedAnswer:
    """The answer with a text for every span and piece: its own, that of ``record``, or where it stands.

    A span's text is empty only where the audit wrote none. Values that no passage has can be counted, not read.
    """
    if all(span.text for span in answer.spans):
        return answer
    return replace(answer, spans=tuple(_span(span, record) for span in answer.spans))


def without_texts(answer: AuditedAnswer) -> AuditedAnswer:
    """The answer as if its audit had written no texts: with the places of its spans and pieces."""
    hidden = (
        replace(span, expected=None, unmatched_values=("",) * len(span.unmatched_values)) for span in answer.spans
    )
    return replace(answer, spans=tuple(_span(span, None) for span in hidden))


def _span(span: SpanEvidence, record: QARecord | None) -> SpanEvidence:
    chars = span.chars
    return replace(
        span,
        text=f"characters {chars.char_start} to {chars.char_end}" if record is None else chars.of(record.answer),
        evidence=tuple(replace(piece, text=_piece_text(piece, record)) for piece in span.evidence),
        unmatched_values=tuple(value or UNKNOWN_VALUE for value in span.unmatched_values),
    )


def _piece_text(piece: EvidencePiece, record: QARecord | None) -> str:
    if record is None:
        return f"characters {piece.chars.char_start} to {piece.chars.char_end}"
    passage = record.passages[piece.passage_index]
    return piece.chars.of((passage.title or "") if piece.in_title else passage.text)


@contextmanager
def as_private_as(folders: Iterable[str | Path]) -> Iterator[None]:
    """Make what the block writes no more readable than each of the folders is; one of an object store says nothing."""
    own = os.umask(0o077)
    denied = [~Path(folder).stat().st_mode & 0o077 for folder in folders if Path(folder).is_dir()]
    os.umask(reduce(or_, denied, own))
    try:
        yield
    finally:
        os.umask(own)

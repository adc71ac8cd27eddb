"""Masks spans and their evidence by where they stand in the whole texts.

A piece may hold half of an e-mail address, in which nothing could be recognised; so the answer and the passages are
searched whole, and the pieces are cut out of the masked texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from attribeam.logs.privacy.own_patterns import SlowPatternError
from attribeam.logs.privacy.redactor import MASK, Redactor
from attribeam.schemas import CharRange, EvidencePiece, QARecord, Reason, RowFault, SpanEvidence


def redacted_spans(record: QARecord, spans: Sequence[SpanEvidence], redactor: Redactor) -> tuple[SpanEvidence, ...]:
    """The spans with the texts that may be written; all offsets stay.

    Raises:
        RowFault: if a pattern of the user's takes too long on a text of the row.
    """
    try:
        return tuple(_redacted(record, spans, redactor))
    except SlowPatternError as error:
        message = (
            f"every text should be searched in time, but {error}; mend the pattern, or leave the row out of the log"
        )
        raise RowFault(Reason.REDACTION_FAILED, message) from error


def _redacted(record: QARecord, spans: Sequence[SpanEvidence], redactor: Redactor) -> Iterator[SpanEvidence]:
    answer = redactor.masked(record.answer)

    @cache
    def passage(index: int, in_title: bool) -> str:
        one = record.passages[index]
        return redactor.masked((one.title or "") if in_title else one.text)

    def piece(one: EvidencePiece) -> EvidencePiece:
        return replace(one, text=one.chars.of(passage(one.passage_index, one.in_title)))

    @cache
    def value(text: str) -> str:
        return _masked_value(text, record.answer, answer)

    for span in spans:
        yield replace(
            span,
            text=span.chars.of(answer),
            evidence=tuple(map(piece, span.evidence)),
            unmatched_values=tuple(map(value, span.unmatched_values)),
        )


def _masked_value(value: str, answer: str, masked: str) -> str:
    """A value of the answer, with what is masked wherever the value occurs; all of it where it does not occur."""
    places = list(_occurrences(value, answer))
    if not places and masked != answer:
        return MASK * len(value)
    shown = [place.of(masked) for place in places]
    return "".join(MASK if any(one[at] != value[at] for one in shown) else mark for at, mark in enumerate(value))


def _occurrences(value: str, answer: str) -> Iterator[CharRange]:
    start = answer.find(value) if value else -1
    while start >= 0:
        yield CharRange(start, start + len(value))
        start = answer.find(value, start + 1)

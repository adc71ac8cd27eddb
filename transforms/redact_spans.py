"""Masks spans and their evidence by where they stand in the whole texts.

A piece may hold half of an e-mail address, in which nothing could be recognised; so the answer and the passages are
searched whole, and the pieces are cut out of the masked texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from attribeam.logs.privacy.masked_record import masked_record
from attribeam.logs.privacy.own_patterns import SlowPatternError
from attribeam.logs.privacy.redactor import MASK, Redactor
from attribeam.schemas import CharRange, EvidencePiece, QARecord, Reason, RowFault, SpanEvidence


def redacted(
    record: QARecord, spans: Sequence[SpanEvidence], redactor: Redactor
) -> tuple[QARecord, tuple[SpanEvidence, ...]]:
    """The record and its spans with the texts that may be written; all offsets stay.

    Raises:
        RowFault: if a pattern of the user's takes too long on a text of the row.
    """
    try:
        masked = masked_record(record, redactor)
    except SlowPatternError as error:
        message = (
            f"every text should be searched in time, but {error}; mend the pattern, or leave the row out of the log"
        )
        raise RowFault(Reason.REDACTION_FAILED, message) from error
    return masked, tuple(_redacted(span, record, masked) for span in spans)


def _redacted(span: SpanEvidence, record: QARecord, masked: QARecord) -> SpanEvidence:
    def piece(one: EvidencePiece) -> EvidencePiece:
        passage = masked.passages[one.passage_index]
        text = (passage.title or "") if one.in_title else passage.text
        return replace(one, text=one.chars.of(text), passage_id=passage.passage_id)

    def expected(text: str) -> str:
        return _masked_value(text, _passage_texts(record), _passage_texts(masked))

    values = (_masked_value(value, [record.answer], [masked.answer]) for value in span.unmatched_values)
    top = span.top_passage_index
    return replace(
        span,
        text=span.chars.of(masked.answer),
        evidence=tuple(map(piece, span.evidence)),
        unmatched_values=tuple(values),
        expected=None if span.expected is None else expected(span.expected),
        top_passage_id=span.top_passage_id if top is None else masked.passages[top].passage_id,
    )


def _passage_texts(record: QARecord) -> list[str]:
    return [text for passage in record.passages for text in (passage.title or "", passage.text)]


def _masked_value(value: str, texts: Sequence[str], masked: Sequence[str]) -> str:
    """A value of the texts, with what is masked wherever it occurs; all masked if it occurs nowhere and any text is."""
    shown = [place.of(mask) for text, mask in zip(texts, masked, strict=True) for place in _occurrences(value, text)]
    if not shown and masked != texts:
        return MASK * len(value)
    return "".join(MASK if any(one[at] != value[at] for one in shown) else mark for at, mark in enumerate(value))


def _occurrences(value: str, text: str) -> Iterator[CharRange]:
    start = text.find(value) if value else -1
    while start >= 0:
        yield CharRange(start, start + len(value))
        start = text.find(value, start + 1)

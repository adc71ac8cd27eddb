"""Stage 5: attributed blocks in, tables of the evidence schema out, with the texts that may be written.

Spans and their evidence are masked by where they stand in the whole texts. A piece may hold half of an e-mail address,
in which nothing could be recognised; so the answer and the passages are searched whole, and the pieces are cut out of
the masked texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from attribeam.attribution.methods.audit_row import AuditRow, RowFindings, evidence_of
from attribeam.attribution.methods.method import resolve_method
from attribeam.attribution.verdict.fitted_parts import UNREAD
from attribeam.logs.privacy.masked_record import masked_record
from attribeam.logs.privacy.redactor import MASK, Redactor
from attribeam.logs.privacy.settings import SlowPatternError
from attribeam.schemas import CharRange, EvidencePiece, QARecord, Reason, RowFault, SpanEvidence, Stage
from attribeam.schemas.evidence_record import evidence_table
from attribeam.schemas.passage_sample import sample_passages
from attribeam.transforms.attribute_rows import attributed_blocks
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.prepare_rows import encode_rows, parse_answers
from attribeam.transforms.row_groups import RowCounts, RowGroup, dead_letter, stage, tell_rows_finished


def audit_stages(settings: AuditSettings, evidence: pa.Schema) -> dict[str, Callable[[RowGroup], RowGroup]]:
    """The stages of an audit by name, in their order: a group of records in, one of evidence tables out."""
    return {
        "EncodeRows": partial(encode_rows, settings=settings),
        "ParseAnswers": partial(parse_answers, settings=settings),
        "AuditRows": partial(audit_rows, settings=settings, schema=evidence),
    }


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


def audit_rows(group: RowGroup, settings: AuditSettings, schema: pa.Schema) -> RowGroup:
    """Stages 4 and 5: ``AuditRow``s in, tables of the evidence schema out, one per block; faulty rows are dead letters.

    Counts the audited rows in the group.
    """

    def tables() -> Iterator[pa.Table]:
        method, redactor = resolve_method(settings.method), Redactor(settings.privacy)
        for block in attributed_blocks(group, settings):
            audited: list[tuple[QARecord, tuple[SpanEvidence, ...]]] = []
            pairs = block.pairs()
            with stage("evidence"):
                evidence = evidence_of(pairs, method=method, options=settings.method, settings=block.settings)
            for (row, outcome), spans in zip(pairs, evidence, strict=True):
                try:
                    with stage("evidence"):
                        if isinstance(spans, RowFault):
                            raise spans
                        audited.append(redacted(row.record, spans, redactor))
                except RowFault as fault:
                    of = Stage.ATTRIBUTE if fault is outcome else Stage.EVIDENCE
                    group.refuse(dead_letter(row.record, fault, of, settings))
                else:
                    if isinstance(outcome, RowFindings):
                        _count(group.counts, row, outcome)
            records = [record for record, _ in audited]
            texts = (passage.text for record in records for passage in record.passages)
            group.counts.passage_sample = sample_passages(texts, group.counts.passage_sample)
            group.counts.notes.update(note for record in records for note in record.notes)
            tell_rows_finished(len(audited))
            with stage("write"):
                table = evidence_table(audited, schema)
            if table.num_rows:
                yield table

    return group.of(tables())


def _count(counts: RowCounts, row: AuditRow, found: RowFindings) -> None:
    if row.encoded is not None:
        counts.tokens += row.encoded.token_count
        counts.rows_in_windows += bool(row.encoded.windows)
    counts.rows_unread += found.reading == UNREAD
    counts.rows_asked += found.reading is not None

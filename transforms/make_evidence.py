"""Stage 5, and the masking of what it makes.

Stage 5: attributed blocks in, tables of the evidence schema out.

Masks spans and their evidence by where they stand in the whole texts.

A piece may hold half of an e-mail address, in which nothing could be recognised; so the answer and the passages are
searched whole, and the pieces are cut out of the masked texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from attribeam.attribution.methods.audit_row import AuditRow, Outcome, evidence_of, is_asked, is_unread
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.logs.privacy.masked_record import masked_record
from attribeam.logs.privacy.redactor import MASK, Redactor
from attribeam.logs.privacy.settings import SlowPatternError
from attribeam.schemas import CharRange, EvidencePiece, QARecord, Reason, RowFault, SpanEvidence, Stage
from attribeam.schemas.evidence_record import evidence_table
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.dead_letters import DeadLetterOffice
from attribeam.transforms.elements import AttributedBlock
from attribeam.transforms.stage_metrics import count_audited_rows, see_records, stage


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


class MakeEvidence(beam.DoFn):
    """Turns a block into one table with the evidence of all its spans (main output), and faulty rows into dead letters.

    A block with pending outcomes waits until the next block arrives or the bundle ends; the model works meanwhile.
    """

    def __init__(self, settings: AuditSettings, schema: pa.Schema) -> None:
        self._schema = schema
        self._options = settings.method
        self._redactor = Redactor(settings.privacy)
        self._model_faults = DeadLetterOffice(Stage.ATTRIBUTE, settings)
        self._own_faults = DeadLetterOffice(Stage.EVIDENCE, settings)

    def setup(self) -> None:
        self._method = resolve_method(self._options)

    def start_bundle(self) -> None:
        self._pending_block: AttributedBlock | None = None

    def process(self, block: AttributedBlock) -> Iterator[pa.Table | beam.pvalue.TaggedOutput]:
        held, self._pending_block = self._pending_block, block if block.outcomes.is_pending else None
        if held is not None:
            yield from self._make_tables(held)
        if self._pending_block is None:
            yield from self._make_tables(block)

    def finish_bundle(self) -> Iterator[WindowedValue | beam.pvalue.TaggedOutput]:
        if self._pending_block is not None:
            yield from map(_in_window, self._make_tables(self._pending_block))
        self._pending_block = None

    def _make_tables(self, block: AttributedBlock) -> Iterator[pa.Table | beam.pvalue.TaggedOutput]:
        audited: list[tuple[QARecord, tuple[SpanEvidence, ...]]] = []
        encoded: list[EncodedRow] = []
        unread = asked = 0
        for row, outcome in zip(block.rows, block.outcomes.wait(), strict=True):
            made = self._evidence(row, outcome, block.settings)
            if isinstance(made, beam.pvalue.TaggedOutput):
                yield made
            else:
                audited.append(made)
                encoded += [row.encoded] if row.encoded is not None else []
                unread += is_unread(outcome)
                asked += is_asked(outcome)
        count_audited_rows(
            [spans for _, spans in audited],
            tokens=sum(one.token_count for one in encoded),
            in_windows=sum(bool(one.windows) for one in encoded),
            unread=unread,
            asked=asked,
        )
        see_records([record for record, _ in audited])
        with stage("write"):
            table = evidence_table(audited, self._schema)
        if table.num_rows:
            yield table

    def _evidence(
        self, row: AuditRow, outcome: Outcome, settings: MethodOptions | None
    ) -> tuple[QARecord, tuple[SpanEvidence, ...]] | beam.pvalue.TaggedOutput:
        if isinstance(outcome, RowFault):
            return self._model_faults.refuse(row.record, outcome)
        try:
            with stage("evidence"):
                spans = evidence_of(row, outcome, method=self._method, options=self._options, settings=settings)
                return redacted(row.record, spans, self._redactor)
        except RowFault as fault:
            return self._own_faults.refuse(row.record, fault)


def _in_window(made: pa.Table | beam.pvalue.TaggedOutput) -> WindowedValue | beam.pvalue.TaggedOutput:
    """Wrapped as Beam requires at the end of a bundle."""
    if isinstance(made, beam.pvalue.TaggedOutput):
        return beam.pvalue.TaggedOutput(made.tag, GlobalWindows.windowed_value(made.value))
    return GlobalWindows.windowed_value(made)

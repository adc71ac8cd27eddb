"""Stage 5: attributed blocks in, tables of the evidence schema out."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from attribeam.attribution.methods.audit_row import AuditRow, Outcome, evidence_of, is_asked, is_unread
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.logs.privacy.redactor import Redactor
from attribeam.schemas import QARecord, RowFault, SpanEvidence, Stage
from attribeam.schemas.evidence_record import evidence_table
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.dead_letters import DeadLetterOffice
from attribeam.transforms.elements import AttributedBlock
from attribeam.transforms.redact_spans import redacted
from attribeam.transforms.stage_metrics import count_audited_rows, see_records, stage


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

"""Stage 5: attributed blocks in, rows of the evidence schema out."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from attribution.evidence import span_evidence
from attribution.settings import UnionSettings
from attribution.token_attribution import TokenAttribution
from schemas import RowFault, SpanEvidence, Stage, evidence_row
from transforms.attribute_rows import token_count
from transforms.audit_row import AttributedBlock, AuditRow
from transforms.audit_settings import AuditSettings
from transforms.dead_letters import DeadLetterOffice
from transforms.row_counters import count_audited_row


class MakeEvidence(beam.DoFn):
    """A block in; for each row the evidence of all its spans (main output), or one dead letter and nothing else."""

    def __init__(self, settings: AuditSettings) -> None:
        self._model_faults = DeadLetterOffice(Stage.ATTRIBUTE, settings.dead_letter_text)
        self._own_faults = DeadLetterOffice(Stage.EVIDENCE, settings.dead_letter_text)

    def process(self, block: AttributedBlock) -> Iterator[dict[str, object] | beam.pvalue.TaggedOutput]:
        for row, outcome in zip(block.rows, block.outcomes, strict=True):
            if isinstance(outcome, RowFault):
                yield self._model_faults.refuse(row.record, outcome)
            else:
                yield from self._evidence(row, outcome, block.settings)

    def _evidence(
        self, row: AuditRow, tokens: TokenAttribution, settings: UnionSettings
    ) -> Iterator[dict[str, object] | beam.pvalue.TaggedOutput]:
        try:
            spans = evidence_of(row, tokens, settings)
        except RowFault as fault:
            yield self._own_faults.refuse(row.record, fault)
            return
        count_audited_row(token_count(row), spans)
        for span in spans:
            yield evidence_row(row.record, span)


def evidence_of(row: AuditRow, tokens: TokenAttribution, settings: UnionSettings) -> tuple[SpanEvidence, ...]:
    """The evidence of all spans of one row."""
    return span_evidence(
        record=row.record,
        parsed=row.parsed,
        spans=row.spans,
        encoded=row.encoded,
        tokens=tokens,
        settings=settings,
    )

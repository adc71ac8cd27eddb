"""The model's tokenizer on the CPU: parsed rows in, encoded rows out."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from attribution.row_encoder import load_row_encoder
from schemas import RowFault, Stage
from transforms.audit_row import AuditRow, ParsedRow
from transforms.audit_settings import AuditSettings
from transforms.dead_letters import DeadLetterOffice


class EncodeRows(beam.DoFn):
    """Tokenises every row once: an ``AuditRow`` (main output), or a dead letter where it is too long."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._office = DeadLetterOffice(Stage.ATTRIBUTE, settings.dead_letter_text)

    def setup(self) -> None:
        self._encoder = load_row_encoder(self._settings.model)

    def process(self, row: ParsedRow) -> Iterator[AuditRow | beam.pvalue.TaggedOutput]:
        try:
            encoded = self._encoder.encode(row.record)
        except RowFault as fault:
            yield self._office.refuse(row.record, fault)
        else:
            yield AuditRow(row.record, row.parsed, row.spans, encoded)

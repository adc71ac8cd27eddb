"""The model's tokenizer on the CPU: records in, tokenised rows out.

This comes before parsing, so that an answer beyond the model's length is refused before the parser meets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam

from attribution.prompts.row_encoder import load_row_encoder
from schemas import QARecord, RowFault, Stage
from transforms.audit_row import TokenisedRow
from transforms.audit_settings import AuditSettings
from transforms.dead_letters import DEAD_LETTERS, DeadLetterOffice
from transforms.row_coders import register_row_coders
from transforms.stage_clock import stage


@dataclass
class EncodeRows(beam.PTransform):
    """Tokenises every row once: a ``TokenisedRow`` (main output), or a dead letter where it is too long."""

    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()
        register_row_coders()

    def expand(self, records: beam.PCollection) -> beam.pvalue.DoOutputsTuple:
        encode = beam.ParDo(Encode(self.settings)).with_output_types(TokenisedRow)
        return records | encode.with_outputs(DEAD_LETTERS, main="rows")


class Encode(beam.DoFn):
    """A record in, one outcome out."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._office = DeadLetterOffice(Stage.ATTRIBUTE, settings.dead_letter_text)

    def setup(self) -> None:
        self._encoder = load_row_encoder(self._settings.model)

    def process(self, record: QARecord) -> Iterator[TokenisedRow | beam.pvalue.TaggedOutput]:
        try:
            with stage("encode"):
                encoded = self._encoder.encode(record)
        except RowFault as fault:
            yield self._office.refuse(record, fault)
        else:
            yield TokenisedRow(record, encoded)

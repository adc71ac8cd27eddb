"""Stages 2 to 5 as one transform: QA records in, evidence tables and dead letters out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import apache_beam as beam
import pyarrow as pa

from attribeam.transforms.attribute_rows import AttributeRows, PackForModel
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.dead_letters import DEAD_LETTERS
from attribeam.transforms.make_evidence import MakeEvidence
from attribeam.transforms.prepare_rows import EncodeRows, ParseAnswers


class AuditedRecords(NamedTuple):
    """``evidence`` are Arrow tables of the evidence schema, one per block; ``dead_letters`` are ``DeadLetter``s."""

    evidence: beam.PCollection
    dead_letters: beam.PCollection


@dataclass
class AuditRecords(beam.PTransform):
    """Audits ``QARecord`` elements, bundle by bundle; ``schema`` is that of the evidence."""

    settings: AuditSettings
    schema: pa.Schema

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, records: beam.PCollection) -> AuditedRecords:
        settings = self.settings
        encoded = records | "EncodeRows" >> EncodeRows(settings)
        parsed = encoded.rows | "ParseAnswers" >> ParseAnswers(settings)
        blocks = parsed.parsed | "PackRows" >> PackForModel(settings)
        attributed = blocks | "AttributeRows" >> AttributeRows(settings)
        make = beam.ParDo(MakeEvidence(settings, self.schema))
        made = attributed | "MakeEvidence" >> make.with_outputs(DEAD_LETTERS, main="evidence")
        letters = (encoded[DEAD_LETTERS], parsed[DEAD_LETTERS], made[DEAD_LETTERS])
        return AuditedRecords(made.evidence, letters | "GatherDeadLetters" >> beam.Flatten())

"""Dead letters in the graph: one tag for all stages, made from a ``RowFault``, written to Parquet."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from attribeam.logs.privacy.masked_record import record_secrets
from attribeam.logs.privacy.redactor import Redactor, without_secrets
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.schemas import DeadLetter, QARecord, RowFault, Stage, dead_letter_row
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.elements import PackRows
from attribeam.transforms.stage_metrics import count_dead_letter
from attribeam.transforms.write_evidence import WriteTables

DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True, slots=True)
class DeadLetterOffice:
    """Turns the faults of one stage into tagged dead letters, and counts them.

    What the record holds of e-mail addresses and numbers is masked in the letter; the rest is, when it is written.
    """

    stage: Stage
    settings: AuditSettings

    def refuse(self, record: QARecord, fault: RowFault) -> TaggedOutput:
        """The dead letter of a valid record that failed at this stage."""
        secrets = record_secrets(record, Redactor(self.settings.privacy))
        return tag_dead_letter(
            DeadLetter(
                record_id=without_secrets(record.record_id, secrets),
                source=record.source,
                stage=self.stage,
                reason=fault.reason,
                message=without_secrets(str(fault), secrets),
                column=fault.column,
                answer=without_secrets(record.answer, secrets) if self.settings.dead_letter_text else None,
            )
        )


def tag_dead_letter(letter: DeadLetter) -> TaggedOutput:
    """Count a dead letter and send it to the sink."""
    count_dead_letter(letter.reason)
    return TaggedOutput(DEAD_LETTERS, letter)


@dataclass
class WriteDeadLetters(beam.PTransform):
    """``DeadLetter`` elements to Parquet, as ``WriteTables`` does.

    They come from several stages in no fixed order. So they are gathered until the chunk ends and written in the order
    of its rows.
    """

    prefix: str
    schema: pa.Schema
    privacy: PrivacySettings = field(default_factory=PrivacySettings)

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, letters: beam.PCollection) -> beam.PCollection:
        return (
            letters
            | "GatherLetters" >> beam.ParDo(PackRows(sys.maxsize))
            | "MakeTables" >> beam.Map(dead_letter_table, self.schema)
            | "WriteTables" >> WriteTables(self.prefix, self.schema, self.privacy)
        )


def dead_letter_table(letters: Iterable[DeadLetter], schema: pa.Schema) -> pa.Table:
    """Some dead letters as a table of ``schema``, in the order of their rows in the input."""
    ordered = sorted(letters, key=lambda letter: (letter.source.source_file, letter.source.source_row))
    return pa.Table.from_pylist([dead_letter_row(letter) for letter in ordered], schema=schema)

"""Stage 1: ranges of rows in, QA records out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam

from attribeam.logs.parquet_log import QARecordReader
from attribeam.logs.rows import RowRange
from attribeam.schemas import DeadLetter, QARecord
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.dead_letters import DEAD_LETTERS, tag_dead_letter
from attribeam.transforms.stage_metrics import count_row_read, stage


@dataclass
class ReadQALogs(beam.PTransform):
    """Reads and validates every row of every range: a QA record (main output) or a dead letter."""

    settings: AuditSettings

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, row_ranges: beam.PCollection) -> beam.pvalue.DoOutputsTuple:
        return row_ranges | beam.ParDo(ReadRows(self.settings)).with_outputs(DEAD_LETTERS, main="records")


class ReadRows(beam.DoFn):
    """A range in, its rows' outcomes out, in order."""

    def __init__(self, settings: AuditSettings) -> None:
        self._reader = QARecordReader(settings)

    def process(self, row_range: RowRange) -> Iterator[QARecord | beam.pvalue.TaggedOutput]:
        outcomes = self._reader.read(row_range)
        while True:
            with stage("read"):
                outcome = next(outcomes, None)
            if outcome is None:
                return
            count_row_read()
            yield tag_dead_letter(outcome) if isinstance(outcome, DeadLetter) else outcome

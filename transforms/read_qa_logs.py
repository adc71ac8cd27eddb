"""Stage 1: ranges of rows in, QA records out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import apache_beam as beam

from attribeam.logs.parquet_log import QARecordReader
from attribeam.logs.rows import RowRange
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, Stage
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.dead_letters import DEAD_LETTERS, DeadLetterOffice, tag_dead_letter
from attribeam.transforms.stage_metrics import count_row_read, stage


@dataclass
class ReadQALogs(beam.PTransform):
    """Reads and validates every row of every range: a QA record (main output) or a dead letter.

    ``fatal_rows`` are rows that are never audited because they end the process that does, and how it ended.
    """

    settings: AuditSettings
    fatal_rows: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, row_ranges: beam.PCollection) -> beam.pvalue.DoOutputsTuple:
        return row_ranges | beam.ParDo(ReadRows(self.settings, self.fatal_rows)).with_outputs(
            DEAD_LETTERS, main="records"
        )


class ReadRows(beam.DoFn):
    """A range in, its rows' outcomes out, in order."""

    def __init__(self, settings: AuditSettings, fatal_rows: Mapping[int, str]) -> None:
        self._reader = QARecordReader(settings)
        self._fatal_rows = fatal_rows
        self._office = DeadLetterOffice(Stage.READ, settings.dead_letter_text)

    def process(self, row_range: RowRange) -> Iterator[QARecord | beam.pvalue.TaggedOutput]:
        outcomes = self._reader.read(row_range)
        while True:
            with stage("read"):
                outcome = next(outcomes, None)
            if outcome is None:
                return
            count_row_read()
            yield tag_dead_letter(outcome) if isinstance(outcome, DeadLetter) else self._pass_on(outcome)

    def _pass_on(self, record: QARecord) -> QARecord | beam.pvalue.TaggedOutput:
        how = self._fatal_rows.get(record.source.source_row)
        return record if how is None else self._office.refuse(record, worker_died(how))


def worker_died(how: str) -> RowFault:
    """The fault of a row whose worker process ended by, say, "signal SIGKILL"."""
    return RowFault(
        Reason.WORKER_DIED,
        f"the worker process should survive any row, ended by {how} on this row alone; give it more memory, or leave "
        "the row out of the log",
    )

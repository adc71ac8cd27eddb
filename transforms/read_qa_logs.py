"""Stage 1: read ranges of rows as QA records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import apache_beam as beam

from attribeam.logs.files import ArrowStorage, LogStorage
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import FaultyRow, RowRange
from attribeam.schemas import DeadLetter, QARecord, Reason, RowFault, Stage
from attribeam.schemas.dead_letter import reading_stage
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.dead_letters import DEAD_LETTERS, DeadLetterOffice, tag_dead_letter
from attribeam.transforms.stage_metrics import count_row_read, stage


@dataclass
class ReadQALogs(beam.PTransform):
    """Reads and validates every row of every range: a QA record (main output) or a dead letter.

    ``fatal_rows`` are not audited, because each has ended a worker process; the value says how it ended. They are None
    before the last try, in which rows that memory does not suffice to read become dead letters, too.
    """

    settings: AuditSettings
    fatal_rows: Mapping[int, str] | None = None
    storage: LogStorage = field(default_factory=ArrowStorage)

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, row_ranges: beam.PCollection) -> beam.pvalue.DoOutputsTuple:
        read = beam.ParDo(ReadRows(self.settings, self.fatal_rows, self.storage))
        return row_ranges | read.with_outputs(DEAD_LETTERS, main="records")


class ReadRows(beam.DoFn):
    """Turns a range into the outcomes of its rows, in order."""

    def __init__(self, settings: AuditSettings, fatal_rows: Mapping[int, str] | None, storage: LogStorage) -> None:
        self._options = settings.log_options
        self._fatal_rows = fatal_rows or {}
        self._last_try = fatal_rows is not None
        self._storage = storage
        self._with_text = settings.dead_letter_text
        self._office = DeadLetterOffice(Stage.READ, settings)

    def process(self, rows: RowRange) -> Iterator[QARecord | beam.pvalue.TaggedOutput]:
        outcomes = QALog(rows.file, self._options, self._storage, rows.stamp).outcomes(
            range(rows.row_start, rows.row_end), duplicate_rows=rows.duplicate_rows, last_try=self._last_try
        )
        while True:
            with stage("read"):
                outcome = next(outcomes, None)
            if outcome is None:
                return
            count_row_read()
            yield self._refuse(outcome) if isinstance(outcome, FaultyRow) else self._pass_on(outcome)

    def _pass_on(self, record: QARecord) -> QARecord | beam.pvalue.TaggedOutput:
        how = self._fatal_rows.get(record.source.source_row)
        return record if how is None else self._office.refuse(record, worker_died(how))

    def _refuse(self, row: FaultyRow) -> beam.pvalue.TaggedOutput:
        return tag_dead_letter(
            DeadLetter(
                record_id=row.record_id,
                source=row.source,
                stage=reading_stage(row.fault.reason),
                reason=row.fault.reason,
                message=str(row.fault),
                column=row.fault.column,
                answer=row.answer if self._with_text else None,
            )
        )


def worker_died(how: str) -> RowFault:
    """The fault of a row whose worker process ended by, say, "signal SIGKILL"."""
    return RowFault(
        Reason.WORKER_DIED,
        f"the worker process should survive any row, but ended by {how} on this row alone; give it more memory, or "
        "leave the row out of the log",
    )

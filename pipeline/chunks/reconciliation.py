"""What became of the rows of some ranges, counted by reading back the files that were written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribeam.logs.rows import RowRange
from attribeam.schemas import Support
from attribeam.schemas.claim_rows import COUNTED_COLUMNS, counted_rows
from attribeam.schemas.errors import RunError
from attribeam.schemas.run_manifest import AuditCounts, dead_letter_counts
from attribeam.transforms.beam_storage import BeamStorage

_BATCH_ROWS = 16_384
_EVIDENCE_COLUMNS = ["source_file", "source_row", *COUNTED_COLUMNS, "support", "claim_kind", "answer_kind"]


class ReconciliationError(RunError):
    """Rows are missing from the output or appear twice; such output is never committed."""


def count_rows(ranges: Sequence[RowRange], *, evidence: Iterable[str], dead_letters: Iterable[str]) -> AuditCounts:
    """Count what became of the rows of ``ranges`` by reading the written files; takes one byte per row.

    There is at most one range per file.

    Raises:
        ReconciliationError: if a row is in neither output, in both, or twice in one, or lies outside the ranges.
    """
    ledger = _Ledger(ranges)
    spans: Counter[str] = Counter()
    claims: Counter[str] = Counter()
    not_judged: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    audited = 0
    for batch in _batches(evidence, _EVIDENCE_COLUMNS):
        firsts = batch.filter(pc.equal(batch.column("span_index"), 0))
        ledger.record_outcomes(firsts)
        audited += firsts.num_rows
        answers.update(firsts.column("answer_kind").to_pylist())
        spans.update(batch.column("support").to_pylist())
        counted = counted_rows(batch)
        claims.update(counted.column("support").to_pylist())
        unread = counted.filter(pc.equal(counted.column("support"), Support.NOT_JUDGED.value))
        not_judged.update(unread.column("claim_kind").to_pylist())
    for batch in _batches(dead_letters, ["source_file", "source_row", "stage", "reason"]):
        ledger.record_outcomes(batch)
        reasons.update(zip(batch.column("stage").to_pylist(), batch.column("reason").to_pylist(), strict=True))
    ledger.check()
    return AuditCounts(
        rows=sum(rows.row_count for rows in ranges),
        audited=audited,
        dead_letters=dead_letter_counts(reasons),
        spans=dict(sorted(spans.items())),
        claims=dict(sorted(claims.items())),
        not_judged=dict(sorted(not_judged.items())),
        answers=dict(sorted(answers.items())),
    )


class _Ledger:
    """The number of outcomes of each row, which should be one."""

    def __init__(self, ranges: Sequence[RowRange]) -> None:
        self._ranges = {rows.file: rows for rows in ranges}
        self._outcomes = {rows.file: np.zeros(rows.row_count, np.uint8) for rows in ranges}

    def record_outcomes(self, batch: pa.RecordBatch) -> None:
        """Add one outcome to each row of the batch."""
        for file in pc.unique(batch.column("source_file")).to_pylist():
            of_file = batch.filter(pc.equal(batch.column("source_file"), file))
            self._record(file, of_file.column("source_row").to_numpy())

    def check(self) -> None:
        """Raise ReconciliationError unless each row has exactly one outcome."""
        for file, outcomes in self._outcomes.items():
            wrong = np.flatnonzero(outcomes != 1)
            if len(wrong):
                row = self._ranges[file].row_start + int(wrong[0])
                raise ReconciliationError(
                    f"{_describe_rows(self._ranges[file])}: every row should be audited or dead-lettered exactly once, "
                    f"{len(wrong)} are not, the first is row {row} with {int(outcomes[wrong[0]])} outcomes; please "
                    "report this"
                )

    def _record(self, file: str, source_rows: npt.NDArray[np.int64]) -> None:
        rows = self._ranges.get(file)
        places = source_rows - (rows.row_start if rows else 0)
        if rows is None or ((places < 0) | (places >= rows.row_count)).any():
            raise ReconciliationError(f"the output has rows of {file!r} that were not asked for; please report this")
        found, times = np.unique(places, return_counts=True)
        outcomes = self._outcomes[file]
        outcomes[found] = np.minimum(outcomes[found] + times, 255)


def _batches(paths: Iterable[str], columns: list[str]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with BeamStorage().open(path) as file, pq.ParquetFile(file) as parquet:
            yield from parquet.iter_batches(batch_size=_BATCH_ROWS, columns=columns)


def _describe_rows(rows: RowRange) -> str:
    return f"rows {rows.row_start} to {rows.row_end} of {rows.file!r}"

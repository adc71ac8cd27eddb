"""Reading back what was written: every row audited or dead-lettered, exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribeam.logs.files import open_file
from attribeam.logs.rows import RowRange
from attribeam.schemas.run_manifest import AuditCounts, dead_letter_counts

_BATCH_ROWS = 16_384


class ReconciliationError(Exception):
    """Rows are missing from the output or stand in it twice; such output is never committed."""


def count_rows(
    ranges: Sequence[RowRange], *, evidence: Iterable[str], dead_letters: Iterable[str], tokens: int | None
) -> AuditCounts:
    """Counts of the rows of ``ranges``, at most one a file, from the files that were written; one byte a row.

    Raises:
        RowsDoNotReconcileError: if a row is in neither output, in both, or twice in one, or if rows are from elsewhere.
    """
    ledger = _Ledger(ranges)
    spans: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    audited = 0
    for batch in _batches(evidence, ["source_file", "source_row", "span_index", "support"]):
        firsts = batch.filter(pc.equal(batch.column("span_index"), 0))
        ledger.enter(firsts)
        audited += firsts.num_rows
        spans.update(batch.column("support").to_pylist())
    for batch in _batches(dead_letters, ["source_file", "source_row", "stage", "reason"]):
        ledger.enter(batch)
        reasons.update(zip(batch.column("stage").to_pylist(), batch.column("reason").to_pylist(), strict=True))
    ledger.check()
    return AuditCounts(
        rows=sum(rows.row_count for rows in ranges),
        audited=audited,
        dead_letters=dead_letter_counts(reasons),
        spans=dict(sorted(spans.items())),
        tokens=tokens,
    )


class _Ledger:
    """How many outcomes each row has: one is right."""

    def __init__(self, ranges: Sequence[RowRange]) -> None:
        self._ranges = {rows.file: rows for rows in ranges}
        self._outcomes = {rows.file: np.zeros(rows.row_count, np.uint8) for rows in ranges}

    def enter(self, batch: pa.RecordBatch) -> None:
        """One outcome for each row of the batch."""
        for file in pc.unique(batch.column("source_file")).to_pylist():
            of_file = batch.filter(pc.equal(batch.column("source_file"), file))
            self._enter(file, of_file.column("source_row").to_numpy())

    def check(self) -> None:
        """Raise RowsDoNotReconcileError unless each row has exactly one outcome."""
        for file, outcomes in self._outcomes.items():
            wrong = np.flatnonzero(outcomes != 1)
            if len(wrong):
                row = self._ranges[file].row_start + int(wrong[0])
                raise ReconciliationError(
                    f"{_describe_rows(self._ranges[file])}: every row should be audited or dead-lettered exactly once, "
                    f"{len(wrong)} are not, the first is row {row} with {int(outcomes[wrong[0]])} outcomes; please "
                    "report this"
                )

    def _enter(self, file: str, source_rows: npt.NDArray[np.int64]) -> None:
        rows = self._ranges.get(file)
        places = source_rows - (rows.row_start if rows else 0)
        if rows is None or ((places < 0) | (places >= rows.row_count)).any():
            raise ReconciliationError(f"the output has rows of {file!r} that were not asked for; please report this")
        found, times = np.unique(places, return_counts=True)
        outcomes = self._outcomes[file]
        outcomes[found] = np.minimum(outcomes[found] + times, 255)


def _batches(paths: Iterable[str], columns: list[str]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with open_file(path) as file, pq.ParquetFile(file) as parquet:
            yield from parquet.iter_batches(batch_size=_BATCH_ROWS, columns=columns)


def _describe_rows(rows: RowRange) -> str:
    return f"rows {rows.row_start} to {rows.row_end} of {rows.file!r}"

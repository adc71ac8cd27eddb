"""What became of the rows of a chunk, counted by reading back the files that were written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribeam.logs.rows import RowRange
from attribeam.schemas import Support
from attribeam.schemas.errors import RunError
from attribeam.schemas.evidence_record import COUNTED_COLUMNS, counted_rows
from attribeam.schemas.run_manifest import AuditCounts, dead_letter_counts

_BATCH_ROWS = 16_384
_EVIDENCE_COLUMNS = ["source_file", "source_row", *COUNTED_COLUMNS, "support", "claim_kind", "answer_kind"]


class ReconciliationError(RunError):
    """Rows are missing from the output or appear twice; such output is never committed."""


def count_rows(rows: RowRange, *, evidence: Path, dead_letters: Path) -> AuditCounts:
    """Count what became of ``rows`` by reading the written files; takes one byte per row.

    Raises:
        ReconciliationError: if a row is in neither output, in both, or twice in one, or lies outside the range.
    """
    outcomes = np.zeros(rows.row_count, np.uint8)
    spans: Counter[str] = Counter()
    claims: Counter[str] = Counter()
    not_judged: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    for batch in _batches(evidence, _EVIDENCE_COLUMNS):
        firsts = batch.filter(pc.equal(batch.column("span_index"), 0))
        _record_outcomes(firsts, rows, outcomes)
        answers.update(firsts.column("answer_kind").to_pylist())
        spans.update(batch.column("support").to_pylist())
        counted = counted_rows(batch)
        claims.update(counted.column("support").to_pylist())
        unread = counted.filter(pc.equal(counted.column("support"), Support.NOT_JUDGED.value))
        not_judged.update(unread.column("claim_kind").to_pylist())
    for batch in _batches(dead_letters, ["source_file", "source_row", "stage", "reason"]):
        _record_outcomes(batch, rows, outcomes)
        reasons.update(zip(batch.column("stage").to_pylist(), batch.column("reason").to_pylist(), strict=True))
    wrong = np.flatnonzero(outcomes != 1)
    if len(wrong):
        raise ReconciliationError(
            f"rows {rows.row_start} to {rows.row_end} of {rows.file!r}: every row should be audited or dead-lettered "
            f"exactly once, {len(wrong)} are not, the first is row {rows.row_start + int(wrong[0])} with "
            f"{int(outcomes[wrong[0]])} outcomes; please report this"
        )
    return AuditCounts(
        rows=rows.row_count,
        audited=answers.total(),
        dead_letters=dead_letter_counts(reasons),
        spans=dict(sorted(spans.items())),
        claims=dict(sorted(claims.items())),
        not_judged=dict(sorted(not_judged.items())),
        answers=dict(sorted(answers.items())),
    )


def _record_outcomes(batch: pa.RecordBatch, rows: RowRange, outcomes: npt.NDArray[np.uint8]) -> None:
    """Add one outcome to each row of the batch."""
    places = batch.column("source_row").to_numpy() - rows.row_start
    files = pc.unique(batch.column("source_file")).to_pylist()
    if files not in ([], [rows.file]) or ((places < 0) | (places >= rows.row_count)).any():
        raise ReconciliationError(f"the output has rows of {files} that were not asked for; please report this")
    found, times = np.unique(places, return_counts=True)
    outcomes[found] = np.minimum(outcomes[found] + times, 255)


def _batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as parquet:
        yield from parquet.iter_batches(batch_size=_BATCH_ROWS, columns=columns)

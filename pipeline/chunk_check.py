"""Reading back what a chunk wrote: every row of the range audited or dead-lettered, exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from schemas.run_manifest import AuditCounts, dead_letter_counts
from transforms.row_range import RowRange

_BATCH_ROWS = 16_384


class RowsDoNotReconcileError(Exception):
    """Rows are missing from the output or stand in it twice; such output is never committed."""


def count_rows(rows: RowRange, *, evidence: Path, dead_letters: Path, tokens: int | None) -> AuditCounts:
    """Counts of one chunk from its two files.

    Raises:
        RowsDoNotReconcileError: if a row of the range is in neither file, in both, or a dead letter twice, or if a
            file has rows from elsewhere.
    """
    audited = np.zeros(rows.row_count, np.int64)
    lettered = np.zeros(rows.row_count, np.int64)
    spans: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    for batch in _batches(evidence, ["source_row", "support"]):
        _mark(audited, rows, batch[0])
        spans.update(batch[1])
    for batch in _batches(dead_letters, ["source_row", "stage", "reason"]):
        _mark(lettered, rows, batch[0])
        reasons.update(zip(batch[1], batch[2], strict=True))
    _check_once(rows, (audited > 0) + lettered)
    return AuditCounts(
        rows=rows.row_count,
        audited=int((audited > 0).sum()),
        dead_letters=dead_letter_counts(reasons),
        spans=dict(sorted(spans.items())),
        tokens=tokens,
    )


def _batches(path: Path, columns: list[str]) -> Iterator[list[list[Any]]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns):
            yield [batch.column(name).to_pylist() for name in columns]


def _mark(counts: npt.NDArray[np.int64], rows: RowRange, source_rows: list[int]) -> None:
    places = np.array(source_rows, np.int64) - rows.row_start
    if ((places < 0) | (places >= rows.row_count)).any():
        raise RowsDoNotReconcileError(f"{_name(rows)}: the output has rows from outside this range")
    np.add.at(counts, places, 1)


def _check_once(rows: RowRange, outcomes: npt.NDArray[np.int64]) -> None:
    wrong = np.flatnonzero(outcomes != 1)
    if len(wrong):
        first = rows.row_start + int(wrong[0])
        raise RowsDoNotReconcileError(
            f"{_name(rows)}: every row should be audited or dead-lettered exactly once, {len(wrong)} are not, the "
            f"first is row {first} with {int(outcomes[wrong[0]])} outcomes; please report this, nothing was committed"
        )


def _name(rows: RowRange) -> str:
    return f"rows {rows.row_start} to {rows.row_end} of {rows.file!r}"

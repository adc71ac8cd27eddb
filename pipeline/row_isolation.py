"""Finds the rows that end their worker process, so that only they become dead letters."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from attribeam.logs.rows import RowRange
from attribeam.pipeline.configuration import OutputSchemas
from attribeam.pipeline.failures import describe_failure, describe_rows
from attribeam.pipeline.worker_messages import ChunkAttempt, RunRows, WorkerDied
from attribeam.pipeline.worker_pool import Worker, WorkerPool, start_first_worker
from attribeam.schemas.errors import RunError

_ENOUGH_FATAL_ROWS = 3


@dataclass(eq=False)
class RowIsolation:
    """Audits chunks whose workers have died, with a single worker and all other memory free.

    First a chunk is audited whole once more, in case other workers had taken the memory. If the worker dies again, the
    chunk is bisected until every row that ends a worker on its own is found. Then the chunk is audited whole without
    these rows, so that all other records are the same as if the rows had been faulty from the start.

    Attributes:
        fatal_rows: rows of the last chunk that end a worker, and how it ended.
    """

    pool: WorkerPool
    schemas: OutputSchemas
    attempts: Path
    fatal_rows: dict[int, str] = field(default_factory=dict)
    _worker: Worker | None = None
    _survivors: int = 0

    def audit(self, rows: RowRange) -> ChunkAttempt:
        """Audit all ``rows``.

        Raises:
            RunError: if no single row is to blame, or so many rows that the cause must lie elsewhere.
        """
        self.fatal_rows, self._survivors = {}, 0
        while isinstance(outcome := self._run(rows), WorkerDied):
            before = len(self.fatal_rows)
            self._find_fatal_rows(rows, outcome)
            if len(self.fatal_rows) == before:
                raise RunError(
                    f"{describe_failure(outcome, describe_rows(rows))} None of the rows does so on its own: try a "
                    "smaller --token-budget or --rows-per-chunk."
                )
        return outcome

    def _find_fatal_rows(self, rows: RowRange, death: WorkerDied) -> None:
        """Bisect ``rows``, which have ended a worker."""
        if rows.row_count == 1:
            self.fatal_rows[rows.row_start] = death.how
            self._check_blame(rows, death)
            return
        for half in _halves(rows):
            outcome = self._run(half)
            if isinstance(outcome, WorkerDied):
                self._find_fatal_rows(half, outcome)
            else:
                self._survivors += half.row_count
                shutil.rmtree(outcome.folder)

    def _check_blame(self, rows: RowRange, death: WorkerDied) -> None:
        if len(self.fatal_rows) >= _ENOUGH_FATAL_ROWS and len(self.fatal_rows) > self._survivors:
            raise RunError(
                f"{describe_failure(death, describe_rows(rows))} So did {len(self.fatal_rows) - 1} rows before it, "
                "each on its own: the cause seems to lie outside the rows; --verbose may show it."
            )

    def _run(self, rows: RowRange) -> ChunkAttempt | WorkerDied:
        if self._worker is None:
            self._worker, _ = start_first_worker(self.pool)
        folder = self.attempts / f"isolation-{uuid4().hex}"
        outcome = self.pool.run(self._worker, RunRows(rows, self.schemas, str(folder), self._rows_in(rows)))
        if isinstance(outcome, WorkerDied):
            self._worker = None
        return outcome

    def _rows_in(self, rows: RowRange) -> Mapping[int, str]:
        return {row: how for row, how in self.fatal_rows.items() if rows.row_start <= row < rows.row_end}


def _halves(rows: RowRange) -> Iterator[RowRange]:
    middle = (rows.row_start + rows.row_end) // 2
    for start, end in ((rows.row_start, middle), (middle, rows.row_end)):
        inside = tuple(row for row in rows.duplicate_rows if start <= row < end)
        yield replace(rows, row_start=start, row_end=end, duplicate_rows=inside)

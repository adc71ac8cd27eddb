"""Finds the rows that end their worker process, so that only they become dead letters."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt, RunRows, WorkerDied
from attribeam.pipeline.failures import describe_death, describe_rows
from attribeam.pipeline.workers.worker_pool import Worker, WorkerPool, start_first_worker
from attribeam.schemas.errors import RunError

_ENOUGH_FATAL_ROWS = 3


@dataclass(eq=False)
class RowIsolation:
    """Audits chunks whose workers have died, with a single worker and all other memory free.

    First a chunk is audited whole once more, in case other workers had taken the memory. If the worker dies again, the
    chunk is bisected until every row that ends a worker on its own is found. Then the chunk is audited whole without
    these rows, so that all other records are the same as if the rows had been faulty from the start.

    Attributes:
        fatal_rows: rows of the last chunk that end a worker, or a model worker, and how it ended.
    """

    pool: WorkerPool
    schemas: OutputSchemas
    attempts: Path
    fatal_rows: dict[int, str] = field(default_factory=dict)
    _survivors: int = 0
    _worker: Worker | None = None

    def audit(self, rows: RowRange) -> ChunkAttempt:
        """Audit all ``rows``.

        Raises:
            RunError: if no single row is to blame, or so many rows that the cause must lie elsewhere.
        """
        self.fatal_rows, self._survivors = {}, 0
        while isinstance(outcome := self._run(rows), WorkerDied):
            before = len(self.fatal_rows)
            self._bisect(rows, outcome)
            if len(self.fatal_rows) == before:
                raise RunError(
                    f"{describe_death(outcome, describe_rows(rows))} None of the rows does so on its own: try "
                    "fewer --rows-per-chunk."
                )
        return outcome

    def _bisect(self, rows: RowRange, death: WorkerDied) -> None:
        """Find the fatal rows among those that have ended a process together."""
        if rows.row_count == 1:
            self.fatal_rows[rows.row_start] = death.how
            if len(self.fatal_rows) >= _ENOUGH_FATAL_ROWS and len(self.fatal_rows) > self._survivors:
                raise RunError(
                    f"{describe_death(death, describe_rows(rows))} So did {len(self.fatal_rows) - 1} rows before it, "
                    "each on its own: the cause seems to lie outside the rows; --verbose may show it."
                )
            return
        middle = (rows.row_start + rows.row_end) // 2
        for part in (_part(rows, rows.row_start, middle), _part(rows, middle, rows.row_end)):
            outcome = self._run(part)
            if isinstance(outcome, WorkerDied):
                self._bisect(part, outcome)
            else:
                self._survivors += part.row_count
                shutil.rmtree(outcome.folder)

    def _run(self, rows: RowRange) -> ChunkAttempt | WorkerDied:
        if self._worker is None or self._worker not in self.pool:
            self._worker, _ = start_first_worker(self.pool)
        folder = self.attempts / f"isolation-{uuid4().hex}"
        fatal = {row: how for row, how in self.fatal_rows.items() if rows.row_start <= row < rows.row_end}
        return self.pool.run(self._worker, RunRows(rows, self.schemas, str(folder), fatal))


def _part(rows: RowRange, start: int, end: int) -> RowRange:
    inside = tuple(row for row in rows.duplicate_rows if start <= row < end)
    return replace(rows, row_start=start, row_end=end, duplicate_rows=inside)

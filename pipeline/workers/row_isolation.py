"""Finds the rows that end their worker process, so that only they become dead letters."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt, RunRows, WorkerDied
from attribeam.pipeline.failures import describe_death, describe_rows
from attribeam.pipeline.workers.fatal_rows import FatalRowSearch
from attribeam.pipeline.workers.worker_pool import Worker, WorkerPool, start_first_worker
from attribeam.schemas.errors import RunError


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

    def audit(self, rows: RowRange) -> ChunkAttempt:
        """Audit all ``rows``.

        Raises:
            RunError: if no single row is to blame, or so many rows that the cause must lie elsewhere.
        """
        search = FatalRowSearch(
            run=lambda start, end: self._try(_part(rows, start, end)),
            blame=lambda row, how: describe_death(how, describe_rows(_part(rows, row, row + 1))),
        )
        self.fatal_rows = search.fatal
        while isinstance(outcome := self._run(rows), WorkerDied):
            before = len(search.fatal)
            search.search(rows.row_start, rows.row_end, outcome.how)
            if len(search.fatal) == before:
                raise RunError(
                    f"{describe_death(outcome.how, describe_rows(rows))} None of the rows does so on its own: try "
                    "fewer --rows-per-chunk."
                )
        return outcome

    def _try(self, rows: RowRange) -> str | None:
        """How the worker ended on the rows; None if it did not, and then nothing of them stays."""
        outcome = self._run(rows)
        if isinstance(outcome, WorkerDied):
            return outcome.how
        shutil.rmtree(outcome.folder)
        return None

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


def _part(rows: RowRange, start: int, end: int) -> RowRange:
    inside = tuple(row for row in rows.duplicate_rows if start <= row < end)
    return replace(rows, row_start=start, row_end=end, duplicate_rows=inside)

"""What workers of a cluster do with a chunk before and after its rows: take it up, commit it, or isolate it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from apache_beam.metrics import Metrics

from attribeam.logs.files import ArrowStorage
from attribeam.logs.qa_log import QALog
from attribeam.pipeline.chunks.chunk_attempt import read_attempt
from attribeam.pipeline.chunks.chunk_store import ChunkStore
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.pipeline.workers.row_isolation import RowIsolation
from attribeam.pipeline.workers.worker_pool import WorkerPool
from attribeam.schemas.run_manifest import AuditCounts
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.beam_storage import BeamStorage
from attribeam.transforms.row_groups import RowGroup
from attribeam.transforms.write_group import write_group

_MARK_DIGITS = 12


def take_up(chunk: Chunk, store: ChunkStore, isolate: Callable[[Chunk], None]) -> bool:
    """Whether a chunk is to be audited: not if an earlier attempt has committed it, since runners repeat bundles.

    A chunk that an earlier attempt took up and did not commit may have ended its worker, so it is left to ``isolate``.
    """
    if store.is_committed(chunk):
        return False
    if store.was_taken_up(chunk):
        isolate(chunk)
        return False
    store.mark_taken_up(chunk)
    return True


def commit_group(group: RowGroup, store: ChunkStore, settings: AuditSettings, schemas: OutputSchemas) -> None:
    """Write a group of evidence tables, read back what was written, and commit it.

    Raises:
        ReconciliationError, LeakError: as ``read_attempt``.
        OSError: if the output cannot be written.
    """
    with TemporaryDirectory(prefix="attribeam-") as name:
        folder = Path(name)
        write_group(group, folder, schemas.evidence, schemas.dead_letters, schemas.privacy)
        attempt = read_attempt(group.chunk.rows, folder, settings, group.counts, storage=BeamStorage())
        _commit(store, group.chunk, replace(attempt, seconds=max(0.0, time.time() - group.started)))


def commit_isolated(chunk: Chunk, store: ChunkStore, settings: AuditSettings, schemas: OutputSchemas) -> None:
    """Audit one chunk in a child process and commit it; rows that end the child become dead letters.

    A runner of a cluster starts a chunk whose worker ended without a word again, on any machine, and again dies of the
    same row until it gives up. So it is gone about as by the local driver, see ``RowIsolation``.

    Raises:
        RunError: if no single row is to blame, or the child fails.
        DataError: if the log was changed since the audit was planned.
    """
    rows = chunk.rows
    with QALog(rows.file, settings.log_options, BeamStorage(), rows.stamp).opened() as file:
        stamp = ArrowStorage().stamp(rows.file, file)  # as the child sees it
    pool = WorkerPool(settings, verbose=False)
    try:
        with TemporaryDirectory(prefix="attribeam-") as folder:
            _commit(store, chunk, RowIsolation(pool, schemas, Path(folder)).audit(replace(rows, stamp=stamp)))
    finally:
        pool.kill()


def _commit(store: ChunkStore, chunk: Chunk, attempt: ChunkAttempt) -> None:
    store.commit(chunk, attempt, mark=f"-{uuid4().hex[:_MARK_DIGITS]}")
    _count(attempt.counts)


def _count(counts: AuditCounts) -> None:
    """Add a committed chunk to Beam's counters of the run, in the namespace "attribeam"."""
    numbers = {
        "chunks_committed": 1,
        "rows_audited": counts.audited,
        "rows_dead_lettered": counts.dead_lettered,
        "tokens": counts.tokens or 0,
        **{f"spans.{support}": number for support, number in counts.spans.items()},
    }
    for name, number in numbers.items():
        Metrics.counter("attribeam", name).inc(number)

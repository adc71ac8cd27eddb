"""Chunks whose worker ended without a word: audited in a child process, which may die of a row without ending the job.

A runner of a cluster starts such a chunk again, on any machine, and again dies of the same row until it gives up. So a
chunk is marked when it is taken up. Whoever finds the mark of an attempt that was not committed goes about it as the
local driver does after a worker's death, see ``RowIsolation``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from attribeam.logs.files import ArrowStorage
from attribeam.logs.qa_log import QALog
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.engines.group_store import GroupStore
from attribeam.pipeline.workers.row_isolation import RowIsolation
from attribeam.pipeline.workers.worker_pool import WorkerPool
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.beam_storage import BeamStorage
from attribeam.transforms.stage_metrics import count_chunk


def commit_isolated(chunk: Chunk, store: GroupStore, settings: AuditSettings, schemas: OutputSchemas) -> None:
    """Audit one chunk in a child process and commit it; rows that end the child become dead letters.

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
            attempt = RowIsolation(pool, schemas, Path(folder)).audit(replace(rows, stamp=stamp))
            store.commit(chunk, attempt)
            count_chunk(attempt.counts)
    finally:
        pool.kill()

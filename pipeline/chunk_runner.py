"""One chunk through all stages, into an attempt folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from attribeam.logs.files import ArrowStorage
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.chunk_attempt import read_attempt
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.make_evidence import audit_stages
from attribeam.transforms.read_rows import read_rows
from attribeam.transforms.row_groups import RowGroup
from attribeam.transforms.stage_metrics import listening_for_rows, take_stage_seconds
from attribeam.transforms.write_group import write_group


def run_chunk(
    rows: RowRange,
    *,
    settings: AuditSettings,
    schemas: OutputSchemas,
    folder: Path,
    on_rows: Callable[[int], None],
    fatal_rows: Mapping[int, str] | None = None,
) -> ChunkAttempt:
    """Audit the rows into a new ``folder``, and call ``on_rows`` with the number of rows that have finished since.

    ``fatal_rows`` would end this process, so they become dead letters; None before the last try, see ``read_rows``.

    Raises:
        ReconciliationError: if audited rows and dead letters are not exactly the rows of the range.
        LeakError: if a file shows what should be masked.
    """
    started = time.monotonic()
    folder.mkdir(parents=True)
    take_stage_seconds()
    group = read_rows(RowGroup(None, [rows]), settings, ArrowStorage(), fatal_rows)
    for run in audit_stages(settings, schemas.evidence).values():
        group = run(group)
    with listening_for_rows(on_rows):
        write_group(group, folder, schemas.evidence, schemas.dead_letters, schemas.privacy)
    attempt = read_attempt(
        rows, folder, settings, group.counts, storage=ArrowStorage(), last_try=fatal_rows is not None
    )
    return replace(attempt, seconds=time.monotonic() - started, stages=take_stage_seconds())

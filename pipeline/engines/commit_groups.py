"""The ends of the distributed graph: passing over committed chunks, and committing a finished one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from attribeam.pipeline.chunks.chunk_attempt import read_attempt
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.engines.group_store import GroupStore
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.beam_storage import BeamStorage
from attribeam.transforms.row_groups import RowGroup
from attribeam.transforms.stage_metrics import count_chunk
from attribeam.transforms.write_group import write_group


def take_up(chunk: Chunk, store: GroupStore, isolate: Callable[[Chunk], None]) -> bool:
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


def commit_group(group: RowGroup, store: GroupStore, settings: AuditSettings, schemas: OutputSchemas) -> None:
    """Write a group of evidence tables, read back what was written, and commit it.

    Raises:
        ReconciliationError, LeakError: as ``read_attempt``.
        OSError: if the output cannot be written.
    """
    with TemporaryDirectory(prefix="attribeam-") as name:
        folder = Path(name)
        write_group(group, folder, schemas.evidence, schemas.dead_letters, schemas.privacy)
        attempt = read_attempt(group.chunk.rows, folder, settings, group.counts, storage=BeamStorage())
        store.commit(group.chunk, replace(attempt, seconds=max(0.0, time.time() - group.started)))
    count_chunk(attempt.counts)

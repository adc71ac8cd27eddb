"""The ends of the distributed graph: passing over committed chunks, and committing a finished one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import apache_beam as beam

from attribeam.pipeline.chunks.chunk_attempt import read_attempt
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.leak_check import check_leaks
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.pipeline.engines.group_store import GroupStore
from attribeam.pipeline.engines.isolated_groups import commit_isolated
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.beam_storage import BeamStorage
from attribeam.transforms.dead_letters import dead_letter_table
from attribeam.transforms.row_groups import RowGroup, run_bundle
from attribeam.transforms.stage_metrics import count_chunk
from attribeam.transforms.write_evidence import WriteOneFile


class TakeUpGroups(beam.DoFn):
    """Passes groups on, without those that an earlier attempt has committed: a runner may repeat all of a bundle.

    A group that an earlier attempt took up and did not commit may have ended its worker, so it is audited apart.
    """

    def __init__(self, store: GroupStore, settings: AuditSettings, schemas: OutputSchemas) -> None:
        self._store = store
        self._settings = settings
        self._schemas = schemas

    def process(self, group: RowGroup) -> Iterator[RowGroup]:
        if self._store.is_committed(group.chunk):
            return
        if self._store.was_taken_up(group.chunk):
            commit_isolated(self._store, group.chunk, self._settings, self._schemas)
            count_chunk()
            return
        self._store.mark_taken_up(group.chunk)
        yield replace(group, started=time.time())


class CommitGroups(beam.DoFn):
    """Writes groups of evidence tables, reads back what it wrote, and commits it.

    Raises ``ReconciliationError`` if a row of a chunk was neither audited nor dead-lettered, or both, and ``LeakError``
    if a file shows what should be masked.
    """

    def __init__(self, store: GroupStore, settings: AuditSettings, schemas: OutputSchemas) -> None:
        self._store = store
        self._settings = settings
        self._schemas = schemas

    def process(self, group: RowGroup) -> None:
        with TemporaryDirectory(prefix="attribeam-") as folder:
            self._store.commit(group.chunk, self._attempt(group, Path(folder)))
        count_chunk()

    def _attempt(self, group: RowGroup, folder: Path) -> ChunkAttempt:
        schemas, privacy = self._schemas, self._schemas.privacy
        letters = [dead_letter_table(group.letters, schemas.dead_letters)] if group.letters else []
        run_bundle(WriteOneFile(str(folder / "evidence.parquet"), schemas.evidence, privacy), group.rows, [])
        run_bundle(WriteOneFile(str(folder / "dead_letters.parquet"), schemas.dead_letters, privacy), letters, [])
        attempt = read_attempt(group.chunk.rows, folder, schemas, group.counts)
        check_leaks(group.chunk.rows, folder.glob("*.parquet"), self._settings, BeamStorage())
        return replace(attempt, seconds=max(0.0, time.time() - group.started))

"""What a run of a chunk left in its folder: read back, reconciled and digested."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from attribeam.logs.files import LogStorage
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.leak_check import check_leaks
from attribeam.pipeline.chunks.reconciliation import count_rows
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile, ReadingNote
from attribeam.schemas.written_files import file_sha256
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import RowCounts
from attribeam.transforms.write_group import DEAD_LETTER_FILE, EVIDENCE_FILE


def read_attempt(
    rows: RowRange,
    folder: Path,
    settings: AuditSettings,
    counted: RowCounts,
    *,
    storage: LogStorage,
    last_try: bool = False,
) -> ChunkAttempt:
    """The attempt of ``rows`` that lies in ``folder``; its files are on the disk when this returns.

    A ``last_try`` goes on where memory does not suffice to read rows of the log, see ``QALog.outcomes``.

    Raises:
        ReconciliationError: if audited rows and dead letters are not exactly the rows of the range.
        LeakError: if a file shows what should be masked.
    """
    evidence, dead_letters = folder / EVIDENCE_FILE, folder / DEAD_LETTER_FILE
    counts = count_rows([rows], evidence=[str(evidence)], dead_letters=[str(dead_letters)])
    if settings.encodes_rows:
        counts = replace(counts, tokens=counted.tokens, rows_in_windows=counted.rows_in_windows)
    if settings.has_probe:
        counts = replace(counts, rows_unread=counted.rows_unread, rows_asked=counted.rows_asked)
    check_leaks(rows, (evidence, dead_letters), settings, storage, last_try=last_try)
    return ChunkAttempt(
        folder=str(folder),
        evidence=_describe(evidence),
        dead_letters=_describe(dead_letters),
        counts=counts,
        seconds=0.0,
        passage_sample=counted.passage_sample,
        notes=tuple(ReadingNote(note, rows) for note, rows in sorted(counted.notes.items())),
    )


def manifest_of(chunk: Chunk, attempt: ChunkAttempt, *, configuration: str) -> ChunkManifest:
    """The manifest of an attempt whose files lie where they stay, with paths relative to the output directory."""
    return ChunkManifest(
        chunk=chunk.name,
        source_file=chunk.rows.file,
        input_sha256=chunk.input.sha256,
        row_start=chunk.rows.row_start,
        row_end=chunk.rows.row_end,
        configuration=configuration,
        counts=attempt.counts,
        evidence=attempt.evidence,
        dead_letters=attempt.dead_letters,
        seconds=round(attempt.seconds, 3),
        stages=attempt.stages,
        passage_sample=attempt.passage_sample,
        notes=attempt.notes,
    )


def _describe(path: Path) -> OutputFile:
    """Sync a file to disk; returns its name, rows, size and digest."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return OutputFile(path.name, pq.read_metadata(path).num_rows, path.stat().st_size, file_sha256(path))

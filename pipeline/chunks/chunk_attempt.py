"""What a run of a chunk left in its folder: read back, reconciled, digested, and without what is masked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from attribeam.attribution.methods.method import has_own_model
from attribeam.logs.files import LogStorage
from attribeam.logs.privacy.masked_record import record_secrets, texts_in
from attribeam.logs.privacy.redactor import Redactor, without_secrets
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.reconciliation import count_rows
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.schemas import QARecord
from attribeam.schemas.errors import LeakError
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile, ReadingNote
from attribeam.schemas.written_files import file_sha256
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.hide_texts import given_names
from attribeam.transforms.row_groups import RowCounts
from attribeam.transforms.write_group import DEAD_LETTER_FILE, EVIDENCE_FILE

_BATCH_ROWS = 1024


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
    counts = count_rows(rows, evidence=evidence, dead_letters=dead_letters)
    encoded, probed = settings.encodes_rows, has_own_model(settings.method)
    counts = replace(
        counts,
        tokens=counted.tokens if encoded else None,
        rows_in_windows=counted.rows_in_windows if encoded else None,
        rows_unread=counted.rows_unread if probed else None,
        rows_asked=counted.rows_asked if probed else None,
    )
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


def check_leaks(
    rows: RowRange, files: Iterable[Path], settings: AuditSettings, storage: LogStorage, *, last_try: bool = False
) -> None:
    """Refuse files in which a text still shows what masks should hide, or what they hide elsewhere in the same row.

    A ``last_try`` goes on where memory does not suffice to read rows of the log, see ``QALog.outcomes``.

    Raises:
        LeakError: if there is one; the message says where, and never shows it.
    """
    redactor = Redactor(settings.privacy)
    if not settings.privacy.masks:
        return
    log, wanted = QALog(rows.file, settings.log_options, storage), range(rows.row_start, rows.row_end)
    records = log.outcomes(wanted, last_try=last_try)
    secrets = {one.source.source_row: record_secrets(one, redactor) for one in records if isinstance(one, QARecord)}
    for path in sorted(files):
        for column, row, value in _values(path):
            hidden = secrets.get(row, frozenset())
            if any(redactor.mask(text) != text or without_secrets(text, hidden) != text for text in texts_in(value)):
                raise LeakError(
                    f"column {column!r} of {path.name}, made from row {row} of {rows.file!r}, should show nothing that "
                    "is to be masked, but does, so it was not kept; please report it, and leave that row or column out"
                )


def _values(path: Path) -> Iterator[tuple[str, int, object]]:
    """(column, row of the log, value) of everything in a file but our own words and what the user gave."""
    with pq.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if name not in given_names(file.schema_arrow)]
        for batch in file.iter_batches(_BATCH_ROWS):
            rows = batch.column("source_row").to_pylist()
            for name in names:
                yield from ((name, row, value) for row, value in zip(rows, batch.column(name).to_pylist(), strict=True))

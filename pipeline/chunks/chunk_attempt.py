"""What a run of a chunk left in its folder: read back, reconciled, digested, and without what is masked."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribeam.attribution.methods.method import has_own_model
from attribeam.logs.files import LogStorage
from attribeam.logs.privacy import Redactor, record_secrets, texts_in, without_secrets
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.schemas import QARecord, Support
from attribeam.schemas.errors import LeakError, RunError
from attribeam.schemas.evidence_record import COUNTED_COLUMNS, counted_rows
from attribeam.schemas.passage_sample import PassageEnd
from attribeam.schemas.run_manifest import (
    AuditCounts,
    ChunkManifest,
    OutputFile,
    ReadingNote,
    StageSeconds,
    dead_letter_counts,
)
from attribeam.schemas.written_files import file_sha256
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import RowCounts
from attribeam.transforms.write_group import DEAD_LETTER_FILE, EVIDENCE_FILE, given_names

_COUNTED_ROWS = 16_384
_EVIDENCE_COLUMNS = ["source_file", "source_row", *COUNTED_COLUMNS, "support", "claim_kind", "answer_kind"]


class ReconciliationError(RunError):
    """Rows are missing from the output or appear twice; such output is never committed."""


def count_rows(rows: RowRange, *, evidence: Path, dead_letters: Path) -> AuditCounts:
    """Count what became of ``rows`` by reading the written files; takes one byte per row.

    Raises:
        ReconciliationError: if a row is in neither output, in both, or twice in one, or lies outside the range.
    """
    outcomes = np.zeros(rows.row_count, np.uint8)
    spans: Counter[str] = Counter()
    claims: Counter[str] = Counter()
    not_judged: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    for batch in _batches(evidence, _EVIDENCE_COLUMNS):
        firsts = batch.filter(pc.equal(batch.column("span_index"), 0))
        _record_outcomes(firsts, rows, outcomes)
        answers.update(firsts.column("answer_kind").to_pylist())
        spans.update(batch.column("support").to_pylist())
        counted = counted_rows(batch)
        claims.update(counted.column("support").to_pylist())
        unread = counted.filter(pc.equal(counted.column("support"), Support.NOT_JUDGED.value))
        not_judged.update(unread.column("claim_kind").to_pylist())
    for batch in _batches(dead_letters, ["source_file", "source_row", "stage", "reason"]):
        _record_outcomes(batch, rows, outcomes)
        reasons.update(zip(batch.column("stage").to_pylist(), batch.column("reason").to_pylist(), strict=True))
    wrong = np.flatnonzero(outcomes != 1)
    if len(wrong):
        raise ReconciliationError(
            f"rows {rows.row_start} to {rows.row_end} of {rows.file!r}: every row should be audited or dead-lettered "
            f"exactly once, {len(wrong)} are not, the first is row {rows.row_start + int(wrong[0])} with "
            f"{int(outcomes[wrong[0]])} outcomes; please report this"
        )
    return AuditCounts(
        rows=rows.row_count,
        audited=answers.total(),
        dead_letters=dead_letter_counts(reasons),
        spans=dict(sorted(spans.items())),
        claims=dict(sorted(claims.items())),
        not_judged=dict(sorted(not_judged.items())),
        answers=dict(sorted(answers.items())),
    )


def _record_outcomes(batch: pa.RecordBatch, rows: RowRange, outcomes: npt.NDArray[np.uint8]) -> None:
    """Add one outcome to each row of the batch."""
    places = batch.column("source_row").to_numpy() - rows.row_start
    files = pc.unique(batch.column("source_file")).to_pylist()
    if files not in ([], [rows.file]) or ((places < 0) | (places >= rows.row_count)).any():
        raise ReconciliationError(f"the output has rows of {files} that were not asked for; please report this")
    found, times = np.unique(places, return_counts=True)
    outcomes[found] = np.minimum(outcomes[found] + times, 255)


def _batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as parquet:
        yield from parquet.iter_batches(batch_size=_COUNTED_ROWS, columns=columns)


_BATCH_ROWS = 1024


@dataclass(frozen=True, slots=True)
class ChunkAttempt:
    """A chunk that was audited and reconciled but not yet committed; files are relative to ``folder``."""

    folder: str
    evidence: OutputFile
    dead_letters: OutputFile
    counts: AuditCounts
    seconds: float
    stages: tuple[StageSeconds, ...] = ()
    passage_sample: tuple[PassageEnd, ...] = ()
    notes: tuple[ReadingNote, ...] = ()


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

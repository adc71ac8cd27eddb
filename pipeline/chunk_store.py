"""The chunks of an output: what a run of one left, which are committed and may be kept, and how one is committed.

A commit puts the two files of a chunk, and then its manifest, which makes them count. A distributed run gives files
names that no other attempt has and never writes to them again, so a retried or doubled attempt can only leave files
that no manifest names.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribeam.attribution.methods.method import has_own_model
from attribeam.logs.files import LogStorage, WritableStorage, fingerprint_file
from attribeam.logs.privacy import Redactor, record_secrets, texts_in, without_secrets
from attribeam.logs.qa_log import QALog
from attribeam.logs.rows import RowRange
from attribeam.pipeline.input_plan import Chunk
from attribeam.pipeline.output_directory import OWN_FOLDERS, RESULTS
from attribeam.report.audit_directory import CHUNKS, DEAD_LETTERS, EVIDENCE, RUN_MANIFEST, CommittedChunks, in_threads
from attribeam.schemas import QARecord, Support
from attribeam.schemas.errors import LeakError, RunError, SchemaVersionError, UsageError
from attribeam.schemas.evidence_record import COUNTED_COLUMNS, counted_rows
from attribeam.schemas.files import UNFINISHED, file_sha256
from attribeam.schemas.run_manifest import (
    AuditCounts,
    ChunkManifest,
    OutputFile,
    PassageEnd,
    ReadingNote,
    RunManifest,
    RunStatus,
    StageSeconds,
    dead_letter_counts,
)
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import DEAD_LETTER_FILE, EVIDENCE_FILE, RowCounts, unmasked_columns

FOLDERS = (CHUNKS, EVIDENCE, DEAD_LETTERS)
_NAMED_LOGS = 3
_MARK = ".taken_up"
_COUNTED_ROWS = 16_384
_CHECKED_ROWS = 1024
_EVIDENCE_COLUMNS = ["source_file", "source_row", *COUNTED_COLUMNS, "support", "claim_kind", "answer_kind"]


class ReconciliationError(RunError):
    """Rows are missing from the output or appear twice; such output is never committed."""


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

    A ``last_try`` goes on where memory does not suffice to read rows of the log, see ``QALog.outcomes``. Raises
    ``ReconciliationError`` if audited rows and dead letters are not exactly the rows of the range; ``LeakError`` if a
    file shows what should be masked.
    """
    evidence, dead_letters = folder / EVIDENCE_FILE, folder / DEAD_LETTER_FILE
    encoded, probed = settings.encodes_rows, has_own_model(settings.method)
    counts = replace(
        count_rows(rows, evidence=evidence, dead_letters=dead_letters),
        tokens=counted.tokens if encoded else None,
        rows_in_windows=counted.rows_in_windows if encoded else None,
        rows_unread=counted.rows_unread if probed else None,
        rows_asked=counted.rows_asked if probed else None,
    )
    _check_leaks(rows, (dead_letters, evidence), settings, storage, last_try=last_try)
    return ChunkAttempt(
        folder=str(folder),
        evidence=_describe(evidence),
        dead_letters=_describe(dead_letters),
        counts=counts,
        seconds=0.0,
        passage_sample=counted.passage_sample,
        notes=tuple(ReadingNote(note, rows) for note, rows in sorted(counted.notes.items())),
    )


def count_rows(rows: RowRange, *, evidence: Path, dead_letters: Path) -> AuditCounts:
    """Count what became of ``rows`` by reading the written files; takes one byte per row.

    Raises ``ReconciliationError`` if a row is in neither output, in both, or twice in one, or lies outside the range.
    """
    outcomes = np.zeros(rows.row_count, np.uint8)
    reasons: Counter[tuple[str, str]] = Counter()
    spans, claims, not_judged, answers = (Counter[str]() for _ in range(4))
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
    positions = batch.column("source_row").to_numpy() - rows.row_start
    files = pc.unique(batch.column("source_file")).to_pylist()
    if files not in ([], [rows.file]) or ((positions < 0) | (positions >= rows.row_count)).any():
        raise ReconciliationError(f"the output has rows of {files} that were not asked for; please report this")
    written, times = np.unique(positions, return_counts=True)
    outcomes[written] = np.minimum(outcomes[written] + times, 255)


def _batches(path: Path, columns: list[str] | None, rows: int = _COUNTED_ROWS) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=rows, columns=columns)


def _check_leaks(
    rows: RowRange, files: Sequence[Path], settings: AuditSettings, storage: LogStorage, *, last_try: bool
) -> None:
    """Refuse files in which a text still shows what masks should hide, or what they hide elsewhere in the same row."""
    redactor = Redactor(settings.privacy)
    if not settings.privacy.masks:
        return
    log, wanted = QALog(rows.file, settings.log_options, storage), range(rows.row_start, rows.row_end)
    records = [row for row in log.outcomes(wanted, last_try=last_try) if isinstance(row, QARecord)]
    secrets = {record.source.source_row: record_secrets(record, redactor) for record in records}
    for path in files:
        for column, row, value in _values(path):
            hidden = secrets.get(row, frozenset())
            if any(redactor.mask(text) != text or without_secrets(text, hidden) != text for text in texts_in(value)):
                raise LeakError(
                    f"column {column!r} of {path.name}, made from row {row} of {rows.file!r}, should show nothing that "
                    "is to be masked, but does, so it was not kept; please report it, and leave that row or column out"
                )


def _values(path: Path) -> Iterator[tuple[str, int, object]]:
    """(column, row of the log, value) of everything in a file but its ``unmasked_columns``."""
    for batch in _batches(path, None, _CHECKED_ROWS):
        rows = batch.column("source_row").to_pylist()
        for name in batch.schema.names:
            if name not in unmasked_columns(batch.schema):
                yield from ((name, row, value) for row, value in zip(rows, batch.column(name).to_pylist(), strict=True))


def _describe(path: Path) -> OutputFile:
    """Sync a file to disk; returns its name, rows, size and digest."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return OutputFile(path.name, pq.read_metadata(path).num_rows, path.stat().st_size, file_sha256(path))


@dataclass(frozen=True, slots=True)
class ChunkStore:
    """Commits chunks of one configuration below ``root``; picklable, for drivers and for the workers of a cluster."""

    root: str
    configuration: str

    @property
    def storage(self) -> WritableStorage:
        """Where the files lie."""
        if "://" not in self.root:
            return WritableStorage()
        from attribeam.transforms.beam_storage import BeamStorage

        return BeamStorage()

    @property
    def committed(self) -> CommittedChunks:
        """The reader of what is committed."""
        return CommittedChunks(self.root, self.storage)

    def fitting(self, chunks: Sequence[Chunk], *, digests: bool = True) -> tuple[dict[str, ChunkManifest], list[str]]:
        """The manifests by name of the chunks that are finished and fit, and the names of the damaged ones.

        A chunk fits if its input's content, its rows, the configuration and its files are unchanged: their sizes, and
        their SHA-256 where ``digests`` are asked for. It is damaged if its manifest or files are not as they were
        written; after a run that was done, its own manifest tells of chunks that have lost theirs. Changes nothing.
        Raises ``UsageError`` if there are finished chunks of other rows, content or options, or of another schema
        version, which the run would remove; ``OSError`` if the output cannot be read.
        """
        planned = {chunk.name: chunk for chunk in chunks}
        manifests = {**dict.fromkeys(self._recorded()), **self.committed.manifests_by_name()}
        lost = {
            name: manifest
            for name, manifest in manifests.items()
            if name not in planned or (manifest is not None and not self._is_of(manifest, planned[name]))
        }
        if lost:
            raise UsageError(self._refusal(lost))
        storage = self.storage
        sizes = {
            f"{folder}/{name}": size
            for folder in (EVIDENCE, DEAD_LETTERS)
            for name, size in storage.sizes(self.committed.path(folder)).items()
        }

        def is_whole(name: str) -> bool:
            manifest = manifests[name]
            return manifest is not None and all(
                sizes.get(file.path) == file.size_bytes
                and (not digests or fingerprint_file(storage, self.committed.path(file.path))[1] == file.sha256)
                for file in (manifest.evidence, manifest.dead_letters)
            )

        whole = dict(zip(manifests, in_threads(is_whole, manifests), strict=True))
        kept = {name: manifest for name, manifest in manifests.items() if manifest is not None and whole[name]}
        return kept, [name for name in manifests if name not in kept]

    def keep_only(self, kept: Mapping[str, ChunkManifest]) -> None:
        """Remove what other runs and slower attempts left: results, then manifests, then files. Make the folders.

        Raises ``OSError`` if something cannot be removed.
        """
        names = {f"{CHUNKS}/{name}.json" for name in kept}
        names |= {file.path for manifest in kept.values() for file in (manifest.evidence, manifest.dead_letters)}
        listed = (
            f"{folder}/{name}"
            for folder in FOLDERS
            for name in sorted(self.storage.sizes(self.committed.path(folder)))
            if OWN_FOLDERS[folder].fullmatch(name)  # nothing hidden
        )
        removed = [self.committed.path(name) for name in listed if name not in names]
        if removed:
            self.remove_results()
        self.storage.delete(removed)
        for folder in (self.root, self.committed.path(CHUNKS)):
            sizes = self.storage.sizes(folder)
            unfinished = [name for name in sizes if name.endswith(_MARK) or UNFINISHED.fullmatch(name)]
            self.storage.delete([f"{folder.rstrip('/')}/{name}" for name in unfinished])
        self.storage.make_folders([self.committed.path(folder) for folder in FOLDERS])

    def remove_results(self) -> None:
        """Remove the page and the metrics of an earlier run, which are not those of the chunks that are to be.

        Raises ``OSError`` if one cannot be removed.
        """
        self.storage.delete([path for path in map(self.committed.path, RESULTS) if self.storage.exists(path)])

    def put(self, name: str, text: str) -> None:
        """Replace a text file of the output; ``OSError`` if it cannot be written."""
        self.storage.put_text(self.committed.path(name), text)

    def commit(self, chunk: Chunk, attempt: ChunkAttempt, *, mark: str = "") -> ChunkManifest:
        """Move the attempt's files into place, then write the manifest, which makes the chunk exist.

        Attempts that others may double have a ``mark`` in the names of their files; the faster one counts. Raises
        ``OSError`` if the output cannot be written.
        """
        evidence = replace(attempt.evidence, path=f"{EVIDENCE}/{chunk.name}{mark}.parquet")
        dead_letters = replace(attempt.dead_letters, path=f"{DEAD_LETTERS}/{chunk.name}{mark}.parquet")
        for local, file in ((attempt.evidence, evidence), (attempt.dead_letters, dead_letters)):
            self.storage.put_file(self.committed.path(file.path), Path(attempt.folder) / local.path)
        if mark and self.is_committed(chunk):
            self.storage.delete([self.committed.path(file.path) for file in (evidence, dead_letters)])
            return self.committed.read(chunk.name)
        manifest = ChunkManifest(
            chunk=chunk.name,
            source_file=chunk.rows.file,
            input_sha256=chunk.input.sha256,
            row_start=chunk.rows.row_start,
            row_end=chunk.rows.row_end,
            configuration=self.configuration,
            counts=attempt.counts,
            evidence=evidence,
            dead_letters=dead_letters,
            seconds=round(attempt.seconds, 3),
            stages=attempt.stages,
            passage_sample=attempt.passage_sample,
            notes=attempt.notes,
        )
        self.put(f"{CHUNKS}/{chunk.name}.json", manifest.to_json())
        return manifest

    def is_committed(self, chunk: Chunk) -> bool:
        """Whether an attempt of this chunk has been committed; a damaged manifest is none.

        Raises ``OSError`` if the output cannot be read.
        """
        try:
            is_there = self.storage.exists(self.committed.path(CHUNKS, f"{chunk.name}.json"))
            return is_there and self._is_of(self.committed.read(chunk.name), chunk)
        except ValueError:
            return False

    def lost(self, finished: Mapping[str, ChunkManifest]) -> list[str]:
        """Names of the ``finished`` chunks that are no longer there, as where a run on another machine removed them.

        Raises ``OSError`` if a manifest cannot be read.
        """
        held = self.committed.manifests_by_name()
        return [
            name
            for name, done in finished.items()
            if (now := held.get(name)) is None or (now.evidence, now.dead_letters) != (done.evidence, done.dead_letters)
        ]

    def mark_taken_up(self, chunk: Chunk) -> None:
        """Note that an attempt of this chunk has begun; the mark stays until ``keep_only``.

        It is not empty, because Beam cannot write an empty object to S3. Raises ``OSError`` if the output cannot be
        written.
        """
        self.put(f"{CHUNKS}/.{chunk.name}{_MARK}", "taken up\n")

    def was_taken_up(self, chunk: Chunk) -> bool:
        """Whether an attempt of this chunk has begun in this run."""
        return self.storage.exists(self.committed.path(CHUNKS, f".{chunk.name}{_MARK}"))

    def _recorded(self) -> Sequence[str]:
        path = self.committed.path(RUN_MANIFEST)
        try:
            with self.storage.open(path) as file:
                manifest = RunManifest.from_json(file.read(), path)
        except SchemaVersionError:
            raise
        except (OSError, ValueError):
            return ()
        return manifest.chunks if manifest.status is RunStatus.DONE else ()

    def _is_of(self, manifest: ChunkManifest, chunk: Chunk) -> bool:
        """Whether a manifest is that of this chunk: the same rows, content and configuration."""
        return (
            manifest.source_file == chunk.rows.file
            and manifest.input_sha256 == chunk.input.sha256
            and (manifest.row_start, manifest.row_end) == (chunk.rows.row_start, chunk.rows.row_end)
            and manifest.configuration == self.configuration
        )

    def _refusal(self, lost: Mapping[str, ChunkManifest | None]) -> str:
        known = [manifest for manifest in lost.values() if manifest is not None]
        rows, logs = sum(chunk.counts.rows for chunk in known), sorted({chunk.source_file for chunk in known})
        more = f" and {len(logs) - _NAMED_LOGS} more" if len(logs) > _NAMED_LOGS else ""
        named = f" of {', '.join(map(repr, logs[:_NAMED_LOGS]))}{more}" if logs else ""
        return (
            f"--output {self.root!r} holds {len(lost)} finished chunks with {rows:,} rows"
            f"{named}, first {min(lost)}, that this run would remove: their logs are not in "
            "--input at the same place, or have changed, or --rows-per-chunk, another option or a version is not the "
            "same. Start the same command as before, choose another --output, or give --overwrite to audit all rows "
            "again"
        )

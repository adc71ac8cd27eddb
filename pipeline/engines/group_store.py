"""The output of a distributed run: chunks that workers commit, on any of Beam's file systems.

A worker writes the two files of a chunk under names that no other attempt has, and then its manifest, which makes them
count. Files are never written to again, so a retried or doubled attempt can only leave files that no manifest names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from apache_beam.io.filesystems import FileSystems

from attribeam.pipeline.chunks.chunk_attempt import manifest_of
from attribeam.pipeline.chunks.finished_chunks import FinishedChunks, is_of
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.output_directory import OWN_FOLDERS, RESULTS, OutputDirectory, kept_names
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.report.audit_directory import CHUNKS, DEAD_LETTERS, EVIDENCE, CommittedChunks
from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import ChunkManifest
from attribeam.schemas.written_files import UNFINISHED
from attribeam.transforms.beam_storage import BeamStorage, delete_files, make_folders, put_file, put_text

_FOLDERS = (CHUNKS, EVIDENCE, DEAD_LETTERS)
_MARK_DIGITS = 12
_MARK = ".taken_up"


@dataclass(frozen=True, slots=True)
class GroupStore:
    """Commits chunks of one configuration below ``root``; picklable, for the driver and for workers."""

    root: str
    configuration: str

    @property
    def committed(self) -> CommittedChunks:
        """The reader of what is committed."""
        return CommittedChunks(self.root, BeamStorage())

    def fitting(self, chunks: Sequence[Chunk], *, digests: bool) -> tuple[dict[str, ChunkManifest], FinishedChunks]:
        """The manifests of the chunks that are finished and fit, and what was found of the others.

        Raises:
            UsageError, OSError: as ``FinishedChunks.fitting``.
        """
        finished = FinishedChunks(self.committed, configuration=self.configuration)
        return finished.fitting(chunks, digests=digests), finished

    def keep_only(self, kept: Mapping[str, ChunkManifest]) -> None:
        """Remove what other runs and slower attempts left: results, then manifests, then files. Make the folders.

        Raises:
            OSError: if something cannot be removed.
        """
        names = kept_names(kept)
        removed = [self.committed.path(one) for one in _own_files(self.committed) if one not in names]
        if removed:
            self.remove_results()
        delete_files(removed)
        for folder in (self.root, self.committed.path(CHUNKS)):
            there = self.committed.storage.sizes(folder)
            unfinished = [name for name in there if name.endswith(_MARK) or UNFINISHED.fullmatch(name)]
            delete_files([f"{folder.rstrip('/')}/{name}" for name in unfinished])
        make_folders([self.committed.path(folder) for folder in _FOLDERS])

    def remove_results(self) -> None:
        """Remove the page and the metrics of an earlier run, which are not those of the chunks that are to be.

        Raises:
            OSError: if one cannot be removed.
        """
        delete_files([path for path in map(self.committed.path, RESULTS) if FileSystems.exists(path)])

    def is_committed(self, chunk: Chunk) -> bool:
        """Whether an attempt of this chunk has been committed; a damaged manifest is none.

        Raises:
            OSError: if the output cannot be read.
        """
        try:
            return FileSystems.exists(self.committed.path(CHUNKS, f"{chunk.name}.json")) and is_of(
                self.committed.read(chunk.name), chunk, self.configuration
            )
        except ValueError:
            return False

    def mark_taken_up(self, chunk: Chunk) -> None:
        """Note that an attempt of this chunk has begun; the mark stays until ``keep_only``.

        It is not empty, because Beam cannot write an empty object to S3.

        Raises:
            OSError: if the output cannot be written.
        """
        put_text(self._mark(chunk), "taken up\n")

    def was_taken_up(self, chunk: Chunk) -> bool:
        """Whether an attempt of this chunk has begun in this run."""
        return bool(FileSystems.exists(self._mark(chunk)))

    def _mark(self, chunk: Chunk) -> str:
        return self.committed.path(CHUNKS, f".{chunk.name}{_MARK}")

    def commit(self, chunk: Chunk, attempt: ChunkAttempt) -> None:
        """Copy the attempt's files into place, then write the manifest, unless another attempt was faster.

        Raises:
            OSError: if the output cannot be written.
        """
        name = f"{chunk.name}-{uuid4().hex[:_MARK_DIGITS]}"
        placed = replace(
            attempt,
            evidence=replace(attempt.evidence, path=f"{EVIDENCE}/{name}.parquet"),
            dead_letters=replace(attempt.dead_letters, path=f"{DEAD_LETTERS}/{name}.parquet"),
        )
        files = ((attempt.evidence, placed.evidence), (attempt.dead_letters, placed.dead_letters))
        for local, file in files:
            put_file(self.committed.path(file.path), Path(attempt.folder) / local.path)
        if self.is_committed(chunk):
            delete_files([self.committed.path(file.path) for _, file in files])
            return
        manifest = manifest_of(chunk, placed, configuration=self.configuration)
        put_text(self.committed.path(CHUNKS, f"{chunk.name}.json"), manifest.to_json())


def check_output(root: str) -> None:
    """Refuse an output whose folders hold what this run must not remove; changes nothing.

    Raises:
        UsageError: if there is something that no audit writes.
        OSError: if the output cannot be read.
    """
    if "://" not in root:
        OutputDirectory(Path(root)).check_foreign()
        return
    committed = CommittedChunks(root, BeamStorage())
    for folder in _FOLDERS:
        for name in committed.storage.sizes(committed.path(folder)):
            if not OWN_FOLDERS[folder].fullmatch(name) and not name.startswith("."):
                raise UsageError(f"--output holds {committed.path(folder, name)!r}, which no audit wrote; move it away")


def _own_files(committed: CommittedChunks) -> Iterator[str]:
    """What audits wrote, relative to the root: manifests, then files; nothing hidden."""
    for folder in _FOLDERS:
        for name in sorted(committed.storage.sizes(committed.path(folder))):
            if OWN_FOLDERS[folder].fullmatch(name):
                yield f"{folder}/{name}"

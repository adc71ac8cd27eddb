"""The finished chunks of a local run: which of them are kept, and how one is committed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from attribeam.logs.files import ArrowStorage
from attribeam.pipeline.chunks.chunk_attempt import manifest_of
from attribeam.pipeline.chunks.finished_chunks import FinishedChunks
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.output_directory import OutputDirectory, write_atomically
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.report.audit_directory import CommittedChunks
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile
from attribeam.schemas.written_files import sync_folder


class ChunkStore:
    """Commits chunks of one configuration; only for the driver, which holds the directory's lock."""

    def __init__(self, directory: OutputDirectory, *, configuration: str) -> None:
        self._directory = directory
        self.configuration = configuration
        self._committed = CommittedChunks(str(directory.root), ArrowStorage())
        self._finished = FinishedChunks(self._committed, configuration=configuration)

    @property
    def damaged(self) -> list[str]:
        """Names of the chunks that would have been kept, had their files been as they were written."""
        return self._finished.damaged

    def fitting(self, chunks: Sequence[Chunk]) -> dict[str, ChunkManifest]:
        """The manifests by name of the chunks that are finished and fit; changes nothing.

        Raises:
            UsageError, OSError: as ``FinishedChunks.fitting``.
        """
        return self._finished.fitting(chunks)

    def keep_only(self, kept: Mapping[str, ChunkManifest]) -> None:
        """Remove all chunks but ``kept``, and what was not finished.

        Raises:
            OSError: if something cannot be removed.
        """
        self._directory.remove_attempts()
        self._directory.remove_chunks_but(kept)

    def lost(self, finished: Mapping[str, ChunkManifest]) -> list[str]:
        """Names of the ``finished`` chunks that are no longer there, as where a run on another machine removed them.

        Raises:
            OSError: if a manifest cannot be read.
        """
        there = self._committed.manifests_by_name()
        return [
            name
            for name, one in finished.items()
            if (now := there.get(name)) is None or (now.evidence, now.dead_letters) != (one.evidence, one.dead_letters)
        ]

    def commit(self, chunk: Chunk, attempt: ChunkAttempt) -> ChunkManifest:
        """Move the attempt's files into place, then write the manifest, which makes the chunk exist."""
        evidence = self._move(attempt, attempt.evidence, self._directory.evidence, chunk)
        dead_letters = self._move(attempt, attempt.dead_letters, self._directory.dead_letters, chunk)
        placed = replace(attempt, evidence=evidence, dead_letters=dead_letters)
        manifest = manifest_of(chunk, placed, configuration=self.configuration)
        write_atomically(self._directory.chunks / f"{chunk.name}.json", manifest.to_json())
        shutil.rmtree(attempt.folder)
        return manifest

    def _move(self, attempt: ChunkAttempt, file: OutputFile, folder: Path, chunk: Chunk) -> OutputFile:
        target = folder / f"{chunk.name}.parquet"
        (Path(attempt.folder) / file.path).replace(target)
        sync_folder(folder)
        return replace(file, path=target.relative_to(self._directory.root).as_posix())

"""The finished chunks of a local run: which of them are kept, and how one is committed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attribeam.logs.files import ArrowStorage
from attribeam.pipeline.chunks.chunk_attempt import manifest_of
from attribeam.pipeline.chunks.finished_chunks import FinishedChunks
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.output_directory import OutputDirectory, sync_folder, write_atomically
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.report.committed_chunks import CommittedChunks
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile


class ChunkStore:
    """Commits chunks of one configuration; only for the driver, which holds the directory's lock."""

    def __init__(self, directory: OutputDirectory, *, configuration: str) -> None:
        self._directory = directory
        self.configuration = configuration
        committed = CommittedChunks(str(directory.root), ArrowStorage())
        self._finished = FinishedChunks(committed, configuration=configuration)

    @property
    def damaged(self) -> list[str]:
        """Names of the chunks that would have been kept, had their files been as they were written."""
        return self._finished.damaged

    @property
    def foreign(self) -> list[str]:
        """Names of the finished chunks of an earlier run that this run has no place for."""
        return self._finished.foreign

    def keep_finished(self, chunks: Sequence[Chunk], *, overwrite: bool) -> dict[str, ChunkManifest]:
        """Keep the chunks that are finished and fit, and remove all others; returns the manifests by name.

        Raises:
            UsageError: if all finished chunks belong to another input or configuration; nothing was removed.
        """
        finished = {} if overwrite else self._finished.fitting(chunks)
        self._directory.remove_chunks_but(finished)
        return finished

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

"""The finished chunks of a local run: which of them fit, and how one is committed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attribeam.pipeline.input_plan import Chunk
from attribeam.pipeline.output_directory import (
    OWN_MANIFEST,
    OutputDirectory,
    file_sha256,
    own_paths,
    sync_folder,
    write_atomically,
)
from attribeam.pipeline.worker_messages import ChunkAttempt
from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile


class ChunkStore:
    """Commits chunks of one configuration; only for the driver, which holds the directory's lock."""

    def __init__(self, directory: OutputDirectory, *, configuration: str) -> None:
        self._directory = directory
        self.configuration = configuration
        self.damaged: list[str] = []

    def keep_finished(self, chunks: Sequence[Chunk], *, overwrite: bool) -> dict[str, ChunkManifest]:
        """Keep the chunks that are finished and fit, and remove all others; returns the manifests by name.

        A chunk fits if its input's content, its rows, the configuration and the bytes of its files are unchanged.
        ``damaged`` names chunks that fit except for their files.

        Raises:
            UsageError: if all finished chunks belong to another input or configuration; nothing was removed.
        """
        if not overwrite:
            self._refuse_another_audit(chunks)
        finished = {} if overwrite else self._finished(chunks)
        self._directory.remove_chunks_but(finished)
        return finished

    def _refuse_another_audit(self, chunks: Sequence[Chunk]) -> None:
        contents = {chunk.input.sha256 for chunk in chunks}
        paths = own_paths(self._directory.chunks, OWN_MANIFEST)
        there = [found for path in paths if (found := self._read(path.stem)) is not None]
        if there and not any(
            found.configuration == self.configuration and found.input_sha256 in contents for found in there
        ):
            raise UsageError(
                f"--output {str(self._directory.root)!r} holds {len(there)} finished chunks of another input, other "
                "options or versions; choose another --output, or give --overwrite to delete them"
            )

    def commit(self, chunk: Chunk, attempt: ChunkAttempt) -> ChunkManifest:
        """Move the attempt's files into place, then write the manifest, which makes the chunk exist."""
        manifest = ChunkManifest(
            chunk=chunk.name,
            source_file=chunk.rows.file,
            input_sha256=chunk.input.sha256,
            row_start=chunk.rows.row_start,
            row_end=chunk.rows.row_end,
            configuration=self.configuration,
            counts=attempt.counts,
            evidence=self._move(attempt, attempt.evidence, self._directory.evidence, chunk),
            dead_letters=self._move(attempt, attempt.dead_letters, self._directory.dead_letters, chunk),
            seconds=round(attempt.seconds, 3),
            stages=attempt.stages,
        )
        write_atomically(self._directory.chunks / f"{chunk.name}.json", manifest.to_json())
        shutil.rmtree(attempt.folder)
        return manifest

    def _move(self, attempt: ChunkAttempt, file: OutputFile, folder: Path, chunk: Chunk) -> OutputFile:
        target = folder / f"{chunk.name}.parquet"
        (Path(attempt.folder) / file.path).replace(target)
        sync_folder(folder)
        return replace(file, path=target.relative_to(self._directory.root).as_posix())

    def _finished(self, chunks: Sequence[Chunk]) -> dict[str, ChunkManifest]:
        manifests = ((chunk, self._read(chunk.name)) for chunk in chunks)
        return {chunk.name: found for chunk, found in manifests if found is not None and self._fits(chunk, found)}

    def _read(self, name: str) -> ChunkManifest | None:
        path = self._directory.chunks / f"{name}.json"
        try:
            return ChunkManifest.from_json(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def _fits(self, chunk: Chunk, manifest: ChunkManifest) -> bool:
        same = (
            manifest.source_file == chunk.rows.file
            and manifest.input_sha256 == chunk.input.sha256
            and (manifest.row_start, manifest.row_end) == (chunk.rows.row_start, chunk.rows.row_end)
            and manifest.configuration == self.configuration
        )
        whole = same and self._is_as_written(manifest.evidence) and self._is_as_written(manifest.dead_letters)
        if same and not whole:
            self.damaged.append(chunk.name)
        return whole

    def _is_as_written(self, file: OutputFile) -> bool:
        path = self._directory.root / file.path
        try:
            return path.stat().st_size == file.size_bytes and file_sha256(path) == file.sha256
        except OSError:
            return False

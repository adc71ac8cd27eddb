"""The chunks of one output directory: which are finished, and how an attempt becomes one of them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from attribeam.pipeline.failures import UsageError
from attribeam.pipeline.input_plan import Chunk
from attribeam.pipeline.output_directory import OutputDirectory, sync_folder, write_atomically
from attribeam.pipeline.worker_messages import ChunkAttempt
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile


class ChunkStore:
    """Commits chunks under one configuration; only the driver, which holds the directory's lock, may use it."""

    def __init__(self, directory: OutputDirectory, *, configuration: str) -> None:
        self._directory = directory
        self._configuration = configuration

    def keep_finished(self, chunks: Sequence[Chunk], *, overwrite: bool) -> dict[str, ChunkManifest]:
        """The manifests of chunks that are finished and fit; everything else that a run wrote is removed.

        A chunk fits if its input's content, its rows, the configuration, and the size of its files are what they were.

        Raises:
            UsageError: if finished chunks are there and all are of other input or configuration; nothing was removed.
        """
        if not overwrite:
            self._refuse_another_audit(chunks)
        finished = {} if overwrite else self._finished(chunks)
        kept = {f"{name}.json" for name in finished}
        for path in self._directory.chunks.iterdir():
            if path.name not in kept:
                path.unlink()
        kept = {f"{name}.parquet" for name in finished}
        for folder in (self._directory.evidence, self._directory.dead_letters):
            for path in folder.glob("*.parquet"):
                if path.name not in kept:
                    path.unlink()
        return finished

    def _refuse_another_audit(self, chunks: Sequence[Chunk]) -> None:
        contents = {chunk.input.sha256 for chunk in chunks}
        there = [found for path in self._directory.chunks.iterdir() if (found := self._read(path.stem)) is not None]
        if there and not any(
            found.configuration == self._configuration and found.input_sha256 in contents for found in there
        ):
            raise UsageError(
                f"--output {str(self._directory.root)!r} holds {len(there)} finished chunks of another input, other "
                "options or versions; choose another --output, or give --overwrite to lose them"
            )

    def commit(self, chunk: Chunk, attempt: ChunkAttempt) -> ChunkManifest:
        """Move the attempt's verified files to their place; the manifest, written last, makes the chunk exist."""
        manifest = ChunkManifest(
            chunk=chunk.name,
            source_file=chunk.rows.file,
            input_sha256=chunk.input.sha256,
            row_start=chunk.rows.row_start,
            row_end=chunk.rows.row_end,
            configuration=self._configuration,
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
            and manifest.configuration == self._configuration
        )
        return same and self._is_there(manifest.evidence) and self._is_there(manifest.dead_letters)

    def _is_there(self, file: OutputFile) -> bool:
        path = self._directory.root / file.path
        return path.is_file() and path.stat().st_size == file.size_bytes

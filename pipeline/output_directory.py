"""The output directory of an audit: its layout, its lock, and its finished chunks.

This module imports no library.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile, RunManifest, RunStatus

if TYPE_CHECKING:
    from attribeam.pipeline.input_plan import Chunk
    from attribeam.pipeline.worker_messages import ChunkAttempt

MARKER = "_attribeam"
OWN_PARQUET = re.compile(r"\d{5,}-[A-Za-z0-9._-]+-r\d{10}\.parquet|part-\d{5}-of-\d{5}\.parquet")
_OWN_MANIFEST = re.compile(r"\d{5,}-[A-Za-z0-9._-]+-r\d{10}\.json(\.new)?")
_OWN_ATTEMPT = re.compile(r".+-[0-9a-f]{32}")


class OutputDirectory:
    """The paths of one audit: ``evidence/``, ``dead_letters/``, ``run_manifest.json`` and working folders."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.evidence = root / "evidence"
        self.dead_letters = root / "dead_letters"
        self.chunks = root / "_chunks"
        self.attempts = root / "_attempts"
        self.run_manifest = root / "run_manifest.json"
        self.folders = (self.evidence, self.dead_letters, self.chunks, self.attempts)

    def check(self) -> None:
        """Refuse a directory that holds other things than audits write; changes nothing.

        Raises:
            UsageError: if there is something else; the message names it.
        """
        if self.root.exists() and not self.root.is_dir():
            raise UsageError(f"--output should be a directory, but {str(self.root)!r} is a file")
        if not self.root.exists() or not any(self.root.iterdir()):
            return
        if not (self.root / MARKER).is_file():
            raise UsageError(
                f"--output should be empty, new, or the directory of an earlier audit, but {str(self.root)!r} holds "
                "other files; choose another directory"
            )
        for foreign in self._foreign_files():
            raise UsageError(f"--output holds {str(foreign)!r}, which no audit wrote; move it away")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the directory and hold its lock, which ends with this process at the latest.

        Raises:
            UsageError: if another audit holds the lock, or the directory holds other things than audits write.
        """
        self.check()
        for folder in (self.root, *self.folders):
            folder.mkdir(parents=True, exist_ok=True)
            if folder == self.root:
                (self.root / MARKER).touch()
        with (self.root / MARKER).open("r+", encoding="utf-8") as marker:
            try:
                fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"another audit is writing to {str(self.root)!r} ({marker.read().strip() or 'just started'}); "
                    "wait for it to end, or choose another --output"
                ) from None
            marker.truncate(0)
            marker.write(f"attribeam audit, process {os.getpid()} on {socket.gethostname()}\n")
            marker.flush()
            yield

    def earlier_manifest(self) -> RunManifest | None:
        """The run manifest of an earlier run; None if there is no readable one."""
        try:
            return RunManifest.from_json(self.run_manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def is_done(self) -> bool:
        """Whether an earlier run is done."""
        manifest = self.earlier_manifest()
        return manifest is not None and manifest.status is RunStatus.DONE

    def remove_attempts(self) -> None:
        """Remove the unfinished work of interrupted runs."""
        for attempt in _own_paths(self.attempts, _OWN_ATTEMPT):
            shutil.rmtree(attempt)

    def remove_working_folders(self) -> None:
        """Remove the folder of the attempts, which readers do not need, unless it holds a hidden file."""
        self.remove_attempts()
        with suppress(OSError):
            self.attempts.rmdir()

    def remove_chunks_but(self, kept: Collection[str]) -> None:
        """Remove all chunks but ``kept``: first the manifests, then the files."""
        for folder, pattern in ((self.chunks, _OWN_MANIFEST), *((one, OWN_PARQUET) for one in self.folders[:2])):
            for path in _own_paths(folder, pattern):
                if path.name.removesuffix(path.suffix) not in kept:
                    path.unlink()

    def _foreign_files(self) -> Iterator[Path]:
        patterns = (OWN_PARQUET, OWN_PARQUET, _OWN_MANIFEST, _OWN_ATTEMPT)
        for folder, pattern in zip(self.folders, patterns, strict=True):
            if folder.exists() and not folder.is_dir():
                yield folder
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                own = pattern.fullmatch(path.name) and path.is_dir() == (folder == self.attempts)
                if not own and not path.name.startswith("."):
                    yield path


def _own_paths(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """What audits wrote into a folder; never hidden files or folders, such as those of a file manager."""
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and not path.name.startswith("."))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal; about 0.7 seconds of CPU time per GB."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Replace a text file, so that readers see either the old or the new one, even after a power cut."""
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        paths = _own_paths(self._directory.chunks, _OWN_MANIFEST)
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

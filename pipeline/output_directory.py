"""The directory that an audit owns: its layout, its marker, and the lock that keeps two audits apart."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attribeam.pipeline.failures import UsageError

MARKER = "_attribeam"
OWN_PARQUET = re.compile(r"\d{5,}-[A-Za-z0-9._-]+-r\d{10}\.parquet|part-\d{5}-of-\d{5}\.parquet")
_OWN_MANIFEST = re.compile(r"\d{5,}-[A-Za-z0-9._-]+-r\d{10}\.json(\.new)?")


class OutputDirectory:
    """Paths of one audit's output: ``evidence/``, ``dead_letters/``, ``run_manifest.json`` and what it works with."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.evidence = root / "evidence"
        self.dead_letters = root / "dead_letters"
        self.chunks = root / "_chunks"
        self.attempts = root / "_attempts"
        self.run_manifest = root / "run_manifest.json"

    def check(self) -> None:
        """Refuse a directory that holds what no audit wrote; changes nothing.

        Raises:
            UsageError: if there is something that is not ours.
        """
        if self.root.exists() and not self.root.is_dir():
            raise UsageError(f"--output should be a directory, {str(self.root)!r} is a file")
        if not self.root.exists() or not any(self.root.iterdir()):
            return
        if not (self.root / MARKER).is_file():
            raise UsageError(
                f"--output should be a new or empty directory or that of an earlier audit, {str(self.root)!r} holds "
                "other files; choose another directory"
            )
        for foreign in self._foreign_files():
            raise UsageError(f"--output holds {str(foreign)!r}, which no audit wrote; move it away")

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Make the directory ours and hold its lock; a lock dies with its process, however that ends.

        Raises:
            UsageError: if another audit holds it, or there is something that is not ours.
        """
        self.check()
        for folder in (self.root, self.evidence, self.dead_letters, self.chunks, self.attempts):
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

    def remove_attempts(self) -> None:
        """Remove what interrupted runs left."""
        for attempt in self.attempts.iterdir():
            shutil.rmtree(attempt)

    def remove_working_folders(self) -> None:
        """Remove the folder of the attempts; only what a reader needs stays."""
        shutil.rmtree(self.attempts)

    def _foreign_files(self) -> Iterator[Path]:
        for folder, pattern in (
            (self.evidence, OWN_PARQUET),
            (self.dead_letters, OWN_PARQUET),
            (self.chunks, _OWN_MANIFEST),
        ):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if not path.name.startswith(".") and not pattern.fullmatch(path.name):
                    yield path


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old or the whole new one, even after a power cut."""
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

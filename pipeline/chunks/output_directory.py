"""The output directory of an audit: its layout and its lock.

This module imports no library.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from attribeam.report.private_files import take_rights
from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import ChunkManifest, RunManifest, RunStatus

MARKER = "_attribeam"
REPORT_PAGE, METRICS_JSON, METRICS_PROM = "report.html", "metrics.json", "metrics.prom"
RESULTS = (REPORT_PAGE, METRICS_JSON, METRICS_PROM)
"""What a run writes at its end, about all chunks."""

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_CHUNK = r"\d{5,}-[A-Za-z0-9._-]+-r\d{10}"
OWN_PARQUET = re.compile(rf"{_CHUNK}(-[0-9a-f]{{12}})?\.parquet|part-\d{{5}}-of-\d{{5}}\.parquet")
"""Names of evidence and dead letters. A distributed run adds a mark of the attempt; earlier versions numbered them."""

OWN_MANIFEST = re.compile(rf"{_CHUNK}(-[0-9a-f]{{12}})?\.json(\.new)?")
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
            UsageError: if another audit holds the lock, the directory holds other things than audits write, or it
                cannot be written to.
            OSError: if the disk is full.
        """
        with self._claimed() as marker:
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

    def _claimed(self) -> TextIO:
        """Check and create the directory and its folders; returns the open file that the lock is on."""
        try:
            self.check()
            for folder in (self.root, *self.folders):
                folder.mkdir(parents=True, exist_ok=True)
                if folder == self.root:
                    (self.root / MARKER).touch()
            return (self.root / MARKER).open("r+", encoding="utf-8")
        except OSError as error:
            if error.errno in FULL_DISK:
                raise
            reason = error.strerror or str(error)
            raise UsageError(
                f"--output {str(self.root)!r} cannot be written to: {reason}; make it writable, or choose another "
                "directory"
            ) from error

    def take_rights(self, umask: str) -> None:
        """Take the rights that ``umask`` denies from what earlier runs wrote, the directory itself included."""
        inside = (path for folder in self.folders if folder.is_dir() for path in folder.rglob("*"))
        take_rights([self.root, *self.root.iterdir(), *inside], umask)

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
        for attempt in own_paths(self.attempts, _OWN_ATTEMPT):
            shutil.rmtree(attempt)

    def remove_working_folders(self) -> None:
        """Remove the folder of the attempts, which readers do not need, unless it holds a hidden file."""
        self.remove_attempts()
        with suppress(OSError):
            self.attempts.rmdir()

    def remove_chunks_but(self, kept: Mapping[str, ChunkManifest]) -> None:
        """Remove all chunks but ``kept``, by name: first the manifests, then the files.

        If an earlier run was done, its manifest says "running" before anything is removed. Its results go first.

        Raises:
            OSError: if something cannot be removed, or the manifest not be changed.
        """
        names = kept_names(kept)
        wanted = ((self.chunks, OWN_MANIFEST), *((one, OWN_PARQUET) for one in self.folders[:2]))
        paths = [path for folder, pattern in wanted for path in own_paths(folder, pattern)]
        removed = [path for path in paths if f"{path.parent.name}/{path.name}" not in names]
        if removed:
            self._replace_status(RunStatus.DONE, RunStatus.RUNNING)
            self.remove_results()
        for path in removed:
            path.unlink()

    def remove_results(self) -> None:
        """Remove the page and the metrics of an earlier run, which are not those of the chunks that are to be.

        Raises:
            OSError: if one cannot be removed.
        """
        for name in RESULTS:
            (self.root / name).unlink(missing_ok=True)

    def end_running(self, status: RunStatus) -> None:
        """Let a manifest that says "running" say how the run ended, as far as it can be written."""
        with suppress(OSError):
            self._replace_status(RunStatus.RUNNING, status)

    def _replace_status(self, old: RunStatus, new: RunStatus) -> None:
        """Change the status of a manifest that has the ``old`` one; in place where a full disk holds no second one."""
        manifest = self.earlier_manifest()
        if manifest is None or manifest.status is not old:
            return
        try:
            write_atomically(self.run_manifest, replace(manifest, status=new).to_json())
        except OSError:
            replace_status(self.run_manifest, new)

    def _foreign_files(self) -> Iterator[Path]:
        patterns = (OWN_PARQUET, OWN_PARQUET, OWN_MANIFEST, _OWN_ATTEMPT)
        for folder, pattern in zip(self.folders, patterns, strict=True):
            if folder.exists() and not folder.is_dir():
                yield folder
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                own = pattern.fullmatch(path.name) and path.is_dir() == (folder == self.attempts)
                if not own and not path.name.startswith("."):
                    yield path


def kept_names(kept: Mapping[str, ChunkManifest]) -> set[str]:
    """The files of committed chunks, relative to the output directory: of each its manifest and its two files."""
    manifests = {f"_chunks/{name}.json" for name in kept}
    return manifests | {file.path for one in kept.values() for file in (one.evidence, one.dead_letters)}


def own_paths(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """What audits wrote into a folder; never hidden files or folders, such as those of a file manager."""
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name) and not path.name.startswith("."))


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


def replace_status(path: Path, status: RunStatus) -> None:
    """Change the status of a manifest in place, keeping its length, which needs no free space.

    Raises:
        OSError, ValueError: if there is no readable manifest.
    """
    old = path.read_bytes()
    fields = json.loads(old) | {"status": status}
    with path.open("r+b") as file:
        file.write(json.dumps(fields, ensure_ascii=False).encode().ljust(len(old)))


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Removes old audits from a folder: only whole output directories of audits that do not run, and nothing else.

What each audit found stays as a line of ``removed_audits.jsonl``, so that ``attribeam history`` still shows it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

from attribeam.pipeline.chunks.output_directory import MARKER, RESULTS, OutputDirectory
from attribeam.report.audit_history import REMOVED_AUDITS, AuditEntry, audit_folders, read_entry
from attribeam.schemas.errors import RunError
from attribeam.schemas.run_manifest import RunStatus

_FILES = (MARKER, "run_manifest.json", *RESULTS)
_OWN_FILE = re.compile("|".join(rf"{re.escape(name)}(\.new)?|\.{re.escape(name)}\.partial" for name in _FILES))
_OWN_SUFFIXES = (".parquet", ".json", ".new")
_RENAMED = re.compile(r"\.removed-.+-[0-9a-f]{32}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept: the newest ``audits`` finished ones and all that are younger, and those of the last ``days``.

    Where both are given, an audit stays if either keeps it. The newest finished audit stays always.
    """

    audits: int | None = None
    days: int | None = None

    def oldest_kept(self, finished: Sequence[datetime], now: datetime) -> datetime | None:
        """What started at this moment or later is kept, by the times of the finished audits; None if everything is."""
        if not finished or (self.audits is not None and len(finished) < self.audits):
            return None
        limits = [max(finished)]
        if self.audits is not None:
            limits.append(sorted(finished)[-self.audits])
        if self.days is not None:
            limits.append(now - timedelta(days=self.days))
        return min(limits)


@dataclass(frozen=True, slots=True)
class AgedAudit:
    """An audit that retention does not keep."""

    folder: Path
    entry: AuditEntry


def aged_audits(root: Path, retention: Retention, now: datetime) -> tuple[list[AgedAudit], int]:
    """The audits of a folder that are not kept, oldest first, and the number of all.

    Raises:
        UsageError: if there is no such folder, or it is itself an audit.
        RunError: if it cannot be read.
    """
    found = [AgedAudit(folder, read_entry(folder)) for folder in audit_folders(root)]
    oldest = retention.oldest_kept([one.entry.started_at for one in found if one.entry.is_done], now)
    aged = [one for one in found if oldest is not None and one.entry.started_at < oldest]
    return sorted(aged, key=lambda one: (one.entry.started_at, one.entry.name)), len(found)


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; links are not followed."""
    return sum(path.lstat().st_size for path in _everything(folder))


def why_kept(aged: AgedAudit) -> str | None:
    """Why an aged audit must not be removed; None if it may be."""
    with _held(aged.folder) as free:
        return _why_kept(aged) if free else _RUNS


def remove_audit(root: Path, aged: AgedAudit) -> str | None:
    """Remove an aged audit; returns why it was kept, if it was.

    Its entry is written first, then its folder is renamed, then deleted: no half of an audit is ever left under its
    name, and the next removal finishes what one that was killed began.

    Raises:
        OSError: if it cannot be removed; the message names it.
    """
    try:
        with _held(aged.folder) as free:
            if not free:
                return _RUNS
            if (reason := _why_kept(aged)) is not None:
                return reason
            _remember(root, aged.entry)
            renamed = root / f".removed-{aged.folder.name[:150]}-{uuid4().hex}"
            aged.folder.rename(renamed)
            shutil.rmtree(renamed)
    except OSError as error:
        raise OSError(f"{str(aged.folder)!r} cannot be removed: {error.strerror or error}") from error
    return None


def finish_removals(root: Path) -> None:
    """Delete what a removal that was killed had renamed already.

    Raises:
        RunError: if it cannot be deleted.
    """
    try:
        for path in root.iterdir():
            if _RENAMED.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
    except OSError as error:
        raise RunError(f"what is left of removed audits in {str(root)!r} cannot be deleted: {error}") from error


_RUNS = "it is running"


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Hold the lock of an audit, which one that runs holds; gives False where that is so, True if there is no lock."""
    try:
        marker = os.open(folder / MARKER, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield True
        return
    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(marker)


def _why_kept(aged: AgedAudit) -> str | None:
    if aged.entry.status == RunStatus.RUNNING and not (aged.folder / MARKER).is_file():
        return "it may be running, on a Beam runner"
    foreign = next(_foreign(aged.folder), None)
    return None if foreign is None else f"it holds {str(foreign)!r}, which no audit wrote; move that away"


def _foreign(folder: Path) -> Iterator[Path]:
    """What no audit wrote: unknown files and folders, and links of any kind."""
    directory = OutputDirectory(folder)
    own_folders = directory.folders
    for path in sorted(_everything(folder)):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            yield path
        elif path.parent == folder:
            if path not in own_folders if path.is_dir() else not _OWN_FILE.fullmatch(path.name):
                yield path
        elif path.is_file() and path.suffix not in _OWN_SUFFIXES and not path.is_relative_to(directory.attempts):
            yield path


def _everything(folder: Path) -> Iterator[Path]:
    """All files and folders below a folder; links are not followed."""
    for path in folder.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _everything(path)


def _remember(root: Path, entry: AuditEntry) -> None:
    """Append the entry, durably."""
    with (root / REMOVED_AUDITS).open("a", encoding="utf-8") as file:
        file.write(f"{entry.to_json()}\n")
        file.flush()
        os.fsync(file.fileno())

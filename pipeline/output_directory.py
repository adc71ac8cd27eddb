"""The output directory of an audit: its layout and its lock.

The lock is one of the kernel (``flock``) on the file ``_attribeam``: it holds between all processes of a machine, those
of containers included, and between machines as far as the file system passes it on, as NFS does unless it is mounted
with ``nolock`` or ``local_lock``. Nothing that a link leads to is ever written to, for whoever may write here could
else let an audit write elsewhere.
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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from attribeam.report.audit_directory import CHUNKS, DEAD_LETTERS, EVIDENCE, RUN_MANIFEST
from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import RunManifest, RunStatus

MARKER = "_attribeam"
REPORT_PAGE, METRICS_JSON, METRICS_PROM = "report.html", "metrics.json", "metrics.prom"
RESULTS = (REPORT_PAGE, METRICS_JSON, METRICS_PROM)
"""What a run writes at its end, about all chunks."""

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_ATTEMPTS = "_attempts"
_CHUNK = r"\d{5,}-[A-Za-z0-9._-]+-r\d{10}"
_PARQUET = re.compile(rf"{_CHUNK}(-[0-9a-f]{{12}})?\.parquet")
OWN_FOLDERS: Mapping[str, re.Pattern[str]] = {
    EVIDENCE: _PARQUET,
    DEAD_LETTERS: _PARQUET,
    CHUNKS: re.compile(rf"{_CHUNK}\.json"),
    _ATTEMPTS: re.compile(r".+-[0-9a-f]{32}"),
}
"""The folders of an audit, and the names in each; a distributed run adds a mark of the attempt."""


class OutputDirectory:
    """The paths of one audit: ``evidence/``, ``dead_letters/``, ``run_manifest.json`` and working folders."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.attempts = root / _ATTEMPTS
        self.run_manifest = root / RUN_MANIFEST
        self._folders = [root / name for name in OWN_FOLDERS]

    def check(self, *, is_marked: bool = True) -> None:
        """Refuse a directory that cannot be written to, or holds other things than audits write; changes nothing.

        That of a distributed audit is not ``is_marked``, and other files may lie beside its folders. Raises
        ``UsageError`` if it is one; the message names what is in the way.
        """
        with self._refused():
            if self.root.exists() and not self.root.is_dir():
                raise UsageError(f"--output should be a directory, but {str(self.root)!r} is a file")
            base = next(path for path in (self.root, *self.root.absolute().parents) if path.exists())
            if not base.is_dir():
                raise self._unwritable(f"{str(base)!r} is no directory")
            for folder in (base, *(folder for folder in self._folders if folder.is_dir())):
                if not os.access(folder, os.W_OK | os.X_OK):
                    raise self._unwritable(f"{str(folder)!r} is not writable")
            if not self.root.exists() or not any(self.root.iterdir()):
                return
            if is_marked and not os.path.lexists(self.root / MARKER):
                has_audit = self.run_manifest.exists()
                found = f"an audit without the file {MARKER}, as --runner makes it" if has_audit else "other files"
                raise UsageError(
                    f"--output should be empty, new, or the directory of an earlier audit, but {str(self.root)!r} "
                    f"holds {found}; choose another directory"
                )
            foreign = next(_foreign_paths(self.root), None)
            if foreign is not None:
                raise UsageError(f"--output holds {str(foreign)!r}, which no audit wrote; move it away")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the directory and hold its lock, which ends with this process at the latest.

        What it created is removed again if the block fails, as far as it is still empty. Raises ``UsageError`` if
        another audit holds the lock, the directory holds other things than audits write, or it cannot be written to;
        ``OSError`` if the disk is full.
        """
        created: list[Path] = []
        with ExitStack() as stack:
            stack.callback(lambda: self._remove_created(created))
            with self._refused():
                self.check()
                _make_folders(self.root, created)
                marker = stack.enter_context(self._open_marker(created))
                stack.callback(lambda: self._remove_created(created))  # before the lock ends
                self._take_lock(marker)
                for folder in self._folders:
                    _make_folders(folder, created)
            yield
            created.clear()

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn what the file system refuses into a ``UsageError``; a full disk or `ulimit -f` is none."""
        try:
            yield
        except OSError as error:
            if error.errno in (*FULL_DISK, errno.EFBIG):
                raise
            raise self._unwritable(error.strerror or str(error)) from error

    def _unwritable(self, reason: str) -> UsageError:
        way_out = "make it writable, or choose another directory"
        return UsageError(f"--output {str(self.root)!r} cannot be written to: {reason}; {way_out}")

    def _open_marker(self, created: list[Path]) -> TextIO:
        """The file that the lock is on; a link in its place is not followed."""
        path = self.root / MARKER
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            created.append(path)
        except FileExistsError:
            descriptor = os.open(path, flags)
        return os.fdopen(descriptor, "r+", encoding="utf-8")

    def _take_lock(self, marker: TextIO) -> None:
        """Take the lock of the marker, and say in it who has it."""
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(marker.fileno()), (self.root / MARKER).lstat()):
                raise BlockingIOError
        except (BlockingIOError, FileNotFoundError):
            raise UsageError(
                f"another audit is writing to {str(self.root)!r} ({marker.read().strip() or 'just started'}); "
                "wait for it to end, or choose another --output"
            ) from None
        marker.truncate(0)
        marker.write(f"attribeam audit, process {os.getpid()} on {socket.gethostname()}\n")
        marker.flush()

    def _remove_created(self, created: list[Path]) -> None:
        """Remove what this run created, as far as nothing was written into it."""
        while created:
            path = created.pop()
            with suppress(OSError):
                if path.name != MARKER:
                    path.rmdir()
                elif [*self.root.iterdir()] == [path]:
                    path.unlink()

    def earlier_manifest(self) -> RunManifest | None:
        """The run manifest of an earlier run; None if there is no readable one."""
        try:
            return RunManifest.from_json(self.run_manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def remove_attempts(self) -> None:
        """Remove the unfinished work of interrupted runs; nothing hidden, such as what a file manager left."""
        for attempt in self.attempts.iterdir():
            if OWN_FOLDERS[_ATTEMPTS].fullmatch(attempt.name) and not attempt.name.startswith("."):
                shutil.rmtree(attempt)

    def remove_working_folders(self) -> None:
        """Remove the folder of the attempts, which readers do not need, unless it holds a hidden file."""
        self.remove_attempts()
        with suppress(OSError):
            self.attempts.rmdir()

    def end_running(self, status: RunStatus) -> None:
        """Let a manifest that says "running" say how the run ended, as far as it can be written."""
        manifest = self.earlier_manifest()
        if manifest is not None and manifest.status is RunStatus.RUNNING:
            with suppress(OSError, ValueError):
                replace_status(self.run_manifest, status)


def _foreign_paths(root: Path) -> Iterator[Path]:
    """What no audit wrote where an audit writes: other files in its folders, links in place of its files."""
    files = (root / name for name in sorted((MARKER, RUN_MANIFEST, *RESULTS)))
    yield from (path for path in files if os.path.lexists(path) and (path.is_symlink() or not path.is_file()))
    for name, pattern in OWN_FOLDERS.items():
        folder = root / name
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            yield folder
            continue
        for path in sorted(folder.iterdir()) if folder.exists() else ():
            own = pattern.fullmatch(path.name) and not path.is_symlink() and path.is_dir() == (name == _ATTEMPTS)
            if not own and not path.name.startswith("."):
                yield path


def _make_folders(path: Path, created: list[Path]) -> None:
    """Create a folder and the missing ones above it; adds them to ``created``."""
    for folder in [folder for folder in (*reversed(path.parents), path) if not folder.exists()]:
        try:
            folder.mkdir()
            created.append(folder)
        except FileExistsError:  # another process was faster, or it is a link that leads nowhere
            if not folder.is_dir():
                raise


def replace_status(path: Path, status: RunStatus) -> None:
    """Change the status of a manifest in place, keeping its length, which needs no free space.

    Raises ``OSError`` or ``ValueError`` if there is no readable manifest.
    """
    with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "r+b") as file:
        old = file.read()
        fields = json.loads(old) | {"status": status}
        file.seek(0)
        file.write(json.dumps(fields, ensure_ascii=False).encode().ljust(len(old)))

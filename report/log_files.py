"""The input logs of an audit: whether they are still there, and still what was audited."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from pyarrow import fs

from schemas.run_manifest import InputFile

_BLOCK = 1 << 20


class LogState(StrEnum):
    """What has become of a log since it was audited."""

    AS_AUDITED = "as_audited"
    GONE = "gone"
    CHANGED = "changed"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class LogFile:
    """One input file of the manifest; it is looked at once, when its state is first asked for."""

    audited: InputFile

    @cached_property
    def state(self) -> LogState:
        """By size, then by SHA-256 of the whole content."""
        return self._found[0]

    @property
    def explanation(self) -> str:
        """What was expected, what was found, and the way out; never a text of the log."""
        return f"log {self.audited.path!r} {self._found[1]}"

    @cached_property
    def _found(self) -> tuple[LogState, str]:
        try:
            return self._look()
        except (OSError, pa.ArrowException) as error:
            return LogState.UNREADABLE, f"cannot be read: {error}"

    def _look(self) -> tuple[LogState, str]:
        size = _size(self.audited.path)
        if size is None:
            way_out = "bring it back, or start where the audit was started if its path is a relative one"
            return LogState.GONE, f"is not there any more; {way_out}"
        if size != self.audited.size_bytes or _sha256(self.audited.path) != self.audited.sha256:
            return LogState.CHANGED, "has another content than when it was audited; audit it again, or bring it back"
        return LogState.AS_AUDITED, "is as it was audited"


@contextmanager
def open_log(path: str) -> Iterator[BinaryIO]:
    """The file's bytes, seekable, from a local disk, ``s3://``, ``gs://`` or ``hdfs://``.

    Raises:
        OSError: if it cannot be opened.
    """
    system, inner = _locate(path)
    with system.open_input_file(inner) as file:
        yield file


def _locate(path: str) -> tuple[fs.FileSystem, str]:
    if "://" in path:
        system, inner = fs.FileSystem.from_uri(path)
        return system, inner
    return fs.LocalFileSystem(), str(Path(path).absolute())


def _size(path: str) -> int | None:
    """Bytes of a file, None where there is none."""
    system, inner = _locate(path)
    info = system.get_file_info(inner)
    return info.size if info.type == fs.FileType.File else None


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open_log(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()

"""Where the bytes of a log come from: the files of a pattern, their content, and whether they are still the same."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Protocol

from pyarrow import fs

from attribeam.logs.patterns import Entry, find_files

_BLOCK_BYTES = 1 << 20
_GCS_SECONDS = 60
"""How long Google's client tries again; its own default is a quarter of an hour."""


class LogStorage(Protocol):
    """Where logs lie. Picklable, and holds no open connection, because every process makes its own."""

    def find(self, pattern: str, *, suffix: str) -> list[str]:
        """The files of a pattern, sorted, each once; a folder means all files below it that end in ``suffix``, which
        may be several in braces.

        Raises:
            OSError: if the file system cannot be asked.
        """

    def open(self, path: str) -> AbstractContextManager[BinaryIO]:
        """The file's bytes, seekable, and never decompressed whatever its name ends in.

        Raises:
            OSError: if it cannot be opened.
        """

    def stamp(self, path: str) -> str | None:
        """What changes when the file is replaced or written to, such as its size and time; None where there is none.

        Cheap: no content is read. Two stamps are comparable within one run of one program.

        Raises:
            OSError: if the file system cannot be asked.
        """


@dataclass(frozen=True, slots=True)
class ArrowStorage:
    """Local disks, and ``s3://``, ``gs://`` and ``hdfs://`` with Arrow's own clients.

    Credentials, region and endpoint come from where those clients look: ``AWS_*`` variables and ``~/.aws``,
    ``GOOGLE_APPLICATION_CREDENTIALS``, ``HADOOP_HOME``.
    """

    def find(self, pattern: str, *, suffix: str) -> list[str]:
        return find_files(pattern, _RemoteFolders() if "://" in pattern else _LocalFolders(), suffix=suffix)

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        if "://" in path:
            system, inner = _locate(path)
            with system.open_input_file(inner) as file:
                yield file
        else:
            with Path(path).open("rb") as local:
                yield local

    def sizes(self, folder: str) -> dict[str, int]:
        """The files directly in a folder by name, with their sizes in bytes; none where there is no such folder.

        Raises:
            OSError: if the file system cannot be asked.
        """
        system, inner = _locate(folder) if "://" in folder else (fs.LocalFileSystem(), folder)
        try:
            found = system.get_file_info(fs.FileSelector(inner.rstrip("/") or "/", allow_not_found=True))
        except NotADirectoryError:
            return {}
        return {one.base_name: one.size for one in found if one.is_file}

    def stamp(self, path: str) -> str | None:
        if "://" in path:
            info = _info(path)
            return f"{info.size} bytes of {info.mtime_ns}" if info.is_file else None
        try:
            return _local_stamp(Path(path).stat())
        except (FileNotFoundError, NotADirectoryError):
            return None


def _local_stamp(found: os.stat_result) -> str:
    """Device, inode and size, and when content and inode last changed; the latter cannot be set back by hand."""
    return f"{found.st_dev}:{found.st_ino}, {found.st_size} bytes of {found.st_mtime_ns}, {found.st_ctime_ns}"


def fingerprint_file(storage: LogStorage, path: str) -> tuple[int, str]:
    """Size in bytes and SHA-256 of a file's content, so that a rewritten file is never taken for the old one.

    Raises:
        OSError: if the file cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with storage.open(path) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()


class _LocalFolders:
    """The search on this machine; a link that leads nowhere is a file, which then cannot be opened by its name.

    Pipes, sockets and devices count only by their exact path: to open one that nobody writes to waits for ever.
    """

    def entries(self, folder: str) -> list[Entry]:
        try:
            with os.scandir(folder or ".") as found:
                return [_local_entry(one.name, one.path) for one in found if not _is_special(one.path)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def entry(self, path: str) -> Entry | None:
        return _local_entry(path, path) if os.path.lexists(path) else None


def _is_special(path: str) -> bool:
    """Whether it is neither file nor folder, nor a link that leads nowhere."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _local_entry(name: str, path: str) -> Entry:
    try:
        found = Path(path).stat()
    except OSError:
        return Entry(name, is_folder=False, identity=path)
    return Entry(name, is_folder=stat.S_ISDIR(found.st_mode), identity=f"{found.st_dev}:{found.st_ino}")


class _RemoteFolders:
    """The search in a bucket or on a cluster."""

    def entries(self, folder: str) -> list[Entry]:
        if folder.endswith("//"):
            raise OSError(f"{folder!r} has an empty name, which Arrow's client cannot read; rename such keys")
        system, inner = _locate(folder)
        inner = inner.rstrip("/") or "/"
        found = system.get_file_info(fs.FileSelector(inner, allow_not_found=True))
        names = ["" if one.path.rstrip("/") == inner else one.base_name for one in found]
        return [
            Entry(name, one.type == fs.FileType.Directory, identity=f"{folder}{name}")
            for name, one in zip(names, found, strict=True)
        ]

    def entry(self, path: str) -> Entry | None:
        info = _info(path)
        if info.type == fs.FileType.NotFound:
            return None
        return Entry(info.base_name, info.type == fs.FileType.Directory, identity=path)


def _info(path: str) -> fs.FileInfo:
    system, inner = _locate(path)
    return system.get_file_info(inner.rstrip("/") or "/")


def _locate(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI and the path inside it, which is taken as it is written: nothing in it is decoded."""
    scheme, _, rest = path.partition("://")
    authority, _, inner = rest.partition("/")
    options = f"?retry_limit_seconds={_GCS_SECONDS}" if scheme in ("gs", "gcs") else ""
    system, root = _file_system(f"{scheme}://{authority}/{options}")
    return system, f"{root.rstrip('/')}/{inner}"


@lru_cache(maxsize=64)
def _file_system(root: str) -> tuple[fs.FileSystem, str]:
    """The client, made once per process, and the path that it knows ``root`` by."""
    try:
        system, inner = fs.FileSystem.from_uri(root)
    except ValueError as error:
        raise OSError(f"{root!r} should begin with s3://, gs://, hdfs:// or file://: {error}") from error
    return system, inner

"""Files on the file systems of a distributed Beam runner, with its credentials: logs, and what an audit writes.

Clients of S3 are used again. Beam's file system makes a new one for every operation, which takes a tenth of a second, a
new connection and often a request for credentials: several times what the operation takes.
"""

from __future__ import annotations

import copy
import os
import re
import shutil
import sys
import time
import weakref
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from apache_beam.io.aws.clients.s3 import boto3_client
from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems

from attribeam.logs.files import Entry, WritableStorage, find_files, local_status
from attribeam.schemas.errors import UsageError
from attribeam.schemas.files import unfinished_name

_make_client: Any = boto3_client.Client


_FRESH_SECONDS = 300.0
"""How long a client is used; a later one reads the credentials file again, where tokens with an end are renewed."""


class _IdleClients:
    """Clients that nobody uses, all made with the same options."""

    def __init__(self) -> None:
        self._kept: tuple[object, list[tuple[float, Any]]] = (None, [])

    def client(self, options: object) -> Any:
        """A client for one operation; it is idle again when it is no longer referred to.

        No two operations share one at the same time, because it also holds the stream of an open file. Options are told
        apart by their identity: every run has its own, so it also looks for credentials and servers anew.
        """
        kept = self._kept  # read once: another thread may replace it
        if options is not kept[0]:
            kept = self._kept = (options, [])
        idle = kept[1]
        made, unused = _fresh(idle) or (time.monotonic(), _make_client(options=options))
        used = copy.copy(unused)
        weakref.finalize(used, idle.append, (made, unused))
        return used

    def forget(self) -> None:
        """Leave the clients to the parent of a forked process: the two must not read from the same connections."""
        self._kept = (None, [])


def _fresh(idle: list[tuple[float, Any]]) -> tuple[float, Any] | None:
    """An idle client that is not too old, with the time when it was made; older ones are dropped."""
    while True:
        try:
            made, unused = idle.pop()
        except IndexError:
            return None
        if time.monotonic() - made < _FRESH_SECONDS:
            return made, unused


_idle_clients = _IdleClients()
os.register_at_fork(after_in_child=_idle_clients.forget)
boto3_client.Client = _idle_clients.client  # in workers, too, which import this module before they open a file

_WILD = re.compile(r"[*?[]")
_EXTRAS = {"s3": ("boto3", "s3"), "gs": ("google.cloud.storage", "gcs")}
"""What Beam needs for a scheme: a module, and the extra of this package that installs it."""


class BeamStorage(WritableStorage):
    """What the workers of a runner see. ``FileSystems.set_options`` must have been called, as Beam does on them.

    Files on local paths are looked for as ``ArrowStorage`` does, since Beam follows no links.
    """

    def find(self, pattern: str, *, suffix: str) -> list[str]:
        check_extra(pattern)
        if "://" not in pattern:
            return super().find(pattern, suffix=suffix)
        has_key = "/" in pattern.partition("://")[2]
        return find_files(pattern if has_key else f"{pattern}/", _ListedFolders(), suffix=suffix)

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        if "://" not in path:
            with super().open(path) as local:
                yield local
            return
        with _as_os_errors(), FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            yield file

    def sizes(self, folder: str) -> dict[str, int]:
        """As ``ArrowStorage.sizes``."""
        if "://" not in folder:
            return super().sizes(folder)
        start = f"{folder.rstrip('/')}/"
        files = (file for file in _listed(_WILD.split(start)[0]) if file.path.startswith(start))
        sizes = {file.path.removeprefix(start): file.size_in_bytes for file in files}
        return {name: size for name, size in sizes.items() if name and "/" not in name}

    def stamp(self, path: str, file: BinaryIO | None = None) -> str | None:
        if "://" not in path:
            status = local_status(path, file)  # another machine may know the file by another device and inode
            return None if status is None else f"{status.st_size} bytes of {status.st_mtime_ns}"
        with _as_os_errors():
            if file is not None or not FileSystems.exists(path):
                return None
            metadata = FileSystems.get_filesystem(path).metadata(path)
            return f"{metadata.size_in_bytes} bytes of {metadata.last_updated_in_seconds}, {FileSystems.checksum(path)}"

    def exists(self, path: str) -> bool:
        if "://" not in path:
            return super().exists(path)
        with _as_os_errors():
            return bool(FileSystems.exists(path))

    def make_folders(self, paths: Sequence[str]) -> None:
        super().make_folders([path for path in paths if "://" not in path])
        with _as_os_errors():
            for path in (path for path in paths if "://" in path):
                if FileSystems.get_filesystem(path).has_dirs() and not FileSystems.exists(path):
                    FileSystems.mkdirs(path)

    def put_file(self, path: str, local: Path) -> None:
        if "://" not in path:
            super().put_file(path, local)
            return
        with _as_os_errors(), local.open("rb") as source, _created(path) as target:
            shutil.copyfileobj(source, target)

    def put_text(self, path: str, text: str) -> None:
        if "://" not in path:
            super().put_text(path, text)
            return
        by = f"{path.rpartition('/')[0]}/{unfinished_name()}"
        with _as_os_errors():
            with _created(by) as file:
                file.write(text.encode())
            try:
                FileSystems.rename([by], [path])
            except BeamIOError:
                if not FileSystems.exists(path):
                    raise
                FileSystems.delete([path])  # HDFS renames to no file that is there
                FileSystems.rename([by], [path])

    def delete(self, paths: Sequence[str]) -> None:
        super().delete([path for path in paths if "://" not in path])
        if remote := [path for path in paths if "://" in path]:
            with _as_os_errors():
                FileSystems.delete(remote)


def check_extra(path: str) -> None:
    """Refuse a bucket whose client is not installed.

    Raises:
        UsageError: if so; it names the extra.
    """
    scheme = path.partition("://")[0] if "://" in path else ""
    module, extra = _EXTRAS.get(scheme, ("", ""))
    if module and not _is_installed(module):
        raise UsageError(
            f"{path!r} needs the extra {extra!r}, which is not installed: pip install 'attribeam[{extra}]'"
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


class _ListedFolders:
    """The search where there are only paths: one listing serves a folder and all below it."""

    def __init__(self) -> None:
        self._start, self._paths = "", list[str]()

    def entries(self, folder: str) -> list[Entry]:
        inner = (path.removeprefix(folder).partition("/") for path in self._beginning_with(folder))
        names = {(name, bool(slash)) for name, slash, _ in inner if name or slash}
        return [Entry(name, is_folder, identity=f"{folder}{name}") for name, is_folder in sorted(names)]

    def entry(self, path: str) -> Entry | None:
        paths = self._beginning_with(path)
        is_file = path in paths and not path.endswith("/")
        is_there = is_file or any(name.startswith(f"{path.rstrip('/')}/") for name in paths)
        return Entry(path.rpartition("/")[2], not is_file, identity=path) if is_there else None

    def _beginning_with(self, start: str) -> list[str]:
        wanted = _WILD.split(start)[0]
        if not self._start or not wanted.startswith(self._start):
            self._start, self._paths = wanted, sorted(file.path for file in _listed(wanted))
        end = start + chr(sys.maxunicode)
        return self._paths[bisect_left(self._paths, start) : bisect_left(self._paths, end)]


def _listed(start: str) -> list[FileMetadata]:
    """What there is whose path begins with a text that has no wildcards."""
    with _as_os_errors():
        (result,) = FileSystems.match([f"{start}**"])
    metadata: list[FileMetadata] = result.metadata_list
    return metadata


def _created(path: str) -> AbstractContextManager[BinaryIO]:
    file: AbstractContextManager[BinaryIO] = FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)
    return file


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Beam's own errors as the ones that a ``LogStorage`` may raise."""
    try:
        yield
    except (BeamIOError, ValueError) as error:
        raise OSError(str(error)) from error

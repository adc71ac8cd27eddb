"""Logs on the file systems of a distributed Beam runner, with its credentials."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import BinaryIO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from attribeam.logs.files import ArrowStorage
from attribeam.logs.patterns import expand_braces
from attribeam.schemas.errors import UsageError

_EXTRAS = {"s3": ("boto3", "s3"), "gs": ("google.cloud.storage", "gcs")}
"""What Beam needs for a scheme: a module, and the extra of this package that installs it."""


@dataclass(frozen=True, slots=True)
class BeamStorage:
    """What the workers of a runner see. ``FileSystems.set_options`` must have been called, as Beam does on them.

    Files on local paths are looked for as ``ArrowStorage`` does, since Beam follows no links.
    """

    def find(self, pattern: str, *, suffix: str) -> list[str]:
        check_extra(pattern)
        if "://" not in pattern:
            return ArrowStorage().find(pattern, suffix=suffix)
        ends = expand_braces(suffix)
        found = {
            path
            for one in expand_braces(pattern)
            for path in _match(one) or [below for end in ends for below in _match(_below(one, end))]
        }
        return sorted(path for path in found if not path.rpartition("/")[2].startswith((".", "_")))

    @contextmanager
    def open(self, path: str) -> Iterator[BinaryIO]:
        with _as_os_errors(), FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            yield file

    def stamp(self, path: str) -> str | None:
        with _as_os_errors():
            if not FileSystems.exists(path):
                return None
            found = FileSystems.get_filesystem(path).metadata(path)
            return f"{found.size_in_bytes} bytes of {found.last_updated_in_seconds}, {FileSystems.checksum(path)}"


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


def _below(folder: str, suffix: str) -> str:
    return f"{folder.rstrip('/')}/**{suffix}"


def _match(pattern: str) -> list[str]:
    with _as_os_errors():
        (result,) = FileSystems.match([pattern])
    return [metadata.path for metadata in result.metadata_list]


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Beam's own errors as the ones that a ``LogStorage`` may raise."""
    try:
        yield
    except (BeamIOError, ValueError) as error:
        raise OSError(str(error)) from error

"""The files of a log: found by pattern, opened, and told apart by what they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from attribeam.schemas.errors import RunError, UsageError

_BLOCK = 1 << 20


def match_files(patterns: Sequence[str]) -> list[str]:
    """The files of all patterns, sorted, each once; hidden and ``_``-marked files are left out.

    Raises:
        UsageError: if a pattern matches nothing, or its file system cannot be asked.
    """
    found: set[str] = set()
    for pattern in patterns:
        paths = [path for path in _match_pattern(pattern) if not _file_name(path).startswith((".", "_"))]
        if not paths:
            raise UsageError(
                f"--input should name existing Parquet files, nothing matches {pattern!r}; "
                "for a folder say folder/*.parquet"
            )
        found.update(paths)
    return sorted(found)


@contextmanager
def open_file(path: str) -> Iterator[BinaryIO]:
    """The file's bytes, seekable, never decompressed whatever its name ends in."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        yield file


def read_footer(path: str) -> pq.FileMetaData:
    """The footer of a Parquet file.

    Raises:
        RunError: if the file cannot be opened or is no Parquet file.
    """
    try:
        with open_file(path) as file:
            return pq.read_metadata(file)
    except (OSError, BeamIOError, pa.ArrowException) as error:
        found = " ".join(str(error).split())
        raise RunError(
            f"input file {path!r} should be readable Parquet, but its footer is not: {found}; "
            "replace the file or leave it out of --input"
        ) from error


def fingerprint_file(path: str) -> tuple[int, str]:
    """Size in bytes and SHA-256 of a file's content, so that a rewritten file is never taken for the old one.

    Raises:
        OSError: if the file cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with open_file(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()


def _match_pattern(pattern: str) -> list[str]:
    """Paths of one pattern; Beam finds nothing by a bare name, so that it gets a folder for the time of the search."""
    bare = "/" not in pattern
    try:
        (result,) = FileSystems.match([f"./{pattern}" if bare else pattern])
    except (BeamIOError, ValueError) as error:
        raise UsageError(f"--input {pattern!r} cannot be looked up: {error}") from error
    return [metadata.path.removeprefix("./") if bare else metadata.path for metadata in result.metadata_list]


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]

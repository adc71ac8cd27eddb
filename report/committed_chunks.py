"""The committed chunks of an audit, wherever its directory lies; drivers and reports read this state here.

A chunk is committed when its manifest ``_chunks/<chunk>.json`` exists. Only the files that a manifest names
count: others are what a killed run or a slower attempt left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from attribeam.logs.files import LogStorage
from attribeam.schemas.errors import SchemaVersionError
from attribeam.schemas.run_manifest import ChunkManifest

CHUNKS, EVIDENCE, DEAD_LETTERS = "_chunks", "evidence", "dead_letters"
_MANIFEST_SUFFIX = ".json"
_READERS = 16
"""Threads that read small files at once: what takes long on an object store is the answer, not the content."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class AuditStorage(LogStorage, Protocol):
    """Where an audit's directory and its logs lie, such as ``ArrowStorage``."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The files directly in a folder by name, with their sizes in bytes; none where there is no such folder.

        Raises:
            OSError: if the file system cannot be asked.
        """


@dataclass(frozen=True, slots=True)
class CommittedChunks:
    """Reads the manifests of the chunks below ``root``, a local directory or a URI that ``storage`` knows."""

    root: str
    storage: AuditStorage

    def path(self, *names: str) -> str:
        """A path below the root."""
        return "/".join([self.root.rstrip("/"), *names])

    def names(self) -> list[str]:
        """The chunks that have a manifest, in the order of the input."""
        found = self.storage.sizes(self.path(CHUNKS))
        return sorted(name.removesuffix(_MANIFEST_SUFFIX) for name in found if _is_manifest(name))

    def read(self, name: str) -> ChunkManifest:
        """The manifest of a chunk that has one.

        Raises:
            OSError: if it cannot be read.
            SchemaVersionError: if it is of another version of the schema.
            ValueError: if it is damaged: no manifest of this chunk.
        """
        path = self.path(CHUNKS, f"{name}{_MANIFEST_SUFFIX}")
        with self.storage.open(path) as file:
            content = file.read()
        try:
            found = ChunkManifest.from_json(content, path)
            if found.chunk != name:
                raise ValueError("it is the manifest of another chunk")
        except SchemaVersionError:
            raise
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        return found

    def manifests(self) -> Iterator[ChunkManifest]:
        """The manifests of all chunks in the order of the input.

        Raises:
            OSError, ValueError: as ``read``.
        """
        return in_threads(self.read, self.names())

    def manifests_by_name(self) -> dict[str, ChunkManifest | None]:
        """The manifests by the chunks' names; None for a damaged one.

        Raises:
            SchemaVersionError: if one is of another version of the schema.
            OSError: if one cannot be read.
        """
        names = self.names()
        return dict(zip(names, in_threads(self._read_if_valid, names), strict=True))

    def _read_if_valid(self, name: str) -> ChunkManifest | None:
        try:
            return self.read(name)
        except SchemaVersionError:
            raise
        except ValueError:
            return None


def in_threads(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """The results in the order of the items, which are small files to be read."""
    with ThreadPoolExecutor(_READERS) as readers:
        yield from readers.map(work, items)


def _is_manifest(name: str) -> bool:
    return name.endswith(_MANIFEST_SUFFIX) and not name.startswith(".")

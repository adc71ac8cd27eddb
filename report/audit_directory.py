"""Reads an audit's output directory, here or in an object store: its committed chunks, evidence and dead letters.

A chunk is committed when its manifest ``_chunks/<chunk>.json`` exists; files that no manifest names do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from attribeam.logs.columns import is_carried
from attribeam.logs.files import ArrowStorage
from attribeam.schemas import dead_letter_schema, evidence_schema
from attribeam.schemas.errors import RunError, SchemaVersionError, UsageError, check_version
from attribeam.schemas.run_manifest import AuditCounts, ChunkManifest, RunManifest, RunStatus, sum_counts

CHUNKS, EVIDENCE, DEAD_LETTERS = "_chunks", "evidence", "dead_letters"
RUN_MANIFEST = "run_manifest.json"
_READERS = 16
"""Threads that read small files at once: what takes long on an object store is the answer, not the content."""
BATCH_ROWS = 4096
_COLUMN_BATCH_ROWS = 65_536
_MEND = "start the audit's command again, which audits damaged chunks again"

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class CommittedChunks:
    """Reads the manifests of the chunks below ``root``, a local directory or a URI that ``storage`` knows."""

    root: str
    storage: ArrowStorage

    def path(self, *names: str) -> str:
        """A path below the root."""
        return "/".join([self.root.rstrip("/"), *names])

    def names(self) -> list[str]:
        """The chunks that have a manifest, in the order of the input."""
        files = self.storage.sizes(self.path(CHUNKS))
        return sorted(name.removesuffix(".json") for name in files if name.endswith(".json") and name[0] != ".")

    def read(self, name: str) -> ChunkManifest:
        """The manifest of a chunk that has one.

        Raises ``OSError`` if it cannot be read; ``SchemaVersionError`` if it is of another version of the schema;
        ``ValueError`` if it is damaged: no manifest of this chunk.
        """
        path = self.path(CHUNKS, f"{name}.json")
        with self.storage.open(path) as file:
            content = file.read()
        try:
            manifest = ChunkManifest.from_json(content, path)
            if manifest.chunk != name:
                raise ValueError("it is the manifest of another chunk")
        except SchemaVersionError:
            raise
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        return manifest

    def manifests_by_name(self) -> dict[str, ChunkManifest | None]:
        """The manifests by the chunks' names, None for a damaged one; raises what else ``read`` does."""

        def read_if_valid(name: str) -> ChunkManifest | None:
            try:
                return self.read(name)
            except SchemaVersionError:
                raise
            except ValueError:
                return None

        names = self.names()
        return dict(zip(names, in_threads(read_if_valid, names), strict=True))


def in_threads(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """The results in the order of the items, which are small files to be read."""
    with ThreadPoolExecutor(_READERS) as readers:
        yield from readers.map(work, items)


@dataclass(frozen=True)
class AuditDirectory:
    """The output directory of an audit; only its finished chunks are read.

    Chunks and files are in the order of the input. The audit is complete only if its manifest's status is "done".
    """

    root: str
    storage: ArrowStorage
    manifest: RunManifest
    chunks: tuple[ChunkManifest, ...]
    evidence_files: tuple[str, ...]
    dead_letter_files: tuple[str, ...]

    @classmethod
    def open(cls, root: str | Path, storage: ArrowStorage | None = None) -> AuditDirectory:
        """Read the manifests.

        Raises ``UsageError`` if there is no audit, or one of another schema version; ``RunError`` if a manifest cannot
        be read, or a file has another size than its manifest says.
        """
        committed = CommittedChunks(str(root), storage or ArrowStorage())
        manifest = _read_manifest(committed)
        try:
            chunks = tuple(in_threads(committed.read, committed.names()))
        except SchemaVersionError:
            raise
        except (OSError, ValueError) as error:
            raise RunError(f"a chunk's manifest cannot be read: {error}; {_MEND}") from error
        _check_whole(committed, manifest, chunks)
        evidence = tuple(committed.path(chunk.evidence.path) for chunk in chunks)
        dead_letters = tuple(committed.path(chunk.dead_letters.path) for chunk in chunks)
        return cls(committed.root, committed.storage, manifest, chunks, evidence, dead_letters)

    @cached_property
    def counts(self) -> AuditCounts:
        """Counts of all finished chunks, even if the run was killed before it summed them up."""
        if self.manifest.status is RunStatus.DONE:
            return self.manifest.counts
        return sum_counts(chunk.counts for chunk in self.chunks)

    @property
    def files(self) -> Iterator[str]:
        """All files that the audit consists of, and the logs that it read."""
        committed = CommittedChunks(self.root, self.storage)
        yield committed.path(RUN_MANIFEST)
        yield from (committed.path(CHUNKS, f"{chunk.chunk}.json") for chunk in self.chunks)
        yield from (*self.evidence_files, *self.dead_letter_files, *(log.path for log in self.manifest.inputs))

    @property
    def incomplete(self) -> str | None:
        """A warning about an audit that is not done; None if it is."""
        if self.manifest.status is RunStatus.DONE:
            return None
        return f"this audit is not complete: its status is {self.manifest.status}; only finished chunks are read"

    @cached_property
    def evidence_schema(self) -> pa.Schema:
        """The schema of evidence batches, extra columns and metadata included."""
        return self._schema_of(self.evidence_files, evidence_schema())

    @cached_property
    def dead_letter_schema(self) -> pa.Schema:
        """Likewise of dead letters."""
        return self._schema_of(self.dead_letter_files, dead_letter_schema())

    @property
    def extra_fields(self) -> tuple[pa.Field, ...]:
        """The fields of ``--extra-columns``, which follow those of the record; without ids of a trace store."""
        own = set(evidence_schema().names)
        return tuple(field for field in self.evidence_schema if field.name not in own and not is_carried(field))

    def evidence_batches(
        self, columns: Sequence[str] | None = None, *, where: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Evidence rows in the order of the files, at most ``BATCH_ROWS`` per batch.

        Raises ``UsageError`` if a file is of another schema version; ``RunError`` if a file cannot be read.
        """
        return self._batches(self.evidence_files, self.evidence_schema, evidence_schema(), columns, where)

    def dead_letter_batches(
        self, columns: Sequence[str] | None = None, *, where: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Dead letters, as ``evidence_batches``."""
        return self._batches(self.dead_letter_files, self.dead_letter_schema, dead_letter_schema(), columns, where)

    def evidence_columns(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """As ``evidence_batches``, up to 65,536 spans per batch.

        A column is a field's name, or ``field.member`` for one member of a list of structs.
        """
        for path in self.evidence_files:
            with (
                self._opened(path) as opened,
                pq.ParquetFile(opened, pre_buffer=False, page_checksum_verification=True) as file,
            ):
                _checked(file.schema_arrow, evidence_schema(), path)
                paths = [file.schema.column(index).path for index in range(len(file.schema))]
                leaves = [path for name in columns for path in paths if _is_leaf_of(path, name)]
                yield from file.iter_batches(batch_size=_COLUMN_BATCH_ROWS, columns=leaves, use_threads=False)

    def evidence_of(self, record_ids: Sequence[str]) -> pa.Table:
        """All evidence rows of some ids, by file, row and span; several files may hold the same id."""
        where = ds.field("record_id").isin(pa.array(record_ids, pa.string()))
        batches = self.evidence_batches(where=where) if record_ids else ()
        return _in_order(batches, self.evidence_schema, "source_file", "source_row", "span_index")

    def dead_letters_of(self, record_id: str) -> pa.Table:
        """All dead letters of one id, by file and row."""
        batches = self.dead_letter_batches(where=ds.field("record_id") == record_id)
        return _in_order(batches, self.dead_letter_schema, "source_file", "source_row")

    @contextmanager
    def _opened(self, path: str) -> Iterator[str | BinaryIO]:
        """What Arrow reads a file from; of a local one its path, which is faster."""
        try:
            if "://" in path:
                with self.storage.open(path) as file:
                    yield file
            else:
                yield path
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{path} cannot be read: {error}") from error

    def _schema_of(self, files: Sequence[str], record: pa.Schema) -> pa.Schema:
        if not files:
            return record
        with self._opened(files[0]) as file:
            return _checked(pq.read_schema(file), record, files[0])

    def _batches(
        self,
        files: Sequence[str],
        schema: pa.Schema,
        record: pa.Schema,
        columns: Sequence[str] | None,
        where: ds.Expression | None,
    ) -> Iterator[pa.RecordBatch]:
        options = ds.ParquetFragmentScanOptions(
            use_buffered_stream=True, pre_buffer=False, page_checksum_verification=True
        )
        for path in files:
            with self._opened(path) as file:
                here = fs.LocalFileSystem() if isinstance(file, str) else None
                fragment = ds.ParquetFileFormat().make_fragment(file, filesystem=here)
                _checked(fragment.physical_schema, record, path)
                yield from fragment.to_batches(
                    schema=schema,
                    columns=None if columns is None else list(columns),
                    filter=where,
                    batch_size=BATCH_ROWS,
                    batch_readahead=2,
                    fragment_readahead=1,
                    fragment_scan_options=options,
                )


def _read_manifest(committed: CommittedChunks) -> RunManifest:
    path = committed.path(RUN_MANIFEST)
    if RUN_MANIFEST not in committed.storage.sizes(committed.root):
        raise UsageError(
            f"expected the output directory of an audit, found {committed.root!r}: it is no directory, or has no "
            f"{RUN_MANIFEST}"
        )
    try:
        with committed.storage.open(path) as file:
            return RunManifest.from_json(file.read(), path)
    except SchemaVersionError:
        raise
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}; {_MEND}") from error


def _check_whole(committed: CommittedChunks, manifest: RunManifest, chunks: Sequence[ChunkManifest]) -> None:
    """Refuse an audit that lost a chunk's manifest after it was done, or whose files have other sizes."""
    if manifest.status is RunStatus.DONE and (lost := set(manifest.chunks) - {chunk.chunk for chunk in chunks}):
        raise RunError(
            f"{committed.root} should have {len(manifest.chunks)} finished chunks, but {len(lost)} have no manifest, "
            f"first {min(lost)}; {_MEND}"
        )
    sizes = cache(lambda folder: committed.storage.sizes(committed.path(folder)))
    for file in (file for chunk in chunks for file in (chunk.evidence, chunk.dead_letters)):
        folder, _, name = file.path.rpartition("/")
        size = sizes(folder).get(name)
        if size != file.size_bytes:
            actual = "it is missing" if size is None else f"it has {size:,}"
            raise RunError(
                f"{committed.path(file.path)} should have {file.size_bytes:,} bytes as it was written, but {actual}; "
                f"{_MEND}"
            )


def _in_order(batches: Iterable[pa.RecordBatch], schema: pa.Schema, *columns: str) -> pa.Table:
    return pa.Table.from_batches(batches, schema=schema).sort_by([(name, "ascending") for name in columns])


def _checked(schema: pa.Schema, record: pa.Schema, path: str) -> pa.Schema:
    """The schema of a file at ``path``, which must be of this version and have the fields of ``record``."""
    version = (schema.metadata or {}).get(b"attribeam.schema_version", b"none")
    check_version(version.decode(errors="replace"), path)
    for field in record:
        actual = schema.field(field.name) if schema.get_field_index(field.name) >= 0 else None
        may_be_null = field.nullable or field.name == "evidence_mass"  # if the method has none
        if actual is None or actual.type != field.type or (actual.nullable and not may_be_null):
            is_now = "missing" if actual is None else f"{actual.type}{', perhaps null' if actual.nullable else ''}"
            raise OSError(f"its column {field.name!r} should be {field.type}, is {is_now}")
    return schema


def _is_leaf_of(path: str, name: str) -> bool:
    field, _, member = name.partition(".")
    return path == field or (path.startswith(f"{field}.") and (not member or path.endswith(f".{member}")))

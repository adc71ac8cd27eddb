"""Reads the output directory of an audit: its manifest, evidence and dead letters.

Rows come in small batches with all their fields, or in large batches of chosen columns; other columns are never
decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from attribeam.report.earlier_versions import columns_to_read, completed, lacking, with_later_fields
from attribeam.schemas import dead_letter_schema, evidence_schema
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.run_manifest import AuditCounts, ChunkManifest, RunManifest, RunStatus, sum_counts

BATCH_ROWS = 4096
_COLUMN_BATCH_ROWS = 65_536
_LOCAL = "local"


@dataclass(frozen=True)
class AuditDirectory:
    """The local output directory of an audit; only its finished chunks are read.

    Attributes:
        root: the directory.
        manifest: its ``run_manifest.json``; the audit is complete only if its status is "done".
        evidence_files: Parquet files in the order of the input; ``dead_letter_files`` likewise.
    """

    root: Path
    manifest: RunManifest
    evidence_files: tuple[Path, ...]
    dead_letter_files: tuple[Path, ...]

    @classmethod
    def open(cls, root: Path) -> AuditDirectory:
        """Read the manifest and list the files.

        Raises:
            UsageError: if there is no audit.
            RunError: if its manifest cannot be read.
        """
        manifest = _read_manifest(root)
        finished = _finished_chunks(root) if manifest.runner == _LOCAL else None
        return cls(root, manifest, _files(root / "evidence", finished), _files(root / "dead_letters", finished))

    @cached_property
    def counts(self) -> AuditCounts:
        """Counts of all finished chunks, even if the run was killed before it summed them up."""
        if self.manifest.status is RunStatus.DONE or self.manifest.runner != _LOCAL:
            return self.manifest.counts
        return sum_counts(chunk.counts for chunk in self.chunk_manifests())

    @property
    def incomplete(self) -> str | None:
        """A warning about an audit that is not done; None if it is."""
        if self.manifest.status is RunStatus.DONE:
            return None
        return f"this audit is not complete: its status is {self.manifest.status}; only finished chunks are read"

    def chunk_manifests(self) -> Iterator[ChunkManifest]:
        """The manifests of the finished chunks in the order of the input; none for a distributed run.

        Raises:
            RunError: if one cannot be read.
        """
        for path in sorted((self.root / "_chunks").glob("*.json")):
            try:
                yield ChunkManifest.from_json(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise RunError(f"{path}: {error}") from error

    @cached_property
    def evidence_schema(self) -> pa.Schema:
        """The schema of evidence batches, extra columns and metadata included, whatever version the files are of."""
        return with_later_fields(self._file_schema)

    @cached_property
    def _file_schema(self) -> pa.Schema:
        return _dataset_schema(self.evidence_files, evidence_schema())

    @cached_property
    def dead_letter_schema(self) -> pa.Schema:
        """The schema of ``dead_letters/``, metadata included."""
        return _dataset_schema(self.dead_letter_files, dead_letter_schema())

    @property
    def extra_fields(self) -> tuple[pa.Field, ...]:
        """The fields of ``--extra-columns``, which follow those of the evidence record."""
        own = set(evidence_schema().names)
        return tuple(field for field in self.evidence_schema if field.name not in own)

    def evidence_batches(
        self, columns: Sequence[str] | None = None, *, where: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Evidence rows in the order of the files, at most ``BATCH_ROWS`` per batch; memory use stays constant.

        Files of an earlier schema version are read with the fields of this one.

        Raises:
            RunError: if a file cannot be read.
        """
        wanted = self.evidence_schema.names if columns is None else list(columns)
        present = self._file_schema.names
        missing = lacking(wanted, present)
        for batch in _batches(self.evidence_files, self._file_schema, columns_to_read(wanted, present), where):
            yield completed(batch, missing).select(wanted)

    def dead_letter_batches(
        self, columns: Sequence[str] | None = None, *, where: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Dead letters in the order of the files, at most ``BATCH_ROWS`` per batch.

        Raises:
            RunError: if a file cannot be read.
        """
        return _batches(self.dead_letter_files, self.dead_letter_schema, columns, where)

    def evidence_of(self, record_id: str) -> pa.Table:
        """All evidence rows of one id, by file, row and span; several files may hold the same id."""
        batches = self.evidence_batches(where=ds.field("record_id") == record_id)
        table = pa.Table.from_batches(batches, schema=self.evidence_schema)
        return table.sort_by([(name, "ascending") for name in ("source_file", "source_row", "span_index")])

    def dead_letters_of(self, record_id: str) -> pa.Table:
        """All dead letters of one id, by file and row."""
        batches = self.dead_letter_batches(where=ds.field("record_id") == record_id)
        table = pa.Table.from_batches(batches, schema=self.dead_letter_schema)
        return table.sort_by([(name, "ascending") for name in ("source_file", "source_row")])


def _read_manifest(root: Path) -> RunManifest:
    path = root / "run_manifest.json"
    if not path.is_file():
        found = "there is no such directory" if not root.is_dir() else "it has no run_manifest.json"
        raise UsageError(f"expected the output directory of an audit, found {str(root)!r}: {found}")
    try:
        return RunManifest.from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}; was it written by another version of attribeam?") from error


def _finished_chunks(root: Path) -> frozenset[str]:
    """A chunk is finished when its manifest exists."""
    return frozenset(path.stem for path in (root / "_chunks").glob("*.json"))


def _files(folder: Path, finished: frozenset[str] | None) -> tuple[Path, ...]:
    """The Parquet files of finished chunks, or all of them if the run has no chunks."""
    paths = sorted(folder.glob("*.parquet"))
    return tuple(path for path in paths if finished is None or path.stem in finished)


def _dataset_schema(files: Sequence[Path], schema_of_none: pa.Schema) -> pa.Schema:
    return ds.dataset([str(files[0])], format="parquet").schema if files else schema_of_none


def _batches(
    files: Sequence[Path], schema: pa.Schema, columns: Sequence[str] | None, where: ds.Expression | None
) -> Iterator[pa.RecordBatch]:
    if not files:
        return
    options = ds.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
    dataset = ds.dataset([str(file) for file in files], schema=schema, format="parquet")
    try:
        yield from dataset.to_batches(
            columns=None if columns is None else list(columns),
            filter=where,
            batch_size=BATCH_ROWS,
            batch_readahead=2,
            fragment_readahead=1,
            fragment_scan_options=options,
        )
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{files[0].parent} cannot be read: {error}") from error


def evidence_columns(audit: AuditDirectory, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of up to 65,536 spans in the order of the files; memory use stays constant.

    A column is a field's name, or ``field.member`` for one member of a list of structs. Files of an earlier schema
    version are read with the fields of this one.

    Raises:
        RunError: if a file cannot be read.
    """
    for path in audit.evidence_files:
        try:
            with pq.ParquetFile(path, pre_buffer=False) as file:
                present = file.schema_arrow.names
                missing = lacking(columns, present)
                leaves = [
                    leaf for name in columns_to_read(columns, present) for leaf in _leaf_columns(file.schema, name)
                ]
                for batch in file.iter_batches(batch_size=_COLUMN_BATCH_ROWS, columns=leaves, use_threads=False):
                    yield completed(batch, missing)
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{Path(path)} cannot be read: {error}") from error


def _leaf_columns(schema: pq.ParquetSchema, name: str) -> Iterator[str]:
    field, _, member = name.partition(".")
    for index in range(len(schema)):
        path = schema.column(index).path
        inside = path.startswith(f"{field}.") and (not member or path.endswith(f".{member}"))
        if path == field or inside:
            yield path

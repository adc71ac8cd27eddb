"""What a run of a chunk left in its folder: read back, reconciled and digested."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.input_plan import Chunk
from attribeam.pipeline.chunks.reconciliation import count_rows
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.schemas.run_manifest import ChunkManifest, OutputFile
from attribeam.schemas.written_files import file_sha256
from attribeam.transforms.stage_metrics import TokenCounts


def read_attempt(rows: RowRange, folder: Path, schemas: OutputSchemas, counted: TokenCounts) -> ChunkAttempt:
    """The attempt of ``rows`` that lies in ``folder``; its files are on the disk when this returns.

    Raises:
        ReconciliationError: if audited rows and dead letters are not exactly the rows of the range.
    """
    evidence = _only_file(folder, "evidence", schemas.evidence)
    dead_letters = _only_file(folder, "dead_letters", schemas.dead_letters)
    counts = count_rows([rows], evidence=[str(evidence)], dead_letters=[str(dead_letters)], tokens=counted.tokens)
    return ChunkAttempt(
        folder=str(folder),
        evidence=_describe(evidence),
        dead_letters=_describe(dead_letters),
        counts=replace(
            counts,
            rows_in_windows=counted.rows_in_windows,
            rows_unread=counted.rows_unread,
            rows_asked=counted.rows_asked,
        ),
        seconds=0.0,
        passage_sample=counted.seen.passage_sample,
        notes=counted.seen.notes,
    )


def manifest_of(chunk: Chunk, attempt: ChunkAttempt, *, configuration: str) -> ChunkManifest:
    """The manifest of an attempt whose files lie where they stay, with paths relative to the output directory."""
    return ChunkManifest(
        chunk=chunk.name,
        source_file=chunk.rows.file,
        input_sha256=chunk.input.sha256,
        row_start=chunk.rows.row_start,
        row_end=chunk.rows.row_end,
        configuration=configuration,
        counts=attempt.counts,
        evidence=attempt.evidence,
        dead_letters=attempt.dead_letters,
        seconds=round(attempt.seconds, 3),
        stages=attempt.stages,
        passage_sample=attempt.passage_sample,
        notes=attempt.notes,
    )


def _only_file(folder: Path, prefix: str, schema: pa.Schema) -> Path:
    """The one file that the graph wrote with this prefix; makes an empty one if it wrote none."""
    written = sorted(folder.glob(f"{prefix}*.parquet"))
    if len(written) > 1:
        raise RuntimeError(
            f"a local chunk should write one {prefix} file, but wrote {len(written)}: is the graph fused?"
        )
    if written:
        return written[0]
    path = folder / f"{prefix}.parquet"
    pq.write_table(schema.empty_table(), path, compression="zstd")
    return path


def _describe(path: Path) -> OutputFile:
    """Sync a file to disk; returns its name, rows, size and digest."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return OutputFile(path.name, pq.read_metadata(path).num_rows, path.stat().st_size, file_sha256(path))

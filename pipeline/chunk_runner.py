"""One chunk: one fused in-memory Beam run into an attempt folder, verified by reading back what it wrote."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from attribeam.logs.rows import RowRange
from attribeam.pipeline.graph import GraphOutput, build_graph
from attribeam.pipeline.reconciliation import count_rows
from attribeam.pipeline.worker_messages import ChunkAttempt, OutputSchemas
from attribeam.schemas.run_manifest import OutputFile
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.stage_metrics import (
    ROWS_IN_WINDOWS,
    TOKENS,
    counter_sum,
    listening_for_rows,
    take_stage_seconds,
)


def run_chunk(
    rows: RowRange,
    *,
    settings: AuditSettings,
    schemas: OutputSchemas,
    folder: Path,
    on_rows: Callable[[int], None],
) -> ChunkAttempt:
    """Audit the rows into a new ``folder``; ``on_rows`` hears of finished rows while it runs.

    Raises:
        RowsDoNotReconcileError: if audited rows and dead letters are not exactly the rows of the range.
    """
    started = time.monotonic()
    folder.mkdir(parents=True)
    take_stage_seconds()
    tokens, in_windows = _run_graph(rows, settings, schemas, folder, on_rows) if rows.row_count else (0, 0)
    evidence = _only_file(folder, "evidence", schemas.evidence)
    dead_letters = _only_file(folder, "dead_letters", schemas.dead_letters)
    counts = count_rows([rows], evidence=[str(evidence)], dead_letters=[str(dead_letters)], tokens=tokens)
    return ChunkAttempt(
        folder=str(folder),
        evidence=_describe(evidence),
        dead_letters=_describe(dead_letters),
        counts=replace(counts, rows_in_windows=in_windows),
        seconds=time.monotonic() - started,
        stages=take_stage_seconds(),
    )


def _run_graph(
    rows: RowRange, settings: AuditSettings, schemas: OutputSchemas, folder: Path, on_rows: Callable[[int], None]
) -> tuple[int | None, int | None]:
    """Tokens, and rows in windows, where the runner counts them."""
    output = GraphOutput(
        evidence_prefix=str(folder / "evidence"),
        dead_letter_prefix=str(folder / "dead_letters"),
        evidence_schema=schemas.evidence,
        dead_letter_schema=schemas.dead_letters,
    )
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    build_graph(pipeline, row_ranges=[rows], settings=settings, output=output, distributed=False)
    with listening_for_rows(on_rows):
        result = pipeline.run()
        result.wait_until_finish()
    return counter_sum(result, TOKENS), counter_sum(result, ROWS_IN_WINDOWS)


def _only_file(folder: Path, prefix: str, schema: pa.Schema) -> Path:
    """The one file that the graph wrote with this prefix; an empty one where it wrote none."""
    written = sorted(folder.glob(f"{prefix}*.parquet"))
    if len(written) > 1:
        raise RuntimeError(f"a local chunk should write one {prefix} file, wrote {len(written)}: is the graph fused?")
    if written:
        return written[0]
    path = folder / f"{prefix}.parquet"
    pq.write_table(schema.empty_table(), path, compression="zstd")
    return path


def _describe(path: Path) -> OutputFile:
    """Name, rows, size and digest of a file, which is on disk for good afterwards."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return OutputFile(path.name, pq.read_metadata(path).num_rows, path.stat().st_size, sha256)

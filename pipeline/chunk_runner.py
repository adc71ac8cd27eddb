"""One chunk: one fused in-memory Beam run into an attempt folder."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from attribeam.logs.files import ArrowStorage
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.chunk_attempt import read_attempt
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.leak_check import check_leaks
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.pipeline.graph import GraphOutput, build_graph
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.stage_metrics import (
    TokenCounts,
    listening_for_rows,
    take_seen,
    take_stage_seconds,
    token_counts,
)


def run_chunk(
    rows: RowRange,
    *,
    settings: AuditSettings,
    schemas: OutputSchemas,
    folder: Path,
    on_rows: Callable[[int], None],
    fatal_rows: Mapping[int, str] | None = None,
) -> ChunkAttempt:
    """Audit the rows into a new ``folder``, and call ``on_rows`` with the number of rows that have finished since.

    ``fatal_rows`` would end this process, so they become dead letters; None before the last try, see ``ReadQALogs``.

    Raises:
        ReconciliationError: if audited rows and dead letters are not exactly the rows of the range.
        LeakError: if a file shows what should be masked.
    """
    started = time.monotonic()
    folder.mkdir(parents=True)
    take_stage_seconds()
    take_seen()
    counts = TokenCounts(0, 0, *(0, 0) if settings.has_probe else ())
    if rows.row_count:
        with listening_for_rows(on_rows):
            counts = _run_graph(rows, settings, schemas, folder, fatal_rows)
    attempt = read_attempt(rows, folder, schemas, counts)
    check_leaks(rows, folder.glob("*.parquet"), settings, ArrowStorage(), last_try=fatal_rows is not None)
    return replace(attempt, seconds=time.monotonic() - started, stages=take_stage_seconds())


def _run_graph(
    rows: RowRange,
    settings: AuditSettings,
    schemas: OutputSchemas,
    folder: Path,
    fatal_rows: Mapping[int, str] | None,
) -> TokenCounts:
    """What the runner counted."""
    output = GraphOutput(
        evidence_prefix=str(folder / "evidence"),
        dead_letter_prefix=str(folder / "dead_letters"),
        schemas=schemas,
    )
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    shutil.rmtree(pipeline.local_tempdir)  # only transforms of other languages use it; a killed worker would leave it
    build_graph(pipeline, row_ranges=[rows], settings=settings, output=output, fatal_rows=fatal_rows)
    result = pipeline.run()
    result.wait_until_finish()
    return token_counts(result, encoded=settings.encodes_rows, probed=settings.has_probe)

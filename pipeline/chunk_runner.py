"""One chunk: one fused in-memory Beam run into an attempt folder."""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from attribeam.logs.files import ArrowStorage
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.chunk_attempt import read_attempt
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt
from attribeam.pipeline.graph import build_graph
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.row_groups import RowGroup
from attribeam.transforms.stage_metrics import listening_for_rows, take_stage_seconds
from attribeam.transforms.write_group import write_group

_COUNTS_FILE = "counts"


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

    ``fatal_rows`` would end this process, so they become dead letters; None before the last try, see ``read_rows``.

    Raises:
        ReconciliationError: if audited rows and dead letters are not exactly the rows of the range.
        LeakError: if a file shows what should be masked.
    """
    started = time.monotonic()
    folder.mkdir(parents=True)
    take_stage_seconds()
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([]))
    shutil.rmtree(pipeline.local_tempdir)  # only transforms of other languages use it; a killed worker would leave it
    build_graph(
        pipeline,
        chunks=[(None, rows)],
        settings=settings,
        storage=ArrowStorage(),
        evidence=schemas.evidence,
        commit=partial(_leave, folder=folder, schemas=schemas),
        fatal_rows=fatal_rows,
    )
    with listening_for_rows(on_rows):
        pipeline.run().wait_until_finish()
    counts = pickle.loads((folder / _COUNTS_FILE).read_bytes())
    attempt = read_attempt(rows, folder, settings, counts, storage=ArrowStorage(), last_try=fatal_rows is not None)
    return replace(attempt, seconds=time.monotonic() - started, stages=take_stage_seconds())


def _leave(group: RowGroup, folder: Path, schemas: OutputSchemas) -> None:
    """Write a group into a folder; Beam returns nothing, so what was counted lies there, too."""
    write_group(group, folder, schemas.evidence, schemas.dead_letters, schemas.privacy)
    (folder / _COUNTS_FILE).write_bytes(pickle.dumps(group.counts))

"""``--dry-run``: checks the input, audits a few rows, and estimates the whole; writes nothing."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

from attribeam.logs.rows import RowRange
from attribeam.pipeline.audit_options import LOCAL, RunOptions
from attribeam.pipeline.chunks.chunk_attempt import ChunkAttempt
from attribeam.pipeline.chunks.configuration import output_schemas
from attribeam.pipeline.chunks.input_plan import CheckedFile, InputCheck, check_input
from attribeam.pipeline.chunks.output_directory import OutputDirectory
from attribeam.pipeline.console import readable_duration
from attribeam.pipeline.workers.devices import plan_model_workers, with_auto_dtype
from attribeam.pipeline.workers.worker_messages import RunRows, WorkerDied, describe_failure, describe_rows
from attribeam.pipeline.workers.worker_pool import WorkerPool, start_first_worker
from attribeam.pipeline.workers.worker_process import Worker
from attribeam.report.messages import ConsoleKind, event_line, print_lines
from attribeam.schemas.errors import RunError
from attribeam.transforms.audit_settings import AuditSettings

_SAMPLE_RANGES = 4
_RANGE_ROWS = 10


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the whole input will need, estimated from a sample of its rows."""

    files: int
    rows: int
    sampled_rows: int
    sampled_dead_letters: int
    spans: float
    tokens: float
    output_bytes: float
    load_seconds: float
    audit_seconds: float
    workers: int
    model_workers: int = 0


def run_dry(settings: AuditSettings, options: RunOptions) -> None:
    """Check input and output directory, audit a sample in a temporary folder, print an estimate.

    Raises:
        UsageError: if the input, the output directory or an earlier audit cannot be used.
        RunError: if the models cannot be loaded or the sample fails.
    """
    check = check_input(options.input, settings, table_version=options.table_version)
    settings = check.settings
    if options.runner == LOCAL:
        earlier = None
        if options.output:
            directory = OutputDirectory(Path(options.output))
            directory.check()
            earlier = directory.earlier_manifest()
        settings, options = with_auto_dtype(settings, options, earlier)
    estimate = _estimate(check, settings, options)
    machine = options.console is ConsoleKind.JSON
    print_lines(*([event_line("estimate", **asdict(estimate))] if machine else estimate_lines(estimate)))


def sample_ranges(files: Sequence[CheckedFile]) -> list[RowRange]:
    """Up to four short ranges spread evenly over all rows, each within a file; all rows if there are few."""
    total = sum(file.row_count for file in files)
    if total <= _SAMPLE_RANGES * _RANGE_ROWS:
        return [RowRange(file.path, 0, file.row_count) for file in files if file.row_count]
    ends = [*accumulate(file.row_count for file in files)]
    starts = [place * (total - _RANGE_ROWS) // (_SAMPLE_RANGES - 1) for place in range(_SAMPLE_RANGES)]
    found = []
    for start in starts:
        file = files[number := bisect_right(ends, start)]
        row = start - (ends[number] - file.row_count)
        found.append(RowRange(file.path, row, min(row + _RANGE_ROWS, file.row_count)))
    return found


def estimate_lines(estimate: Estimate) -> list[str]:
    """The estimate in aligned lines."""
    rate = estimate.rows / estimate.audit_seconds if estimate.audit_seconds else 0.0
    workers = f"{estimate.workers} worker{'s' if estimate.workers > 1 else ''}"
    if estimate.model_workers:
        workers += f", {estimate.model_workers} model worker{'s' if estimate.model_workers > 1 else ''}"
    return [
        "Dry run: nothing was written. Estimates (~) are from a short sample.",
        "",
        f"files           {estimate.files:>14,}",
        f"rows            {estimate.rows:>14,}",
        f"sampled rows    {estimate.sampled_rows:>14,}   of them {estimate.sampled_dead_letters:,} dead letters",
        f"target spans   ~{_rounded(estimate.spans):>14,}",
        f"tokens         ~{_rounded(estimate.tokens):>14,}",
        f"output         ~{_rounded(estimate.output_bytes / 1000):>14,} kB",
        f"time           ~{readable_duration(estimate.audit_seconds):>14}   with {workers} ({rate:.1f} rows/s), "
        f"after {readable_duration(estimate.load_seconds)} of loading",
    ]


def _estimate(check: InputCheck, settings: AuditSettings, options: RunOptions) -> Estimate:
    plan = plan_model_workers(settings, options) if options.runner == LOCAL else None
    pool = WorkerPool(settings, verbose=options.verbose, models=plan)
    started = time.monotonic()
    try:
        worker, models = start_first_worker(pool)
        load_seconds = time.monotonic() - started
        schemas = output_schemas(settings, models, check.extra_fields)
        ranges = sample_ranges(check.files)
        single = [replace(one, row_end=one.row_start + 1) for one in ranges[:1]]
        with TemporaryDirectory(prefix="attribeam-") as folder:
            runs = [
                RunRows(rows, schemas, f"{folder}/{number}") for number, rows in enumerate([*single, *ranges, *single])
            ]
            attempts = [_attempt(pool, worker, run) for run in runs]
    finally:
        pool.kill()
    workers = pool.worker_count(options, models) if plan is None else plan.cpu_workers
    sample = attempts[1:-1]  # the first row only warmed up, the last one shows the fixed cost of a chunk
    return _extrapolate(check, sample, attempts[-1:], options, load_seconds, workers, len(plan.devices) if plan else 0)


def _attempt(pool: WorkerPool, worker: Worker, run: RunRows) -> ChunkAttempt:
    """What a worker makes of some rows.

    Raises:
        RunError: if it fails.
    """
    outcome = pool.run(worker, run)
    if isinstance(outcome, WorkerDied):
        raise RunError(describe_failure(outcome, describe_rows(run.rows)))
    return outcome


def _extrapolate(
    check: InputCheck,
    sample: Sequence[ChunkAttempt],
    single: Sequence[ChunkAttempt],
    options: RunOptions,
    load_seconds: float,
    workers: int,
    model_workers: int,
) -> Estimate:
    """The estimate; with ``model_workers``, these and the workers are as slow together as the slower of the two."""
    sampled = sum(one.counts.rows for one in sample)
    scale = check.row_count / sampled if sampled else 0.0
    chunks = sum(math.ceil(file.row_count / options.rows_per_chunk) for file in check.files)
    chunk_seconds, chunk_bytes = sum(one.seconds for one in single), sum(map(_output_bytes, single))
    row_seconds = sum(max(0.0, one.seconds - chunk_seconds) for one in sample) * scale
    row_bytes = sum(max(0, _output_bytes(one) - chunk_bytes) for one in sample) * scale
    attributing = (stage.wall_seconds for one in sample for stage in one.stages if stage.stage == "attribute")
    model_seconds = sum(attributing) * scale if model_workers else 0.0
    workers = max(1, min(workers, chunks))
    own_seconds = (max(0.0, row_seconds - model_seconds) + chunks * chunk_seconds) / workers
    return Estimate(
        files=len(check.files),
        rows=check.row_count,
        sampled_rows=sampled,
        sampled_dead_letters=sum(one.counts.dead_lettered for one in sample),
        spans=sum(one.counts.span_count for one in sample) * scale,
        tokens=sum(one.counts.tokens or 0 for one in sample) * scale,
        output_bytes=row_bytes + chunks * chunk_bytes,
        load_seconds=load_seconds,
        audit_seconds=max(own_seconds, model_seconds / max(1, model_workers)),
        workers=workers,
        model_workers=model_workers,
    )


def _output_bytes(attempt: ChunkAttempt) -> int:
    return attempt.evidence.size_bytes + attempt.dead_letters.size_bytes


def _rounded(value: float) -> int:
    """Round to two significant digits, since a sample is no more precise."""
    return int(round(value, 1 - math.floor(math.log10(value)))) if value >= 1 else round(value)

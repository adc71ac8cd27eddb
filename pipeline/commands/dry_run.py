"""``--dry-run``: checks the input, audits a few rows, and estimates the whole; writes nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.configuration import OutputSchemas, output_schemas
from attribeam.pipeline.chunks.input_plan import CheckedFile, InputCheck, check_input
from attribeam.pipeline.chunks.output_directory import OutputDirectory
from attribeam.pipeline.chunks.worker_messages import ChunkAttempt, RunRows, WorkerDied
from attribeam.pipeline.failures import describe_failure, describe_rows
from attribeam.pipeline.options.audit_options import LOCAL, RunOptions
from attribeam.pipeline.options.devices import plan_model_workers
from attribeam.pipeline.outcome.previous_audit import check_previous
from attribeam.pipeline.progress import readable_duration
from attribeam.pipeline.workers.auto_dtype import with_auto_dtype
from attribeam.pipeline.workers.worker_pool import Worker, WorkerPool, start_first_worker
from attribeam.report.messages import ConsoleKind, event_line, print_lines
from attribeam.schemas.errors import RunError
from attribeam.schemas.run_manifest import RunManifest
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
    if options.previous is not None:
        check_previous(options.previous, check, settings.privacy)
    if options.runner == LOCAL:
        settings, options = with_auto_dtype(settings, options, _earlier_run(options))
    estimate = _estimate(check, settings, options)
    machine = options.console is ConsoleKind.JSON
    print_lines(*([event_line("estimate", **asdict(estimate))] if machine else estimate_lines(estimate)))


def _earlier_run(options: RunOptions) -> RunManifest | None:
    """The manifest of the run that the audit would continue.

    Raises:
        UsageError: if the output directory cannot be used.
    """
    if not options.output:
        return None
    directory = OutputDirectory(Path(options.output))
    directory.check()
    return directory.earlier_manifest()


def sample_ranges(files: Sequence[CheckedFile]) -> list[RowRange]:
    """Up to four short ranges spread evenly over all rows; all rows if there are few."""
    total = sum(file.row_count for file in files)
    if total <= _SAMPLE_RANGES * _RANGE_ROWS:
        return [RowRange(file.path, 0, file.row_count) for file in files if file.row_count]
    starts = [place * (total - _RANGE_ROWS) // (_SAMPLE_RANGES - 1) for place in range(_SAMPLE_RANGES)]
    return [_range_at(files, start) for start in starts]


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
        with TemporaryDirectory(prefix="attribeam-") as folder:
            sample = _run_sample(_Sampler(pool, worker, schemas, Path(folder)), sample_ranges(check.files))
    finally:
        pool.kill()
    if plan is not None:
        return _extrapolate(check, sample, options, load_seconds, workers=plan.turns, model_workers=len(plan.devices))
    return _extrapolate(check, sample, options, load_seconds, workers=pool.worker_count(options, models))


@dataclass(frozen=True, slots=True)
class _Sample:
    """Attempts over the sampled ranges, and one over a single row, which shows the fixed cost of a chunk."""

    attempts: tuple[ChunkAttempt, ...]
    single: ChunkAttempt | None


@dataclass(eq=False)
class _Sampler:
    """Runs one range after another in one worker."""

    pool: WorkerPool
    worker: Worker
    schemas: OutputSchemas
    folder: Path
    runs: int = 0

    def run(self, rows: RowRange) -> ChunkAttempt:
        """The attempt over ``rows``.

        Raises:
            RunError: if it fails.
        """
        self.runs += 1
        outcome = self.pool.run(self.worker, RunRows(rows, self.schemas, str(self.folder / str(self.runs))))
        if isinstance(outcome, WorkerDied):
            raise RunError(describe_failure(outcome, describe_rows(rows)))
        return outcome


def _run_sample(sampler: _Sampler, ranges: Sequence[RowRange]) -> _Sample:
    """Run the sample; the first single row only warms up, the last one is timed."""
    if not ranges:
        return _Sample((), None)
    one_row = RowRange(ranges[0].file, ranges[0].row_start, ranges[0].row_start + 1)
    sampler.run(one_row)
    return _Sample(attempts=tuple(sampler.run(rows) for rows in ranges), single=sampler.run(one_row))


def _extrapolate(
    check: InputCheck,
    sample: _Sample,
    options: RunOptions,
    load_seconds: float,
    *,
    workers: int,
    model_workers: int = 0,
) -> Estimate:
    """The estimate; with ``model_workers``, these and the workers are as slow together as the slower of the two."""
    counts = [attempt.counts for attempt in sample.attempts]
    sampled = sum(one.rows for one in counts)
    scale = check.row_count / sampled if sampled else 0.0
    chunks = sum(math.ceil(file.row_count / options.rows_per_chunk) for file in check.files)
    chunk_seconds = sample.single.seconds if sample.single else 0.0
    chunk_bytes = _output_bytes(sample.single) if sample.single else 0
    row_seconds = sum(max(0.0, attempt.seconds - chunk_seconds) for attempt in sample.attempts) * scale
    row_bytes = sum(max(0, _output_bytes(attempt) - chunk_bytes) for attempt in sample.attempts) * scale
    model_seconds = _model_seconds(sample.attempts) * scale if model_workers else 0.0
    workers = max(1, min(workers, chunks))
    own_seconds = (max(0.0, row_seconds - model_seconds) + chunks * chunk_seconds) / workers
    return Estimate(
        files=len(check.files),
        rows=check.row_count,
        sampled_rows=sampled,
        sampled_dead_letters=sum(one.dead_lettered for one in counts),
        spans=sum(one.span_count for one in counts) * scale,
        tokens=sum(one.tokens or 0 for one in counts) * scale,
        output_bytes=row_bytes + chunks * chunk_bytes,
        load_seconds=load_seconds,
        audit_seconds=max(own_seconds, model_seconds / max(1, model_workers)),
        workers=workers,
        model_workers=model_workers,
    )


def _model_seconds(attempts: Sequence[ChunkAttempt]) -> float:
    return sum(one.wall_seconds for attempt in attempts for one in attempt.stages if one.stage == "attribute")


def _output_bytes(attempt: ChunkAttempt) -> int:
    return attempt.evidence.size_bytes + attempt.dead_letters.size_bytes


def _range_at(files: Sequence[CheckedFile], row: int) -> RowRange:
    """A range that starts at a row, counted over all files, and ends with its file at the latest."""
    for file in files:
        if row < file.row_count:
            return RowRange(file.path, row, min(row + _RANGE_ROWS, file.row_count))
        row -= file.row_count
    raise ValueError(f"expected a row within the files, found row {row} after their end")


def _rounded(value: float) -> int:
    """Round to two significant digits, since a sample is no more precise."""
    return int(round(value, 1 - math.floor(math.log10(value)))) if value >= 1 else round(value)

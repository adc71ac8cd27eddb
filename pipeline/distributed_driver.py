"""The distributed run: submits the whole audit to a Beam runner once, then reconciles it like a local run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult, PipelineState, create_runner

from attribeam.logs.rows import RowRange
from attribeam.pipeline.audit_options import RunOptions
from attribeam.pipeline.configuration import (
    OutputSchemas,
    configuration_hash,
    output_schemas,
    with_pinned_model,
    with_template_text,
)
from attribeam.pipeline.console import print_outcome
from attribeam.pipeline.graph import GraphOutput, build_graph
from attribeam.pipeline.input_plan import InputPlan, check_input, check_input_unchanged, make_plan
from attribeam.pipeline.metrics import RunMetrics
from attribeam.pipeline.metrics_export import METRICS_JSON, METRICS_PROM, metrics_json, prometheus_text
from attribeam.pipeline.quality_gates import judge_gates
from attribeam.pipeline.reconciliation import count_rows
from attribeam.pipeline.run_record import FinishedRun, RunClock, make_run_manifest
from attribeam.pipeline.runner_options import read_runner_options
from attribeam.pipeline.worker_pool import WorkerPool, start_first_worker
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.run_manifest import AuditCounts, RunManifest, RunStatus
from attribeam.transforms.audit_settings import AuditSettings
from attribeam.transforms.beam_storage import BeamStorage, check_extra
from attribeam.transforms.stage_metrics import token_sums

_FOLDERS = ("evidence", "dead_letters")


def run_distributed(settings: AuditSettings, options: RunOptions) -> FinishedRun:
    """Audit the input on ``options.runner``; ``--setup_file ./setup.py`` ships this program to the workers.

    The models are first loaded once on this machine, so that errors show before anything is submitted.

    Raises:
        UsageError: if the input or the output cannot be used; nothing was written.
        RunError: if the run failed or its rows do not reconcile.
    """
    clock = RunClock()
    beam_options = _beam_options(options)
    check = check_input(options.input, settings, BeamStorage())
    _check_output(options)
    plan = make_plan(check, rows_per_chunk=options.rows_per_chunk)
    sent = with_template_text(settings)
    models = {**_load_here(sent, options), "device": f"{settings.model.device} of {options.runner}"}
    clock.mark_loaded()
    _clear_output(options)
    schemas = output_schemas(settings, models, check.extra_fields)
    result = _submit(beam_options, with_pinned_model(sent, models), options, plan, schemas)
    for rows in {chunk.rows.file: chunk.rows for chunk in plan.chunks}.values():
        check_input_unchanged(rows, BeamStorage())
    counts = _reconcile(options, plan, result, settings)
    manifest = make_run_manifest(
        status=RunStatus.DONE,
        settings=settings,
        options=options,
        plan=plan,
        models=models,
        configuration=configuration_hash(settings, models, check.extra_fields),
        clock=clock,
        counts=counts,
        own_rows=counts.rows,
    )
    return _finish(manifest, options)


def _finish(manifest: RunManifest, options: RunOptions) -> FinishedRun:
    """Write the manifest and the metrics, and print the summary."""
    _write_text(FileSystems.join(options.output, "run_manifest.json"), manifest.to_json())
    metrics = RunMetrics(manifest)
    finished = FinishedRun(metrics, judge_gates(options.gates, metrics))
    _write_text(FileSystems.join(options.output, METRICS_JSON), metrics_json(metrics, finished.verdicts))
    _write_text(FileSystems.join(options.output, METRICS_PROM), prometheus_text(metrics, finished.verdicts))
    print_outcome(finished, options)
    return finished


def _load_here(settings: AuditSettings, options: RunOptions) -> Mapping[str, str]:
    pool = WorkerPool(settings, verbose=options.verbose)
    try:
        return start_first_worker(pool)[1]
    finally:
        pool.kill()


def _beam_options(options: RunOptions) -> PipelineOptions:
    """Beam's own options, which its file systems get, too: they are asked before there is a pipeline.

    Raises:
        UsageError: if Beam has no such runner, or the file of its options is wrong.
    """
    from_file = read_runner_options(options.runner_options) if options.runner_options else []
    beam_options = PipelineOptions([f"--runner={options.runner}", *from_file, *options.beam_arguments])
    try:
        create_runner(options.runner)
    except (ValueError, ImportError, AttributeError) as error:
        raise UsageError(f"--runner {options.runner!r} is none of Beam's: {error}") from error
    FileSystems.set_options(beam_options)
    return beam_options


def _submit(
    beam_options: PipelineOptions,
    settings: AuditSettings,
    options: RunOptions,
    plan: InputPlan,
    schemas: OutputSchemas,
) -> PipelineResult:
    evidence, dead_letters = (FileSystems.join(options.output, folder) for folder in _FOLDERS)
    output = GraphOutput(
        evidence_prefix=FileSystems.join(evidence, "part"),
        dead_letter_prefix=FileSystems.join(dead_letters, "part"),
        schemas=schemas,
    )
    for folder in (evidence, dead_letters):
        if not FileSystems.exists(folder):
            FileSystems.mkdirs(folder)
    pipeline = beam.Pipeline(options=beam_options)
    ranges = [chunk.rows for chunk in plan.chunks if chunk.rows.row_count]
    build_graph(pipeline, row_ranges=ranges, settings=settings, output=output, distributed=True)
    try:
        result = pipeline.run()
        state = result.wait_until_finish()
    except RuntimeError as error:
        raise RunError(f"{options.runner} could not run the audit: {error}") from error
    if state not in (PipelineState.DONE, None):
        raise RunError(f"{options.runner} ended the run in state {state}; its own logs say why")
    return result


def _reconcile(options: RunOptions, plan: InputPlan, result: PipelineResult, settings: AuditSettings) -> AuditCounts:
    """Count rows in the written files; tokens and windows come from the runner's counters.

    Raises:
        ReconciliationError: if a row is missing from them, or there twice.
    """
    evidence, dead_letters = (_files_in(options.output, folder) for folder in _FOLDERS)
    ranges = [RowRange(file.path, 0, file.row_count) for file in plan.inputs]
    tokens, in_windows = token_sums(result, counted=settings.encodes_rows)
    counts = count_rows(ranges, evidence=evidence, dead_letters=dead_letters, tokens=tokens)
    return replace(counts, rows_in_windows=in_windows)


def _check_output(options: RunOptions) -> None:
    """Refuse to delete the files of an earlier run without being asked.

    Raises:
        UsageError: if there are some, and ``--overwrite`` was not given.
    """
    check_extra(options.output)
    there = _earlier_files(options)
    if there and not options.overwrite:
        raise UsageError(f"--output holds files already, such as {there[0]!r}; choose another, or give --overwrite")


def _clear_output(options: RunOptions) -> None:
    """Remove the files of an earlier run; called once the new one is ready to start."""
    if there := _earlier_files(options):
        FileSystems.delete(there)


def _earlier_files(options: RunOptions) -> list[str]:
    return [path for folder in _FOLDERS for path in _files_in(options.output, folder)]


def _files_in(output: str, folder: str) -> list[str]:
    """Our files in one folder of the output."""
    (result,) = FileSystems.match([FileSystems.join(output, folder, "part-*.parquet")])
    return sorted(metadata.path for metadata in result.metadata_list)


def _write_text(path: str, text: str) -> None:
    with FileSystems.create(path, "text/plain", CompressionTypes.UNCOMPRESSED) as file:
        file.write(text.encode())

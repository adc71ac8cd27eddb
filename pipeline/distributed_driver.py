"""The distributed run: submits the chunks that are not committed yet to a Beam runner, and reconciles manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState

from attribeam.pipeline.chunks.chunk_store import FOLDERS, ChunkStore, damage_notes
from attribeam.pipeline.chunks.configuration import (
    OutputSchemas,
    configuration_hash,
    output_schemas,
    with_pinned_model,
)
from attribeam.pipeline.chunks.input_plan import Chunk, InputPlan, check_input, check_input_unchanged, make_plan
from attribeam.pipeline.chunks.output_directory import OWN_FOLDERS, OutputDirectory
from attribeam.pipeline.distributed_chunks import commit_group, commit_isolated, take_up
from attribeam.pipeline.failures import RESUME_HINT
from attribeam.pipeline.graph import build_graph
from attribeam.pipeline.interruption import interrupted_once
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.pipeline.options.runner_options import beam_options
from attribeam.pipeline.outcome.console import print_outcome
from attribeam.pipeline.outcome.run_record import FinishedRun, RunClock, RunRecord, end_status, finish_run
from attribeam.pipeline.progress import choose_progress
from attribeam.pipeline.workers.worker_pool import WorkerPool, start_first_worker
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.run_manifest import ChunkManifest, RunManifest, RunStatus
from attribeam.transforms.audit_settings import AuditSettings, with_template_text
from attribeam.transforms.beam_storage import BeamStorage, check_extra


def run_distributed(settings: AuditSettings, options: RunOptions) -> FinishedRun:
    """Audit the input on ``options.runner``, resuming an earlier run of the same command.

    The models are first loaded once on this machine, so that errors show before anything is submitted.
    ``--setup_file ./setup.py`` ships this program to the workers.

    Raises:
        UsageError: if the input or the output cannot be used; nothing was written.
        RunError: if the run failed or its rows do not reconcile; committed chunks stay.
    """
    clock = RunClock()
    given = beam_options(options)
    check = check_input(options.input, settings, BeamStorage(), table_version=options.table_version)
    settings = check.settings
    root = _output_root(options)
    plan = make_plan(check, rows_per_chunk=options.rows_per_chunk)
    sent = with_template_text(settings)
    models = {**_load_here(sent, options), "device": f"{settings.model.device} of {options.runner}"}
    store = ChunkStore(root, configuration_hash(settings, models, check.extra_fields))
    kept = _finished(store, plan, options)
    clock.mark_loaded()
    record = RunRecord(
        settings=settings,
        options=options,
        plan=plan,
        models=models,
        configuration=store.configuration,
        clock=clock,
        earlier_rows=sum(manifest.counts.rows for manifest in kept.values()),
        put=store.put,
    )
    run = _DistributedRun(
        record=record,
        sent=with_pinned_model(sent, models),
        schemas=output_schemas(settings, models, check.extra_fields),
        store=store,
    )
    with interrupted_once():
        manifest = run.run(given, kept)
    finished = finish_run(AuditDirectory.open(root, BeamStorage()), manifest, options, store.put)
    print_outcome(finished, options, earlier_rows=record.earlier_rows)
    return finished


def _finished(store: ChunkStore, plan: InputPlan, options: RunOptions) -> dict[str, ChunkManifest]:
    """The chunks that need not be done again; says how many others there are, and changes nothing.

    Digests of files in an object store are not compared: it checks them itself.
    """
    progress = choose_progress(quiet=options.quiet, console=options.console)
    for note in plan.notes:
        progress.note(note)
    if options.overwrite:
        return {}
    kept, damaged = store.fitting(plan.chunks, digests="://" not in store.root)
    for note in damage_notes(damaged, kept):
        progress.note(note)
    return kept


@dataclass(frozen=True, slots=True)
class _DistributedRun:
    """One run: its ``record`` has the settings as they were given, ``sent`` are those that the workers get."""

    record: RunRecord
    sent: AuditSettings
    schemas: OutputSchemas
    store: ChunkStore

    def run(self, beam_options: PipelineOptions, kept: Mapping[str, ChunkManifest]) -> RunManifest:
        """Remove all chunks but the kept ones, submit them, and keep the status in the run manifest.

        The manifest says "running" before anything is removed.

        Raises:
            RunError: if the runner failed or rows do not reconcile.
        """
        plan = self.record.plan
        self.record.write(RunStatus.RUNNING, kept)
        try:
            self.store.keep_only(kept)
            missing = [chunk for chunk in plan.chunks if chunk.name not in kept]
            if missing:
                self.store.remove_results()
                self._submit(beam_options, missing)
            return self.record.write(RunStatus.DONE, self._reconciled())
        except BaseException as error:
            with suppress(OSError):
                self.record.write(end_status(error), self._committed())
            raise

    def _committed(self) -> dict[str, ChunkManifest]:
        """The chunks that are committed so far; none where those of another audit are not all removed yet."""
        try:
            return self.store.fitting(self.record.plan.chunks, digests=False)[0]
        except UsageError:
            return {}

    def _submit(self, beam_options: PipelineOptions, chunks: Sequence[Chunk]) -> None:
        pipeline = beam.Pipeline(options=beam_options)
        isolate = partial(commit_isolated, store=self.store, settings=self.sent, schemas=self.schemas)
        build_graph(
            pipeline,
            chunks,
            settings=self.sent,
            storage=BeamStorage(),
            evidence=self.schemas.evidence,
            commit=partial(commit_group, store=self.store, settings=self.sent, schemas=self.schemas),
            take_up=partial(take_up, store=self.store, isolate=isolate),
        )
        runner = self.record.options.runner
        try:
            result = pipeline.run()
            try:
                state = result.wait_until_finish()
            except KeyboardInterrupt:
                result.cancel()
                raise
        except RuntimeError as error:
            hides = self.sent.privacy.hides  # the message may hold texts
            reason = f"{type(error).__name__}; its own logs say more" if hides else str(error)
            raise RunError(f"{runner} could not run the audit: {reason}. {RESUME_HINT}") from (None if hides else error)
        if state not in (PipelineState.DONE, None):
            raise RunError(f"{runner} ended the run in state {state}; its own logs say why. {RESUME_HINT}")

    def _reconciled(self) -> dict[str, ChunkManifest]:
        """The manifests of all chunks, which hold every row of the input once; what else there is goes.

        Raises:
            RunError: if a chunk is missing or rows do not add up.
            LogReadError: if the input was changed meanwhile.
        """
        chunks = self.record.plan.chunks
        for rows in {chunk.rows.file: chunk.rows for chunk in chunks}.values():
            check_input_unchanged(rows, BeamStorage())
        finished, _ = self.store.fitting(chunks, digests=False)
        missing = [chunk.name for chunk in chunks if chunk.name not in finished]
        if missing:
            raise RunError(
                f"{self.record.options.runner} ended the run, but {len(missing)} of {len(chunks)} chunks are not in "
                f"{self.store.root!r}, first {missing[0]}; --output must be the same place for workers and for this "
                f"machine. {RESUME_HINT}"
            )
        self.record.check_reconciled(finished)
        self.store.keep_only(finished)
        return finished


def _output_root(options: RunOptions) -> str:
    """Where the output goes; a local path is made absolute, because workers may stand elsewhere.

    Raises:
        UsageError: if it cannot be used.
    """
    root = options.output if "://" in options.output else str(Path(options.output).resolve())
    check_extra(root)
    try:
        _check_foreign(root)
    except OSError as error:
        raise UsageError(f"--output {options.output!r} cannot be read: {error}") from error
    return root


def _check_foreign(root: str) -> None:
    """Refuse an output whose folders hold what this run must not remove; changes nothing."""
    if "://" not in root:
        OutputDirectory(Path(root)).check_foreign()
        return
    for folder in FOLDERS:
        for name in BeamStorage().sizes(f"{root.rstrip('/')}/{folder}"):
            if not OWN_FOLDERS[folder].fullmatch(name) and not name.startswith("."):
                raise UsageError(f"--output holds '{root}/{folder}/{name}', which no audit wrote; move it away")


def _load_here(settings: AuditSettings, options: RunOptions) -> Mapping[str, str]:
    pool = WorkerPool(settings, verbose=options.verbose)
    try:
        return start_first_worker(pool)[1]
    finally:
        pool.kill()

"""The distributed run: submits the chunks that are not committed yet to a Beam runner, and reconciles manifests.

What workers of a cluster do with a chunk before and after its rows stands here, too: take it up, commit or isolate it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn
from uuid import uuid4

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners import create_runner
from apache_beam.runners.runner import PipelineState

from attribeam.logs.files import ArrowStorage, LogStorage
from attribeam.logs.qa_log import QALog
from attribeam.pipeline.audit_options import RunOptions
from attribeam.pipeline.chunk_store import FOLDERS, ChunkAttempt, ChunkStore, read_attempt
from attribeam.pipeline.console import print_outcome
from attribeam.pipeline.input_plan import Chunk, check_input, check_input_unchanged, make_plan
from attribeam.pipeline.metrics import FinishedRun
from attribeam.pipeline.output_directory import OWN_FOLDERS, OutputDirectory
from attribeam.pipeline.run_record import RunClock, RunRecord, finish_run
from attribeam.pipeline.worker_pool import RowIsolation, WorkerPool, start_first_worker
from attribeam.pipeline.worker_process import RESUME_HINT
from attribeam.schemas.errors import AttribeamError, RunError, UsageError, did_you_mean
from attribeam.schemas.run_manifest import ChunkManifest
from attribeam.transforms.audit_answers import through_stages
from attribeam.transforms.audit_settings import AuditSettings, OutputSchemas, with_pinned_model, with_template_text
from attribeam.transforms.beam_storage import BeamStorage, check_extra
from attribeam.transforms.row_groups import RowGroup, write_group
from attribeam.transforms.stages import read_rows


def build_graph(
    pipeline: beam.Pipeline,
    chunks: Sequence[Chunk],
    *,
    settings: AuditSettings,
    storage: LogStorage,
    evidence: pa.Schema,
    take_up: Callable[[Chunk], bool],
    commit: Callable[[RowGroup], None],
) -> None:
    """Add the audit of ``chunks`` to ``pipeline``; ``commit`` gets the tables of each.

    The list is shuffled, less than 1 kB a chunk and no rows, and ``take_up`` says whether a chunk is to be audited.
    Each is committed as soon as it is finished, because nothing waits for others.
    """
    read = (
        pipeline
        | "ListChunks" >> beam.Create([RowGroup(chunk, [chunk.rows]) for chunk in chunks], reshuffle=False)
        | "SpreadChunks" >> beam.Reshuffle()
        | "TakeUp" >> beam.Filter(_taken_up, take_up)
        | "ReadRows" >> beam.Map(_started, settings, storage).with_output_types(RowGroup)
    )
    through_stages(read, settings, evidence) | "Commit" >> beam.Map(commit)


def _taken_up(group: RowGroup, take_up: Callable[[Chunk], bool]) -> bool:
    return take_up(group.chunk)


def _started(group: RowGroup, settings: AuditSettings, storage: LogStorage) -> RowGroup:
    return read_rows(replace(group, started=time.time()), settings, storage)


def beam_options(options: RunOptions) -> PipelineOptions:
    """Beam's own options, which its file systems get, too: they are asked before there is a pipeline.

    Beam drops an option that it does not know without a word, so a note names it; the runner's Java half may have it.
    Raises ``UsageError`` if Beam has no such runner, or an option does not take its value.
    """
    parsers: list[argparse.ArgumentParser] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    parsers[0].error = _refuse  # type: ignore[method-assign]
    known = [flag for action in parsers[0]._actions for flag in action.option_strings]
    for argument in parsers[0].parse_known_args(options.beam_arguments)[1]:
        if argument.startswith("--"):
            hint = did_you_mean(flag := argument.partition("=")[0], known)
            options.messages.say(f"Beam's Python half has no option {flag}{'; ' * bool(hint)}{hint}")
    given = PipelineOptions([f"--runner={options.runner}", *options.beam_arguments])
    try:
        create_runner(options.runner)
    except (ValueError, ImportError, AttributeError) as error:
        raise UsageError(f"--runner {options.runner!r} is none of Beam's: {error}") from error
    FileSystems.set_options(given)
    return given


def _refuse(message: str) -> NoReturn:
    raise UsageError(f"Beam does not take this option as it is: {message}")


def run_distributed(settings: AuditSettings, options: RunOptions) -> FinishedRun:
    """Audit the input on ``options.runner``, resuming an earlier run of the same command.

    The models are first loaded once on this machine, so that errors show before anything is submitted. ``--setup_file
    ./setup.py`` ships this program to the workers. Raises ``UsageError`` if the input or the output cannot be used;
    nothing was written; ``RunError`` if the run failed or its rows do not reconcile; committed chunks stay.
    """
    clock = RunClock()
    given = beam_options(options)
    check = check_input(options.input, settings, BeamStorage(), table_version=options.table_version)
    settings = check.settings
    root = _output_root(options)
    plan = make_plan(check, rows_per_chunk=options.rows_per_chunk)
    sent = with_template_text(settings)
    models = {**_load_here(sent, options), "device": f"{settings.model.device} of {options.runner}"}
    record = RunRecord(check, plan, settings, options, models=models, root=root, clock=clock)
    run = _DistributedRun(record, with_pinned_model(sent, models), given)
    manifest = record.run(run.run, run.committed)
    finished = finish_run(record, manifest)
    print_outcome(finished, options, earlier_rows=record.earlier_rows)
    return finished


@dataclass(frozen=True, slots=True)
class _DistributedRun:
    """One run: ``record`` has the settings as they were given, ``sent`` those that the workers get."""

    record: RunRecord
    sent: AuditSettings
    beam_options: PipelineOptions

    def run(self) -> dict[str, ChunkManifest]:
        """Submit the missing chunks, then remove all files but those of the plan's chunks; returns their manifests.

        Raises ``RunError`` if the runner failed, or a chunk is missing; ``LogReadError`` if the input was changed
        meanwhile.
        """
        if self.record.missing:
            self._submit(self.record.missing)
        chunks, store = self.record.plan.chunks, self.record.store
        for rows in {chunk.rows.file: chunk.rows for chunk in chunks}.values():
            check_input_unchanged(rows, BeamStorage())
        finished, _ = store.fitting(chunks, digests=False)
        missing = [chunk.name for chunk in chunks if chunk.name not in finished]
        if missing:
            raise RunError(
                f"{self.record.options.runner} ended the run, but {len(missing)} of {len(chunks)} chunks are not in "
                f"{store.root!r}, first {missing[0]}; --output must be the same place for workers and for this "
                f"machine. {RESUME_HINT}"
            )
        store.keep_only(finished)
        return finished

    def committed(self) -> dict[str, ChunkManifest]:
        """The chunks that are committed so far; none where those of another audit are not all removed yet."""
        try:
            return self.record.store.fitting(self.record.plan.chunks, digests=False)[0]
        except UsageError:
            return {}

    def _submit(self, chunks: Sequence[Chunk]) -> None:
        pipeline = beam.Pipeline(options=self.beam_options)
        store, schemas = self.record.store, self.record.schemas
        isolate = partial(commit_isolated, store=store, settings=self.sent, schemas=schemas)
        build_graph(
            pipeline,
            chunks,
            settings=self.sent,
            storage=BeamStorage(),
            evidence=schemas.evidence,
            commit=partial(commit_group, store=store, settings=self.sent, schemas=schemas),
            take_up=partial(take_up, store=store, isolate=isolate),
        )
        runner = self.record.options.runner
        try:
            result = pipeline.run()
            try:
                state = result.wait_until_finish()
            except KeyboardInterrupt:
                result.cancel()
                raise
        except (AttribeamError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - each runner has errors of its own
            kind, hides = type(error).__name__, self.sent.privacy.hides  # the message may hold texts
            reason = f"{kind}; its own logs say more" if hides else str(error) or kind
            raise RunError(f"{runner} could not run the audit: {reason}. {RESUME_HINT}") from (None if hides else error)
        if state not in (PipelineState.DONE, None):
            raise RunError(f"{runner} ended the run in state {state}; its own logs say why. {RESUME_HINT}")


def _output_root(options: RunOptions) -> str:
    """Where the output goes, if it can be used; a local path is made absolute: workers may stand elsewhere."""
    root = options.output
    check_extra(root)
    try:
        if "://" not in root:
            root = str(Path(root).resolve())
            OutputDirectory(Path(root)).check(is_marked=False)
            return root
        for folder in FOLDERS:
            for name in BeamStorage().sizes(f"{root.rstrip('/')}/{folder}"):
                if not OWN_FOLDERS[folder].fullmatch(name) and not name.startswith("."):
                    raise UsageError(f"--output holds '{root}/{folder}/{name}', which no audit wrote; move it away")
    except OSError as error:
        raise UsageError(f"--output {root!r} cannot be read: {error}") from error
    return root


def _load_here(settings: AuditSettings, options: RunOptions) -> Mapping[str, str]:
    pool = WorkerPool(settings, verbose=options.verbose)
    try:
        return start_first_worker(pool)[1]
    finally:
        pool.kill()


def take_up(chunk: Chunk, store: ChunkStore, isolate: Callable[[Chunk], None]) -> bool:
    """Whether a chunk is to be audited: not if an earlier attempt has committed it, since runners repeat bundles.

    A chunk that an earlier attempt took up and did not commit may have ended its worker, so it is left to ``isolate``.
    """
    if store.is_committed(chunk):
        return False
    if store.was_taken_up(chunk):
        isolate(chunk)
        return False
    store.mark_taken_up(chunk)
    return True


def commit_group(group: RowGroup, store: ChunkStore, settings: AuditSettings, schemas: OutputSchemas) -> None:
    """Write a group of evidence tables, read back what was written, and commit it.

    Raises ``ReconciliationError`` or ``LeakError`` as ``read_attempt``; ``OSError`` if the output cannot be written.
    """
    with TemporaryDirectory(prefix="attribeam-") as name:
        folder = Path(name)
        write_group(group, folder, schemas)
        attempt = read_attempt(group.chunk.rows, folder, settings, group.counts, storage=BeamStorage())
        _commit(store, group.chunk, replace(attempt, seconds=max(0.0, time.time() - group.started)))


def commit_isolated(chunk: Chunk, store: ChunkStore, settings: AuditSettings, schemas: OutputSchemas) -> None:
    """Audit one chunk in a child process and commit it; rows that end the child become dead letters.

    A runner of a cluster starts a chunk whose worker ended without a word again, on any machine, and again dies of the
    same row until it gives up. So it is gone about as by the local driver, see ``RowIsolation``. Raises ``RunError`` if
    no single row is to blame, or the child fails; ``DataError`` if the log was changed since the audit was planned.
    """
    rows = chunk.rows
    with QALog(rows.file, settings.log_options, BeamStorage(), rows.stamp).opened() as file:
        stamp = ArrowStorage().stamp(rows.file, file)  # as the child sees it
    pool = WorkerPool(settings, verbose=False)
    try:
        with TemporaryDirectory(prefix="attribeam-") as folder:
            _commit(store, chunk, RowIsolation(pool, schemas, Path(folder)).audit(replace(rows, stamp=stamp)))
    finally:
        pool.kill()


def _commit(store: ChunkStore, chunk: Chunk, attempt: ChunkAttempt) -> None:
    """Commit the chunk, and add it to Beam's counters of the run, in the namespace "attribeam"."""
    store.commit(chunk, attempt, mark=f"-{uuid4().hex[:12]}")
    counts = attempt.counts
    numbers = {
        "chunks_committed": 1,
        "rows_audited": counts.audited,
        "rows_dead_lettered": counts.dead_lettered,
        "tokens": counts.tokens or 0,
        **{f"spans.{support}": number for support, number in counts.spans.items()},
    }
    for name, number in numbers.items():
        Metrics.counter("attribeam", name).inc(number)

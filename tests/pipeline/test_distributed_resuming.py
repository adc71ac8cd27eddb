"""A distributed audit that is submitted again does what is missing and nothing else, whatever ended it."""

import shutil
import signal
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from tests.deploy.deadly_method import FATAL_WORD
from tests.logs.log_files import log_row, write_log
from tests.pipeline.audit_fixtures import mixed_rows, run_locally, save_tiny_audit
from tests.pipeline.audit_process import read_manifest
from tests.pipeline.distributed_audit import (
    ROWS_PER_CHUNK,
    DistributedAudit,
    chunk_manifests,
    counted_rows,
    named_files,
    written_files,
)
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.attribution.options import MethodOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline import distributed_driver
from attribeam.pipeline.audit_command import interrupted_once
from attribeam.pipeline.chunk_store import ChunkStore
from attribeam.pipeline.distributed_driver import commit_group, commit_isolated, take_up
from attribeam.pipeline.input_plan import Chunk
from attribeam.pipeline.output_directory import RESULTS
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import dead_letter_schema, evidence_schema
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.run_manifest import InputFile, RunStatus
from attribeam.transforms.audit_settings import AuditSettings, OutputSchemas, output_schemas
from attribeam.transforms.beam_storage import BeamStorage

ROWS = 28
STARTS = [0, 8, 16, 24]
GATES = ("evidence_mass_mean < 0",)


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    log = write_log(folder / "log.parquet", mixed_rows(ROWS), row_group_size=7)
    return DistributedAudit.of(save_tiny_audit(folder), log)


@pytest.fixture(scope="module")
def undisturbed(audit, tmp_path_factory):
    output = tmp_path_factory.mktemp("undisturbed")
    audit.run(output, fail_if=GATES)
    return output


@pytest.fixture
def interrupted(audit, tmp_path):
    """The output of a run that ended after two commits, in the middle of the third."""
    output = tmp_path / "interrupted"
    commits = []
    commit = ChunkStore.commit

    def third_fails(self, chunk, attempt, *, mark):
        commits.append(chunk.name)
        if len(commits) > 2:
            (output / "evidence" / f"{chunk.name}-{'0' * 12}.parquet").write_bytes(b"half of a fi")
            raise RuntimeError("the worker is gone")
        commit(self, chunk, attempt, mark=mark)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChunkStore, "commit", third_fails)
        with pytest.raises(RunError, match="the worker is gone"):
            audit.run(output)
    return output


def contents(output):
    return {name: (one.evidence.sha256, one.dead_letters.sha256) for name, one in chunk_manifests(output).items()}


def test_all_rows_are_committed_chunk_by_chunk_and_reconciled(undisturbed):
    manifest = read_manifest(undisturbed)
    assert (manifest.status, manifest.counts.rows, manifest.counts.is_reconciled) == (RunStatus.DONE, ROWS, True)
    assert [one.row_start for one in chunk_manifests(undisturbed).values()] == STARTS
    assert manifest.chunks == tuple(chunk_manifests(undisturbed))
    assert manifest.counts.tokens > 0
    assert written_files(undisturbed) == named_files(undisturbed)


def test_a_second_submission_reads_only_the_rows_that_are_missing(audit, interrupted, undisturbed):
    kept = chunk_manifests(interrupted)
    assert len(kept) == 2
    assert read_manifest(interrupted).status is RunStatus.FAILED
    with counted_rows() as starts:
        finished = audit.run(interrupted)
    assert sorted(starts) == sorted(set(STARTS) - {one.row_start for one in kept.values()})
    assert {name: chunk_manifests(interrupted)[name] for name in kept} == kept
    assert finished.metrics.manifest.counts.rows == ROWS
    assert contents(interrupted) == contents(undisturbed)
    assert written_files(interrupted) == named_files(interrupted)


def test_an_interrupted_audit_is_shown_as_far_as_it_got(interrupted):
    audit = AuditDirectory.open(interrupted)
    assert audit.incomplete is not None
    assert audit.counts.rows == 2 * ROWS_PER_CHUNK
    assert len(audit.evidence_files) == 2
    rows = {row for batch in audit.evidence_batches(["source_row"]) for row in batch["source_row"].to_pylist()}
    assert rows <= {row for one in chunk_manifests(interrupted).values() for row in range(one.row_start, one.row_end)}


def test_a_damaged_chunk_is_done_again_and_no_other(audit, undisturbed, tmp_path, capsys):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    before = contents(tmp_path)
    rotten = tmp_path / chunk_manifests(tmp_path)["00000-log-r0000000008"].evidence.path
    content = bytearray(rotten.read_bytes())
    content[len(content) // 2] ^= 1
    rotten.write_bytes(content)
    with counted_rows() as starts:
        audit.run(tmp_path, quiet=False)
    assert starts == [8]
    assert "damaged or missing in 1 of 4 finished chunks, first in 00000-log-r0000000008" in capsys.readouterr().err
    assert contents(tmp_path) == before
    assert written_files(tmp_path) == named_files(tmp_path)


def test_an_audit_that_loses_a_chunk_or_its_results_says_running_before(audit, undisturbed, tmp_path, monkeypatch):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    (tmp_path / chunk_manifests(tmp_path)["00000-log-r0000000008"].evidence.path).unlink()
    before = []
    keep_only = ChunkStore.keep_only

    def noted(self, kept):
        before.append((read_manifest(tmp_path).status, len(chunk_manifests(tmp_path))))
        keep_only(self, kept)

    def end(*_):
        assert [name for name in RESULTS if (tmp_path / name).exists()] == []
        raise KeyboardInterrupt

    monkeypatch.setattr(ChunkStore, "keep_only", noted)
    monkeypatch.setattr(distributed_driver._DistributedRun, "_submit", end)
    with pytest.raises(KeyboardInterrupt):
        audit.run(tmp_path)
    assert before == [(RunStatus.RUNNING, 4)]
    assert (read_manifest(tmp_path).status, len(chunk_manifests(tmp_path))) == (RunStatus.INTERRUPTED, 3)


def test_an_overwriting_run_that_ends_while_it_removes_another_audit_says_so(audit, undisturbed, tmp_path, monkeypatch):
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    other = replace(audit, settings=replace(audit.settings, max_text_chars=5000))
    monkeypatch.setattr(ChunkStore, "keep_only", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        other.run(tmp_path, overwrite=True)
    assert read_manifest(tmp_path).status is RunStatus.INTERRUPTED


def test_overwrite_does_all_chunks_again(audit, tmp_path, undisturbed):
    audit.run(tmp_path, rows_per_chunk=14)
    with counted_rows() as starts:
        audit.run(tmp_path, overwrite=True)
    assert sorted(starts) == STARTS
    assert contents(tmp_path) == contents(undisturbed)
    assert written_files(tmp_path) == named_files(tmp_path)


def test_a_chunk_has_the_same_bytes_as_in_a_local_run(audit, undisturbed, tmp_path):
    models = AuditDirectory.open(undisturbed).manifest.models
    for number, manifest in enumerate(chunk_manifests(undisturbed).values()):
        rows, schemas = (manifest.row_start, manifest.row_end), output_schemas(audit.settings, models, ())
        attempt = run_locally(manifest.source_file, audit.settings, tmp_path / str(number), rows=rows, schemas=schemas)
        for name in ("evidence", "dead_letters"):
            assert getattr(attempt, name).sha256 == getattr(manifest, name).sha256
        assert attempt.counts == manifest.counts


def test_a_group_that_a_runner_does_twice_is_committed_once(audit, tmp_path, undisturbed, monkeypatch):
    def twice(group, store, settings, schemas):
        made = group.with_rows([*group.rows])
        commit_group(made, store, settings, schemas)
        commit_group(made, store, settings, schemas)

    monkeypatch.setattr(distributed_driver, "commit_group", twice)
    audit.run(tmp_path)
    assert contents(tmp_path) == contents(undisturbed)
    assert written_files(tmp_path) == named_files(tmp_path)


def test_a_stage_that_loses_a_row_fails_the_run_and_commits_nothing_of_its_chunk(audit, tmp_path, monkeypatch):
    def without_letters(group, store, settings, schemas):
        commit_group(replace(group, rows=[*group.rows], dead_letters=[]), store, settings, schemas)

    monkeypatch.setattr(distributed_driver, "commit_group", without_letters)
    with pytest.raises(RunError, match="audited or dead-lettered exactly once"):
        audit.run(tmp_path)
    assert all(one.counts.is_reconciled for one in chunk_manifests(tmp_path).values())


def test_a_runner_that_leaves_out_a_chunk_fails_the_run(audit, tmp_path, monkeypatch):
    commit = ChunkStore.commit

    def all_but_one(self, chunk, attempt, *, mark):
        if chunk.rows.row_start:
            commit(self, chunk, attempt, mark=mark)

    monkeypatch.setattr(ChunkStore, "commit", all_but_one)
    with pytest.raises(RunError, match=r"1 of 4 chunks are not in .*first 00000-log-r0000000000"):
        audit.run(tmp_path)
    assert AuditDirectory.open(tmp_path).manifest.status is RunStatus.FAILED


@pytest.mark.parametrize("error", [ValueError("there is no such jar"), LookupError()])
def test_what_a_runner_raises_is_a_failed_run(audit, tmp_path, monkeypatch, error):
    monkeypatch.setattr(distributed_driver.beam.Pipeline, "run", Mock(side_effect=error))
    with pytest.raises(RunError, match=r"DirectRunner could not run the audit: (there is no such jar|LookupError)"):
        audit.run(tmp_path)


def test_output_that_cannot_be_a_directory_is_bad_usage(audit, tmp_path):
    output = tmp_path / "file"
    output.touch()
    with pytest.raises(UsageError, match="--output should be a directory"):
        audit.run(output)


class _Job:
    """A submitted job that never ends; a signal comes while it is waited for."""

    def __init__(self, number):
        self._number = number
        self.cancelled = 0

    def run(self):
        return self

    def wait_until_finish(self):
        signal.raise_signal(self._number)
        pytest.fail("the signal should have ended the wait")

    def cancel(self):
        signal.raise_signal(self._number)  # an impatient user; it must not keep the job from being cancelled
        self.cancelled += 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_the_job_and_the_manifest_says_interrupted(audit, tmp_path, monkeypatch, number):
    job = _Job(number)
    monkeypatch.setattr(distributed_driver, "build_graph", lambda *_, **__: None)
    monkeypatch.setattr(distributed_driver.beam, "Pipeline", lambda **_: job)
    before = signal.signal(number, signal.default_int_handler)  # under nohup, say, a signal may be ignored
    try:
        with pytest.raises(KeyboardInterrupt), interrupted_once():
            audit.run(tmp_path / "audit")
    finally:
        signal.signal(number, before)
    assert job.cancelled == 1
    manifest = read_manifest(tmp_path / "audit")
    assert manifest.status is RunStatus.INTERRUPTED


RANGE = 5
FATAL = 3
SCHEMAS = OutputSchemas(evidence_schema(has_mass=False), dead_letter_schema())


@pytest.fixture
def chunk(tmp_path):
    """A chunk of a log one row of which ends its process."""
    rows = [log_row(number) for number in range(RANGE)]
    rows[FATAL]["answer"] = f"The {FATAL_WORD} lit it."
    log = write_log(tmp_path / "log.parquet", rows)
    ranges = RowRange(log, 0, RANGE, stamp=BeamStorage().stamp(log))
    return Chunk("00000-log-r0000000000", ranges, InputFile(log, 10, RANGE, "aa"))


@pytest.fixture
def store(tmp_path):
    made = ChunkStore(str(tmp_path / "out"), "c")
    made.keep_only({})
    return made


@pytest.fixture
def take(tmp_path, store):
    """Takes a chunk up, or isolates it."""
    method = MethodOptions(method="tests.deploy.deadly_method:Deadly")
    settings = AuditSettings(parser=str(save_tiny_parser(tmp_path / "parser")), method=method)
    isolate = partial(commit_isolated, store=store, settings=settings, schemas=SCHEMAS)
    return partial(take_up, store=store, isolate=isolate)


def test_a_chunk_is_passed_on_by_its_first_attempt_and_isolated_by_the_second(take, store, chunk, tmp_path):
    assert take(chunk)
    assert not store.is_committed(chunk)
    assert not take(chunk)
    assert store.is_committed(chunk)
    (manifest,) = store.committed.manifests_by_name().values()
    assert (manifest.counts.rows, manifest.counts.audited, manifest.counts.dead_lettered) == (RANGE, RANGE - 1, 1)
    (letter,) = pq.read_table(tmp_path / "out" / manifest.dead_letters.path).to_pylist()
    assert (letter["source_row"], letter["reason"]) == (FATAL, "worker_died")
    assert "signal SIGKILL" in letter["message"]


def test_marks_do_not_outlive_a_run(take, store, chunk, tmp_path):
    take(chunk)
    store.keep_only({})
    assert not store.was_taken_up(chunk)
    assert list((tmp_path / "out" / "_chunks").iterdir()) == []

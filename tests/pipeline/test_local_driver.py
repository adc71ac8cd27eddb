"""The audit as a process: counts, provenance, determinism, and what a kill at any moment leaves."""

import errno
import json
import os
import shutil
import signal
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import psutil
import pyarrow.parquet as pq
import pytest
from tests.pipeline.audit_fixtures import tiny_audit
from tests.pipeline.audit_process import (
    PATIENCE_SECONDS,
    finished_chunks,
    has_only_our_lines,
    log_rows,
    output_digests,
    read_all,
    read_manifest,
    wait_until,
    write_log,
)

from attribeam.pipeline import local_driver
from attribeam.pipeline.chunk_store import ChunkStore
from attribeam.pipeline.output_directory import RESULTS
from attribeam.pipeline.run_record import RunRecord
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.run_manifest import RunStatus

ROWS = 18
FAULTY = {3: "answer", 9: "passages"}


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """Small models, and a log with two faulty rows and a repeated id."""
    rows = log_rows(ROWS)
    for row, column in FAULTY.items():
        rows[row][column] = None
    rows[ROWS - 1]["record_id"] = rows[1]["record_id"]
    return tiny_audit(tmp_path_factory.mktemp("audit"), rows)


@pytest.fixture(scope="module")
def undisturbed(audit, tmp_path_factory):
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    done = audit.run(output, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "rows read" in done.stdout
    assert has_only_our_lines(done.stderr), done.stderr
    return output


def test_every_row_is_audited_or_dead_lettered_once(undisturbed):
    evidence, letters = read_all(undisturbed / "evidence"), read_all(undisturbed / "dead_letters")
    reasons = dict(zip(letters["source_row"].to_pylist(), letters["reason"].to_pylist(), strict=True))
    assert reasons == {3: "empty_answer", 9: "no_passages", ROWS - 1: "duplicate_record_id"}
    audited = evidence["source_row"].to_pylist()
    assert audited == sorted(audited)
    assert set(audited) | set(reasons) == set(range(ROWS))
    assert set(evidence["team"].to_pylist()) == {"harbour"}


def test_the_run_manifest_says_what_was_read_with_which_models(undisturbed, audit):
    manifest = read_manifest(undisturbed)
    assert manifest.status is RunStatus.DONE
    assert (manifest.counts.rows, manifest.counts.audited, manifest.counts.dead_lettered) == (ROWS, ROWS - 3, 3)
    assert manifest.counts.span_count == read_all(undisturbed / "evidence").num_rows
    assert manifest.counts.tokens
    assert manifest.inputs[0].path == str(audit.log)
    assert {"layer", "parser", "torch_version"} <= set(manifest.models)
    assert len(manifest.chunks) == 5


def test_the_files_carry_provenance_and_nothing_that_changes_between_runs(undisturbed):
    metadata = pq.read_schema(next((undisturbed / "evidence").iterdir())).metadata
    assert {b"attribeam.schema_version", b"attribeam.layer", b"attribeam.parser"} <= set(metadata)
    assert json.loads(metadata[b"attribeam.settings"])["extra_columns"] == ["team"]
    assert not any(b"worker" in value or b"started" in value for value in metadata.values())


def test_the_same_command_again_finds_all_chunks_finished(undisturbed, audit, capfd):
    before = {path: path.stat().st_mtime_ns for path in (undisturbed / "evidence").iterdir()}
    assert audit.run_here(undisturbed, "--workers", "1") == 0
    assert f"{ROWS} of {ROWS} rows were finished by an earlier run" in capfd.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (undisturbed / "evidence").iterdir()} == before


@pytest.mark.parametrize(
    ("ending", "code"),
    [(KeyboardInterrupt(), 130), (RunError("no memory is left"), 1), (UsageError("there is no such model"), 2)],
)
def test_done_audit_with_a_rotten_chunk_stays_as_it_is_if_the_models_cannot_be_loaded(
    undisturbed, audit, tmp_path, monkeypatch, ending, code
):
    output = shutil.copytree(undisturbed, tmp_path / "out")
    sorted((output / "evidence").iterdir())[2].write_bytes(b"rotten")
    before = _contents(output)
    monkeypatch.setattr(local_driver, "start_first_worker", Mock(side_effect=ending))
    assert audit.run_here(output, "--workers", "1") == code
    assert _contents(output) == before


def test_a_night_that_is_no_longer_given_is_not_lost_unasked(audit, tmp_path, capfd):
    output, logs = tmp_path / "out", tmp_path / "logs"
    logs.mkdir()
    nights = [write_log(logs / f"{night}.parquet", log_rows(4, first=100 * night)) for night in range(3)]
    assert replace(audit, log=logs).run_here(output, "--workers", "1") == 0
    before = _contents(output)
    one_night = replace(audit, log=nights[0])
    assert one_night.run_here(output, "--workers", "1") == 2
    error = capfd.readouterr().err
    assert f"holds 2 finished chunks with 8 rows of {str(nights[1])!r}, {str(nights[2])!r}, first 00001-1-r" in error
    assert _contents(output) == before
    assert one_night.run_here(output, "--workers", "1", "--overwrite") == 0
    assert (read_manifest(output).counts.rows, finished_chunks(output)) == (4, 1)


def _contents(output):
    """All that lies in it; the file of the lock says who had it last."""
    paths = (path for path in output.rglob("*") if path.name != "_attribeam")
    return {str(path.relative_to(output)): path.read_bytes() if path.is_file() else b"" for path in paths}


def test_results_of_an_earlier_run_are_gone_when_the_rows_of_a_new_one_begin(undisturbed, audit, tmp_path, monkeypatch):
    output = shutil.copytree(undisturbed, tmp_path / "out")
    assert _results(output) == sorted(RESULTS)
    found = []

    def end_at_the_first_row(*_, **__):
        found.append((read_manifest(output).status, _results(output)))
        raise RunError("no memory is left")

    monkeypatch.setattr(local_driver._ChunkRun, "run", end_at_the_first_row)
    assert audit.run_here(output, "--workers", "1", "--overwrite") == 1
    assert found == [(RunStatus.RUNNING, [])]
    assert _results(output) == ["metrics.json", "metrics.prom"]
    assert json.loads((output / "metrics.json").read_text())["status"] == "failed"


def test_results_of_some_rows_are_gone_when_an_audit_goes_on(undisturbed, audit, tmp_path, monkeypatch):
    output = shutil.copytree(undisturbed, tmp_path / "out")
    last = max((output / "_chunks").iterdir())
    for path in (last, output / "evidence" / f"{last.stem}.parquet", output / "dead_letters" / f"{last.stem}.parquet"):
        path.unlink()
    monkeypatch.setattr(local_driver._ChunkRun, "run", Mock(side_effect=RunError("no memory is left")))
    assert audit.run_here(output, "--workers", "1") == 1
    assert _results(output) == ["metrics.json", "metrics.prom"]


def test_refused_options_leave_the_status_and_files_of_a_killed_audit(undisturbed, audit, tmp_path):
    output = shutil.copytree(undisturbed, tmp_path / "out")
    (output / "run_manifest.json").write_text(replace(read_manifest(output), status=RunStatus.RUNNING).to_json())
    before = sorted(output.rglob("*"))
    assert audit.run_here(output, "--workers", "1", "--token-evidence") == 2
    assert read_manifest(output).status is RunStatus.RUNNING
    assert sorted(output.rglob("*")) == before


def test_killed_driver_and_killed_worker_leave_the_records_of_an_undisturbed_run(undisturbed, audit, tmp_path):
    output = tmp_path / "out"
    _kill_driver_when(audit, output, lambda: finished_chunks(output) >= 1 and any((output / "_attempts").iterdir()))
    text = _kill_worker_when(audit, output, _new_attempt(output))
    assert "ended by signal SIGKILL at rows" in text
    assert "trying them again" in text
    assert "were finished by an earlier run" in text
    assert read_manifest(output).status is RunStatus.DONE
    assert output_digests(output) == output_digests(undisturbed)
    assert not (output / "_attempts").exists()


SIGNALS_AT_WRITES = [
    pytest.param({RunStatus.RUNNING: signal.SIGHUP}, id="terminal is closed"),
    pytest.param({RunStatus.RUNNING: signal.SIGINT, RunStatus.INTERRUPTED: signal.SIGINT}, id="Ctrl-C twice"),
    pytest.param({RunStatus.DONE: signal.SIGTERM}, id="SIGTERM after the last chunk"),
]


@pytest.mark.parametrize("signals", SIGNALS_AT_WRITES)
def test_manifest_says_interrupted_whenever_and_however_often_a_signal_comes(
    undisturbed, audit, tmp_path, monkeypatch, signals
):
    write = RunRecord.write

    def write_after_signal(record, status, finished):
        if status in signals:
            signal.raise_signal(signals[status])
        return write(record, status, finished)

    output = shutil.copytree(undisturbed, tmp_path / "out")
    monkeypatch.setattr(RunRecord, "write", write_after_signal)
    with _signals_ignored_by_pytest():
        assert audit.run_here(output, "--workers", "1") == 130
    assert read_manifest(output).status is RunStatus.INTERRUPTED


@contextmanager
def _signals_ignored_by_pytest():
    """A signal that the audit does not handle has no effect, and does not end the tests.

    Ctrl-C does what it does by default: a shell that starts the tests in the background has it ignored.
    """
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGHUP, signal.SIGTERM)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_full_disk_is_told_and_the_manifest_says_failed_without_any_free_space(
    undisturbed, audit, tmp_path, monkeypatch, capfd
):
    output = shutil.copytree(undisturbed, tmp_path / "out")

    put = ChunkStore.put

    def write_until_full(self, name, text):
        if '"status": "running"' not in text:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        put(self, name, text)

    monkeypatch.setattr(ChunkStore, "put", write_until_full)
    assert audit.run_here(output, "--workers", "1") == 1
    assert "the disk is full" in capfd.readouterr().err
    manifest = read_manifest(output)
    assert (manifest.status, manifest.counts.rows) == (RunStatus.FAILED, ROWS)


def test_audit_whose_summary_cannot_be_printed_is_done(undisturbed, audit, tmp_path, capfd):
    output, codes = shutil.copytree(undisturbed, tmp_path / "out"), []
    with suppress(OSError), Path("/dev/full").open("w", encoding="utf-8") as full, redirect_stdout(full):
        codes.append(audit.run_here(output, "--workers", "1", "--console", "json"))
    assert codes == [0]
    told = [json.loads(line).get("message", "") for line in capfd.readouterr().err.splitlines()][-1]
    assert "the audit is done, but its summary cannot be printed: standard output cannot be written to: " in told


@pytest.mark.parametrize(
    "more",
    [["--model"], ["--dry-run", "--model"], ["--model-workers", "1", "--model"]],
    ids=["audit", "dry run", "model worker"],
)
def test_a_model_that_cannot_be_loaded_is_bad_usage_and_leaves_nothing(audit, tmp_path, capfd, more):
    assert audit.run_here(tmp_path / "deep" / "out", *more, str(tmp_path / "nowhere")) == 2
    stderr = capfd.readouterr().err
    assert "nowhere" in stderr
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_ends_with_exit_code_1_and_keeps_what_was_finished(audit, tmp_path, capfd):
    log = write_log(tmp_path / "damaged.parquet", log_rows(12), row_group_size=4)
    _damage(log, row_group=1, column="answer")
    assert replace(audit, log=log).run_here(tmp_path / "out", "--workers", "1") == 1
    stderr = capfd.readouterr().err
    assert "rows 4 to 8" in stderr
    assert str(log) in stderr
    assert "start the same command again" in stderr
    assert "Traceback" not in stderr
    assert finished_chunks(tmp_path / "out") == 1


@pytest.mark.parametrize(
    ("options", "processes"), [((), "with 1 worker ("), (("--model-workers", "1"), "with 1 worker, 1 model worker (")]
)
def test_a_dry_run_estimates_and_writes_nothing(audit, tmp_path, options, processes, capfd):
    assert audit.run_here(tmp_path / "out", "--dry-run", "--workers", "1", *options) == 0
    said = capfd.readouterr()
    assert processes in said.out
    words = said.out.split()
    assert words[words.index("rows") + 1] == str(ROWS)
    assert "tokens" in words
    assert said.err == ""
    assert list(tmp_path.iterdir()) == []


def _damage(log, *, row_group, column):
    """Turn over the bits of one column's data; the footer stays as it is."""
    metadata = pq.read_metadata(log).row_group(row_group)
    chunks = (metadata.column(index) for index in range(metadata.num_columns))
    chunk = next(one for one in chunks if one.path_in_schema == column)
    start = (chunk.dictionary_page_offset or chunk.data_page_offset) + 20
    end = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size
    content = bytearray(log.read_bytes())
    content[start:end] = bytes(byte ^ 0xFF for byte in content[start:end])
    log.write_bytes(content)


def _results(output):
    return sorted(name for name in RESULTS if (output / name).exists())


def _new_attempt(output):
    """True from when a chunk is being worked at that was not before."""
    before = set((output / "_attempts").iterdir())
    return lambda: bool(set((output / "_attempts").iterdir()) - before)


def _kill_driver_when(audit, output, moment):
    """SIGKILL the driver, and see that its workers end by themselves."""
    with audit.start(output, "--workers", "2") as process:
        wait_until(process, moment)
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        _, alive = psutil.wait_procs(workers, timeout=PATIENCE_SECONDS)
    assert alive == []


def _kill_worker_when(audit, output, moment):
    """SIGKILL one worker; what the driver says, which must go on with another one."""
    with audit.start(output, "--workers", "1") as process:
        wait_until(process, moment)
        (worker,) = _workers(process)
        worker.kill()
        text, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, text
    return text


def _workers(driver):
    """The processes that were forked from the one that imports for them, or started by the driver itself."""
    children = [child for child in psutil.Process(driver.pid).children() if "tracker" not in " ".join(child.cmdline())]
    return [forked for child in children for forked in child.children()] or children

"""Audits with model workers: the same bytes as without them, resuming, and what a kill at any moment leaves."""

import signal
from dataclasses import replace

import psutil
import pytest
import torch
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

from attribeam.pipeline import worker_process
from attribeam.pipeline.model_workers import ModelWorkers
from attribeam.pipeline.worker_process import BlockStep, stop_import_server
from attribeam.schemas.run_manifest import RunStatus

ROWS = 14
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """Small models, and a log with two faulty rows."""
    rows = log_rows(ROWS)
    rows[3]["answer"] = rows[9]["passages"] = None
    return tiny_audit(tmp_path_factory.mktemp("audit"), rows)


@pytest.fixture(scope="module")
def plain(audit, tmp_path_factory):
    """What one process writes that does everything itself."""
    output = tmp_path_factory.mktemp("plain") / "out"
    assert audit.run_here(output, "--workers", "1") == 0
    return output


def test_two_model_workers_give_the_bytes_of_a_run_of_one_process(plain, audit, tmp_path, capfd):
    assert audit.run_here(tmp_path / "out", "--workers", "2", "--model-workers", "2") == 0
    assert output_digests(tmp_path / "out") == output_digests(plain)
    stderr = capfd.readouterr().err
    assert has_only_our_lines(stderr), stderr
    assert "model workers waited for rows" in stderr
    stages = read_manifest(tmp_path / "out").stages
    assert next(one for one in stages if one.stage == "attribute").wall_seconds > 0


def test_a_driver_and_a_model_worker_that_are_killed_leave_nothing_and_change_no_record(
    plain, audit, tmp_path, monkeypatch
):
    output = tmp_path / "out"
    with _started(audit, output) as process:
        wait_until(process, lambda: finished_chunks(output) >= 1 and any((output / "_attempts").iterdir()))
        processes = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_SECONDS)
    assert alive == []
    done, take, killed = finished_chunks(output), ModelWorkers.take, []

    def take_and_kill(self, worker, message):
        take(self, worker, message)
        if isinstance(message, BlockStep) and not killed:
            killed.append(message)
            worker.process.kill()

    monkeypatch.setattr(ModelWorkers, "take", take_and_kill)
    assert audit.run_here(output, "--workers", "1", "--model-workers", "1") == 0
    assert done < finished_chunks(output)
    assert killed
    assert output_digests(output) == output_digests(plain)


def test_ctrl_c_ends_all_processes_and_says_so(audit, tmp_path):
    output = tmp_path / "out"
    with _started(audit, output) as process:
        wait_until(process, lambda: finished_chunks(output) >= 1)
        processes = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130, text
    assert "Traceback" not in text
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_SECONDS)
    assert alive == []
    assert read_manifest(output).status is RunStatus.INTERRUPTED


KILLING_IMPORTS = """
import os
import pickle
import signal
from types import SimpleNamespace

import attribeam.pipeline.worker_imports
from attribeam.pipeline import model_workers

loads = pickle.loads

def loads_or_die(rows):
    given = loads(rows)
    if isinstance(given, tuple) and any(len(row.token_ids) - row.prompt_length > 80 for row in given[0]):
        os.kill(os.getpid(), signal.SIGKILL)
    return given

model_workers.pickle = SimpleNamespace(loads=loads_or_die, dumps=pickle.dumps)
"""


@pytest.fixture
def _deadly_long_answers(tmp_path, monkeypatch):
    """Model workers kill themselves when an answer has more than eighty tokens."""
    (tmp_path / "killing_imports.py").write_text(KILLING_IMPORTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(worker_process, "_IMPORTS", "killing_imports")
    monkeypatch.setattr(worker_process, "_GPU_DRIVERS", ())
    stop_import_server()
    yield
    stop_import_server()


@pytest.mark.usefixtures("_deadly_long_answers")
def test_a_row_that_kills_its_model_worker_is_a_dead_letter_and_no_other_record_differs(plain, audit, tmp_path, capfd):
    rows = log_rows(ROWS)
    rows[9]["passages"] = None
    rows[3]["answer"] = "Ferry three leaves at noon. " * 8
    deadly = replace(audit, log=write_log(tmp_path / "log.parquet", rows))
    output = tmp_path / "out"
    assert deadly.run_here(output, "--workers", "1", "--model-workers", "1") == 0
    stderr = capfd.readouterr().err
    letters = read_all(output / "dead_letters")
    found = zip(*(letters[name].to_pylist() for name in ("source_row", "stage", "reason")), strict=True)
    assert list(found) == [(3, "read", "worker_died"), (9, "validate", "no_passages")]
    assert stderr.count("a model worker ended by signal SIGKILL at rows 0 to 4") == 2
    assert "row 3 of" in stderr
    assert "ended its worker (signal SIGKILL) and became a dead letter" in stderr
    spans, expected = (read_all(one / "evidence").drop_columns(["source_file"]) for one in (output, plain))
    assert spans.equals(expected)


def _started(audit, output):
    return audit.start(output, "--workers", "1", "--model-workers", "1")


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("device", ["cuda", "all", "cuda:0"])
def test_gpus_that_workers_feed_give_the_bytes_of_one_process(device, audit, tmp_path):
    assert audit.run_here(tmp_path / "expected", "--device", "cuda", "--workers", "1") == 0
    assert audit.run_here(tmp_path / "out", "--device", device, "--workers", "2", "--model-workers", "2") == 0
    assert output_digests(tmp_path / "out") == output_digests(tmp_path / "expected")


@pytest.mark.gpu
@needs_gpu
def test_a_gpu_that_does_not_exist_is_named(audit, tmp_path, capfd):
    assert audit.run_here(tmp_path / "out", "--device", "cuda:0,cuda:99") == 2
    assert "there is no cuda:99, torch finds" in capfd.readouterr().err

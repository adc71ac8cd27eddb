"""Rows that end their worker process: the kernel killed it for memory, or native code crashed."""

import os
import shutil
import signal
from dataclasses import replace
from multiprocessing import forkserver

import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.pipeline.audit_process import AuditProcess, log_rows, output_digests, read_all, read_manifest, write_log
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.pipeline import worker_process
from attribeam.pipeline.chunk_store import ChunkStore
from attribeam.pipeline.worker_pool import RowIsolation
from attribeam.schemas.run_manifest import RunStatus

ROWS = 6
FATAL_WORD, HUNGRY_WORD = "kraken", "leviathan"
KILLING_IMPORTS = f"""
import os
import shutil
import signal
import attribeam.pipeline.worker_imports
from attribeam.transforms import stages

parse_each = stages.parse_each

def parse_or_die(parser, records):
    if any("{FATAL_WORD}" in one.answer for one in records):
        os.kill(os.getpid(), signal.SIGKILL)
    if any("{HUNGRY_WORD}" in one.answer for one in records):
        raise MemoryError
    return parse_each(parser, records)

stages.parse_each = parse_or_die
"""


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """An audit whose workers kill themselves, or run out of memory, when they parse an answer with a fatal word."""
    root = tmp_path_factory.mktemp("audit")
    (root / "killing_imports.py").write_text(KILLING_IMPORTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(root), prepend=":")
        patch.setattr(worker_process, "_IMPORTS", "killing_imports")
        patch.setattr(worker_process, "_GPU_DRIVERS", ())
        yield AuditProcess(save_tiny_model(root / "model"), save_tiny_parser(root / "parser"), root / "log")


def _with_answers(audit, answers):
    """The audit of a log whose rows have these answers, by row."""
    rows = log_rows(ROWS)
    for row, answer in answers.items():
        rows[row]["answer"] = answer
    return replace(audit, log=write_log(audit.log.with_name("log.parquet"), rows))


@pytest.fixture(scope="module")
def expected(audit, tmp_path_factory):
    """What is written where rows 1 and 4 have no answer, so that no worker sees it."""
    output = tmp_path_factory.mktemp("expected") / "out"
    assert _with_answers(audit, dict.fromkeys((1, 4))).run_here(output, "--workers", "1") == 0
    return output


def _reasons(letters):
    columns = (letters[name].to_pylist() for name in ("source_row", "stage", "reason"))
    return list(zip(*columns, strict=True))


def _evidence_digests(output):
    return [digest for name, digest in output_digests(output).items() if name.startswith("evidence/")]


def test_rows_that_end_their_worker_are_dead_letters_and_no_other_record_differs(audit, expected, tmp_path, capfd):
    output = tmp_path / "out"
    fatal = _with_answers(audit, {1: f"The {FATAL_WORD} ate it.", 4: f"The {HUNGRY_WORD} ate it."})
    assert fatal.run_here(output, "--workers", "2") == 0
    stderr = capfd.readouterr().err
    assert _reasons(read_all(output / "dead_letters")) == [(1, "read", "worker_died"), (4, "read", "worker_died")]
    assert len(_evidence_digests(output)) == 2
    assert _evidence_digests(output) == _evidence_digests(expected)
    counts = read_manifest(output).counts
    assert (counts.rows, counts.audited, counts.dead_lettered) == (ROWS, ROWS - 2, 2)
    assert "a worker process ended by signal SIGKILL at rows 0 to 4" in stderr
    assert "a worker process ended by a lack of memory at rows 4 to 6" in stderr
    assert "row 1 of" in stderr
    assert "row 4 of" in stderr


def test_import_server_that_is_killed_takes_the_workers_along_and_changes_no_record(
    audit, expected, tmp_path, monkeypatch
):
    commit = ChunkStore.commit

    def commit_and_kill(self, chunk, attempt):
        server = forkserver._forkserver._forkserver_pid if chunk.rows.row_start == 0 else None
        if server:
            os.kill(server, signal.SIGKILL)
            os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
        return commit(self, chunk, attempt)

    harmless = _with_answers(audit, dict.fromkeys((1, 4)))
    monkeypatch.setattr(ChunkStore, "commit", commit_and_kill)
    assert harmless.run_here(tmp_path / "out", "--workers", "2") == 0
    assert output_digests(tmp_path / "out") == output_digests(expected)


def test_models_that_change_before_a_chunk_is_tried_alone_fail_the_run(audit, tmp_path, monkeypatch, capfd):
    audit = replace(audit, model=shutil.copytree(audit.model, tmp_path / "model"))
    isolate = RowIsolation.audit

    def change_models(self, rows):
        card = audit.model / "tokenizer_config.json"
        card.write_text(card.read_text() + "\n")
        return isolate(self, rows)

    monkeypatch.setattr(RowIsolation, "audit", change_models)
    assert _with_answers(audit, {1: f"The {FATAL_WORD} ate it."}).run_here(tmp_path / "out", "--workers", "1") == 1
    assert "the models' files changed while the audit ran" in capfd.readouterr().err
    assert read_manifest(tmp_path / "out").counts.rows == ROWS - 4


def test_a_log_whose_every_row_kills_its_worker_fails_and_loses_none_of_them(audit, tmp_path, capfd):
    fatal = _with_answers(audit, dict.fromkeys(range(ROWS), FATAL_WORD))
    assert fatal.run_here(tmp_path / "out", "--workers", "1") == 1
    assert "the cause seems to lie outside the rows" in capfd.readouterr().err
    assert read_manifest(tmp_path / "out").status is RunStatus.FAILED
    assert list((tmp_path / "out").rglob("*.parquet")) == []

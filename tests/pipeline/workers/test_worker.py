"""A worker whose driver has no more use for it, and one paragraph for what goes wrong in it."""

from __future__ import annotations

import errno
import os
from multiprocessing import Pipe

import pytest

from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.worker_messages import ModelsLoaded, WorkerDied, WorkerFailed
from attribeam.pipeline.failures import (
    describe_failure,
    explain_chunk_failure,
    explain_load_failure,
    is_disk_full,
)
from attribeam.pipeline.workers import worker
from attribeam.schemas.errors import ModelLoadError
from attribeam.transforms.audit_settings import AuditSettings

MODELS = {"model": "tiny"}


@pytest.fixture(autouse=True)
def _no_models_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "load_models", lambda *_: MODELS)


def test_a_worker_that_is_ready_after_the_run_has_ended_ends_without_an_error() -> None:
    ours, theirs = Pipe()
    ours.close()
    worker.serve(theirs, AuditSettings())
    with pytest.raises(BrokenPipeError):
        theirs.send(None)


def test_a_worker_tells_its_models_before_it_is_told_to_end() -> None:
    ours, theirs = Pipe()
    ours.send(None)
    worker.serve(theirs, AuditSettings())
    assert ours.recv() == ModelsLoaded(MODELS)


ROWS = RowRange("logs/a.parquet", 2000, 4000)
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("error", [FULL, RuntimeError(f"Traceback ...\nOSError: {FULL}\n [while running 'Write']")])
def test_a_full_disk_is_told_even_if_beam_wrapped_it(error: Exception) -> None:
    assert is_disk_full(error)
    text = explain_chunk_failure(error, ROWS)
    assert "the disk is full" in text
    assert "rows 2000 to 4000 of 'logs/a.parquet'" in text
    assert "start the same command again" in text


def test_an_unreadable_file_is_named_without_beams_step() -> None:
    error = OSError("Corrupt snappy compressed data. [while running 'ReadRows/ParDo(ReadRows)']")
    text = explain_chunk_failure(error, ROWS)
    assert "'logs/a.parquet' could not be audited: Corrupt snappy compressed data." in text
    assert "while running" not in text
    assert "\n" not in text


def test_a_library_s_message_is_not_told_where_texts_are_hidden() -> None:
    error = ValueError("could not convert 'Marta lives here' [while running 'Write']")
    assert "Marta" in explain_chunk_failure(error, ROWS)
    text = explain_chunk_failure(error, ROWS, hides=True)
    assert "ValueError" in text
    assert "Marta" not in text


def test_a_file_that_would_be_too_large_is_the_output_and_not_the_log() -> None:
    text = explain_chunk_failure(RuntimeError(f"OSError: [Errno 27] {os.strerror(errno.EFBIG)}"), ROWS)
    assert "an output file would be too large" in text
    assert "rows 2000 to 4000 of 'logs/a.parquet' could not be written" in text
    assert "--input" not in text


def test_too_little_memory_has_its_own_way_out() -> None:
    assert "fewer --workers" in explain_chunk_failure(MemoryError(), ROWS)


def test_a_model_that_cannot_load_says_why() -> None:
    error = ModelLoadError("model 'x' has no config.json")
    assert explain_load_failure(error, AuditSettings()) == f"the attributor cannot be loaded: {error}"


def test_a_parser_that_cannot_load_is_told_with_both_options() -> None:
    assert "--parser 'bundled'" in explain_load_failure(FileNotFoundError("no such pipeline"), AuditSettings())


def test_a_killed_worker_is_told_by_its_signal() -> None:
    assert "signal SIGKILL while loading" in describe_failure(WorkerDied(-9), "while loading")


def test_what_a_worker_explains_is_passed_on() -> None:
    assert describe_failure(WorkerFailed("the disk is full"), "while loading") == "the disk is full"

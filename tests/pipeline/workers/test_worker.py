"""A worker whose driver has no more use for it, and one paragraph for what goes wrong in it."""

from __future__ import annotations

import errno
import os
from multiprocessing import Pipe
from typing import NoReturn

import pyarrow as pa
import pytest

from attribeam.attribution.methods.answer_context import LoadedModels
from attribeam.attribution.methods.registry import resolve_method
from attribeam.attribution.options import MethodOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline.chunks.configuration import OutputSchemas
from attribeam.pipeline.chunks.worker_messages import OUT_OF_MEMORY, ModelsLoaded, RunRows, WorkerDied, WorkerFailed
from attribeam.pipeline.failures import (
    describe_failure,
    explain_chunk_failure,
    explain_load_failure,
    is_disk_full,
)
from attribeam.pipeline.workers import model_worker, worker
from attribeam.pipeline.workers.model_messages import RunBlock
from attribeam.pipeline.workers.shared_block import SharedBlock
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


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("Traceback ...\npyarrow.lib.ArrowMemoryError: malloc of size 64 failed [while running 'Read']"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes."),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ],
)
def test_a_lack_of_memory_ends_the_worker_and_is_no_failure_of_its_chunk(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(worker, "_run", fail)
    ours, theirs = Pipe()
    ours.send(RunRows(ROWS, OutputSchemas(pa.schema([]), pa.schema([])), "folder"))
    with pytest.raises(MemoryError):
        worker.serve(theirs, AuditSettings())
    assert ours.recv() == ModelsLoaded(MODELS)
    assert not ours.poll()
    assert WorkerDied(OUT_OF_MEMORY).how == "a lack of memory"


def test_a_lack_of_memory_ends_a_model_worker_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes.")

    monkeypatch.setattr(model_worker, "_outcomes", fail)
    block = SharedBlock()
    block.write([])
    with pytest.raises(MemoryError):
        model_worker._run_block(RunBlock(1), block, resolve_method(MethodOptions()), LoadedModels(), waited=0.0)


def test_a_model_that_cannot_load_says_why() -> None:
    error = ModelLoadError("model 'x' has no config.json")
    assert explain_load_failure(error, AuditSettings()) == f"the attributor cannot be loaded: {error}"


def test_a_parser_that_cannot_load_is_told_with_both_options() -> None:
    assert "--parser 'bundled'" in explain_load_failure(FileNotFoundError("no such pipeline"), AuditSettings())


def test_a_killed_worker_is_told_by_its_signal() -> None:
    assert "signal SIGKILL while loading" in describe_failure(WorkerDied(-9), "while loading")


def test_what_a_worker_explains_is_passed_on() -> None:
    assert describe_failure(WorkerFailed("the disk is full"), "while loading") == "the disk is full"

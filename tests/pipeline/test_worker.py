"""A worker whose driver has no more use for it, and one paragraph for what goes wrong in it."""

import errno
import os
import pickle
from multiprocessing import Pipe
from threading import Barrier, get_ident

import pyarrow as pa
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.logs.log_files import log_row, write_log
from tests.pipeline.audit_fixtures import save_tiny_audit
from tests.pipeline.distributed_audit import ROWS_PER_CHUNK, DistributedAudit, chunk_manifests

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.methods.method import LoadedModels, resolve_method
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.logs.rows import RowRange
from attribeam.pipeline import model_workers, worker_pool, worker_process
from attribeam.pipeline.worker_pool import load_models
from attribeam.pipeline.worker_process import (
    OUT_OF_MEMORY,
    ModelsLoaded,
    RunRows,
    WorkerDied,
    explain_chunk_failure,
    is_disk_full,
    is_load_refusal,
)
from attribeam.schemas.errors import ModelLoadError, ModelUnavailableError
from attribeam.transforms.audit_settings import AuditSettings, OutputSchemas
from attribeam.transforms.stages import OwnModels

MODELS = {"model": "tiny"}


@pytest.fixture(autouse=True)
def _no_models_to_load(monkeypatch):
    monkeypatch.setattr(worker_pool, "load_models", lambda *_: MODELS)


def test_a_worker_that_is_ready_after_the_run_has_ended_ends_without_an_error():
    ours, theirs = Pipe()
    ours.close()
    worker_process.serve(worker_pool.serve, theirs, AuditSettings())
    with pytest.raises(BrokenPipeError):
        theirs.send(None)


def test_a_worker_tells_its_models_before_it_is_told_to_end():
    ours, theirs = Pipe()
    ours.send(None)
    worker_pool.serve(theirs, AuditSettings())
    assert ours.recv() == ModelsLoaded(MODELS)


ROWS = RowRange("logs/a.parquet", 2000, 4000)
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("error", [FULL, RuntimeError(f"cannot write\n{FULL}")])
def test_a_full_disk_is_told_even_if_a_library_wrapped_it(error):
    assert is_disk_full(error)
    text = explain_chunk_failure(error, ROWS)
    assert "the disk is full" in text
    assert "rows 2000 to 4000 of 'logs/a.parquet'" in text
    assert "start the same command again" in text


def test_an_unreadable_file_is_named_in_one_line():
    error = OSError("Corrupt snappy\n compressed data.")
    text = explain_chunk_failure(error, ROWS)
    assert "'logs/a.parquet' could not be audited: Corrupt snappy compressed data." in text
    assert "\n" not in text


def test_a_library_s_message_is_not_told_where_texts_are_hidden():
    error = ValueError("could not convert 'Marta lives here'")
    assert "Marta" in explain_chunk_failure(error, ROWS)
    text = explain_chunk_failure(error, ROWS, hides=True)
    assert "ValueError" in text
    assert "Marta" not in text


def test_a_file_that_would_be_too_large_is_the_output_and_not_the_log():
    text = explain_chunk_failure(RuntimeError(f"OSError: [Errno 27] {os.strerror(errno.EFBIG)}"), ROWS)
    assert "an output file would be too large" in text
    assert "rows 2000 to 4000 of 'logs/a.parquet' could not be written" in text
    assert "--input" not in text


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.lib.ArrowMemoryError("malloc of size 64 failed"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes."),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ],
)
def test_a_lack_of_memory_ends_the_worker_and_is_no_failure_of_its_chunk(error, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(worker_pool, "_run", fail)
    ours, theirs = Pipe()
    ours.send(RunRows(ROWS, OutputSchemas(pa.schema([]), pa.schema([])), "folder"))
    with pytest.raises(MemoryError):
        worker_pool.serve(theirs, AuditSettings())
    assert ours.recv() == ModelsLoaded(MODELS)
    assert not ours.poll()
    assert WorkerDied(OUT_OF_MEMORY).how == "a lack of memory"


def test_a_lack_of_memory_ends_a_model_worker_too(monkeypatch):
    def fail(*_):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes.")

    monkeypatch.setattr(model_workers, "attended", fail)
    options = MethodOptions()
    with pytest.raises(MemoryError):
        model_workers._run_block(pickle.dumps(([], [])), resolve_method(options), options, LoadedModels())


@pytest.mark.parametrize("fault", ["no directory", "damaged weights"])
def test_a_model_that_cannot_be_loaded_as_asked_is_no_passing_failure(tmp_path, fault):
    if fault == "damaged weights":
        weights = save_tiny_model(tmp_path / "broken") / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
    settings = AuditSettings(model=ModelOptions(model=str(tmp_path / "broken")))
    with pytest.raises(ModelLoadError, match="broken") as raised:
        load_models(settings)
    assert is_load_refusal(raised.value)


@pytest.mark.parametrize(
    "error",
    [ModelUnavailableError("no network"), MemoryError(), ConnectionResetError(), FULL, RuntimeError("a bug")],
    ids=["network", "memory", "connection", "disk", "bug"],
)
def test_what_may_go_well_the_next_time_is_no_bad_usage_whatever_it_is_wrapped_into(error):
    wrapped = ModelLoadError("the language model cannot be loaded")
    wrapped.__cause__ = error
    assert not is_load_refusal(error)
    assert is_load_refusal(wrapped) == (str(error) == "a bug")


THREADS, CHUNKS = 3, 6
SECONDS = 120


def test_a_model_is_loaded_once_in_a_process_of_several_threads(tmp_path, monkeypatch):
    rows = [log_row(number) for number in range(CHUNKS * ROWS_PER_CHUNK)]
    log = write_log(tmp_path / "log.parquet", rows)
    audit = DistributedAudit(save_tiny_audit(tmp_path), log, {"model": "tiny"})
    loads = []
    from_pretrained = AttentionModel.from_pretrained

    def noted(*given, **options):
        loads.append(given)
        return from_pretrained(*given, **options)

    threads = set()
    together = Barrier(2)
    load = OwnModels.__init__

    def meet(self, settings):
        if get_ident() not in threads and len(threads) < 2:
            threads.add(get_ident())
            together.wait(SECONDS)
        load(self, settings)

    monkeypatch.setattr(AttentionModel, "from_pretrained", noted)
    monkeypatch.setattr(OwnModels, "__init__", meet)
    threading = ("--direct_running_mode=multi_threading", f"--direct_num_workers={THREADS}")
    audit.run(tmp_path / "out", beam_arguments=threading)
    assert len(threads) == 2, "two threads should have met at the model"
    assert len(loads) == 1
    assert len(chunk_manifests(tmp_path / "out")) == CHUNKS

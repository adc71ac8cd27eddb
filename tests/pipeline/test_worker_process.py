"""The import server that workers are forked from, the plain path without it, and what is said of a failed chunk."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import forkserver
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from attribeam.logs.rows import RowRange
from attribeam.pipeline import worker_process
from attribeam.pipeline.worker_pool import WorkerPool
from attribeam.pipeline.worker_process import (
    WorkerDied,
    explain_chunk_failure,
    explain_load_failure,
    is_disk_full,
    is_load_refusal,
    stop_import_server,
)
from attribeam.schemas.errors import ModelLoadError, ModelUnavailableError, RunError
from attribeam.transforms.audit_settings import AuditSettings

PATIENCE_SECONDS = 60


@pytest.fixture
def _linux():
    if sys.platform != "linux":
        pytest.skip("elsewhere every worker starts on its own")


@pytest.fixture
def driver_file(_linux, tmp_path, monkeypatch):
    """Where the driver of a GPU would be, were there one."""
    path = tmp_path / "gpu"
    monkeypatch.setattr(worker_process, "_GPU_DRIVERS", (str(path),))
    return path


@pytest.mark.parametrize(
    ("beside", "method"),
    [("nothing", "forkserver"), ("a GPU", "spawn"), ("messages of libraries", "spawn"), ("a long path", "spawn")],
)
def test_workers_are_forked_unless_they_have_to_start_on_their_own(beside, method, driver_file, tmp_path, monkeypatch):
    if beside == "a GPU":
        driver_file.touch()
    if beside == "a long path":
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("deep" * 25)))
    context = worker_process.start_context(verbose=beside == "messages of libraries")
    assert context.get_start_method() == method


@pytest.fixture
def other_imports(tmp_path, monkeypatch):
    """The module that is imported for all workers."""
    stop_import_server()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(worker_process, "_IMPORTS", "imports_for_workers")
    yield tmp_path / "imports_for_workers.py"
    stop_import_server()


@pytest.mark.usefixtures("driver_file")
def test_process_that_imports_is_never_interrupted(other_imports):
    other_imports.write_text("")
    worker_process.start_import_server(1, verbose=False)
    status = Path(f"/proc/{forkserver._forkserver._forkserver_pid}/status").read_text()
    (blocked,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigBlk"))
    assert int(blocked, 16) & 1 << (signal.SIGINT - 1)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.usefixtures("driver_file")
def test_imports_that_fail_are_a_failed_audit(other_imports):
    other_imports.write_text("raise OSError('a library is missing')")
    pool = WorkerPool(AuditSettings(), verbose=False)
    with pytest.raises(RunError, match="ended before it had imported"):
        pool.start()
    pool.kill()


@pytest.mark.usefixtures("driver_file")
def test_interrupt_while_a_worker_starts_does_not_wait_for_it(other_imports, monkeypatch):
    other_imports.write_text("import signal; signal.pause()")
    monkeypatch.setattr(forkserver, "read_signed", Mock(side_effect=KeyboardInterrupt))
    pool = WorkerPool(AuditSettings(), verbose=False)
    with pytest.raises(KeyboardInterrupt):
        pool.start()
    ending = threading.Thread(target=pool.kill, daemon=True)
    ending.start()
    ending.join(60)
    assert not ending.is_alive()


ENDLESS_LIBRARY = """
import ctypes
import os
from pathlib import Path

Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
ctypes.PyDLL(None).sleep(600)  # keeps the interpreter's lock, as a library does while it is loaded
"""


@pytest.fixture
def endless_imports(_linux, tmp_path, monkeypatch):
    """A spaCy whose import takes ten minutes; the file says which process imports it."""
    (tmp_path / "spacy.py").write_text(ENDLESS_LIBRARY)
    pid_file = tmp_path / "pid"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PID_FILE", str(pid_file))
    return pid_file


def _importing_process(pid_file):
    """The process that imports, once it does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (pid_file.is_file() and pid_file.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return psutil.Process(int(pid_file.read_text()))


DRIVER = """
from attribeam.pipeline import worker_process

worker_process._GPU_DRIVERS = ()
worker_process.start_import_server(1, verbose=False)
input()
"""


LOADING_WORKER = """
import ctypes
import multiprocessing
import os
from pathlib import Path

from attribeam.pipeline.worker_process import end_with_driver

def load():
    end_with_driver()
    Path(os.environ["PID_FILE"]).write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(600)

multiprocessing.get_context("fork").Process(target=load).start()
"""


@pytest.mark.parametrize("program", [DRIVER, LOADING_WORKER], ids=["process that imports", "worker that loads"])
def test_what_a_driver_started_ends_with_it(program, endless_imports):
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as driver:
        started = _importing_process(endless_imports)
        driver.kill()
        assert psutil.wait_procs([started], timeout=PATIENCE_SECONDS)[1] == []


def test_signal_that_has_no_name_is_told_by_its_number():
    assert [WorkerDied(-number).how for number in (9, 39)] == ["signal SIGKILL", "signal 39"]


CHUNK = RowRange("logs/a.parquet", 2000, 4000)
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("error", [FULL, RuntimeError(f"cannot write\n{FULL}")])
def test_a_full_disk_is_told_even_if_a_library_wrapped_it(error):
    assert is_disk_full(error)
    text = explain_chunk_failure(error, CHUNK)
    assert "the disk is full" in text
    assert "rows 2000 to 4000 of 'logs/a.parquet'" in text
    assert "start the same command again" in text


def test_an_unreadable_file_is_named_in_one_line():
    error = OSError("Corrupt snappy\n compressed data.")
    text = explain_chunk_failure(error, CHUNK)
    assert "'logs/a.parquet' could not be audited: Corrupt snappy compressed data." in text
    assert "\n" not in text


def test_a_library_s_message_is_not_told_where_texts_are_hidden():
    error = ValueError("could not convert 'Marta lives here'")
    assert "Marta" in explain_chunk_failure(error, CHUNK)
    text = explain_chunk_failure(error, CHUNK, hides=True)
    assert "ValueError" in text
    assert "Marta" not in text


def test_a_file_that_would_be_too_large_is_the_output_and_not_the_log():
    text = explain_chunk_failure(RuntimeError(f"OSError: [Errno 27] {os.strerror(errno.EFBIG)}"), CHUNK)
    assert "an output file would be too large" in text
    assert "rows 2000 to 4000 of 'logs/a.parquet' could not be written" in text
    assert "--input" not in text


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


def test_lack_of_memory_for_a_library_is_no_fault_of_the_parser_that_needs_it():
    error = ValueError("parser 'bundled' fails with ImportError: libtorch.so: failed to map segment; save it again")
    assert not is_load_refusal(error)
    assert explain_load_failure(error, AuditSettings()).startswith("memory ran out while the models were loaded")

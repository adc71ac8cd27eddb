"""The import server that workers are forked from, and the plain path where it cannot run."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest

from attribeam.pipeline import import_server
from attribeam.pipeline.worker_pool import WorkerPool
from attribeam.schemas.errors import RunError
from attribeam.transforms.audit_settings import AuditSettings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every worker starts on its own")


@pytest.fixture
def driver_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the driver of a GPU would be, were there one."""
    path = tmp_path / "gpu"
    monkeypatch.setattr(import_server, "_GPU_DRIVERS", (str(path),))
    return path


@pytest.mark.usefixtures("driver_file")
def test_workers_are_forked_where_there_is_no_gpu() -> None:
    assert import_server.start_context(verbose=False).get_start_method() == "forkserver"


def test_workers_beside_a_gpu_start_on_their_own(driver_file: Path) -> None:
    driver_file.touch()
    assert import_server.start_context(verbose=False).get_start_method() == "spawn"


@pytest.mark.usefixtures("driver_file")
def test_workers_that_show_messages_of_libraries_start_on_their_own() -> None:
    assert import_server.start_context(verbose=True).get_start_method() == "spawn"


@pytest.mark.usefixtures("driver_file")
def test_workers_start_on_their_own_where_no_socket_fits_into_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("deep" * 25)))
    assert import_server.start_context(verbose=False).get_start_method() == "spawn"


@pytest.mark.usefixtures("driver_file")
def test_workers_start_on_their_own_under_a_python_without_the_private_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver, "_forkserver", object())
    assert import_server.start_context(verbose=False).get_start_method() == "spawn"
    import_server.stop_import_server()


@pytest.fixture
def other_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The module that is imported for all workers."""
    import_server.stop_import_server()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(import_server, "_IMPORTS", "imports_for_workers")
    yield tmp_path / "imports_for_workers.py"
    import_server.stop_import_server()


@pytest.mark.usefixtures("driver_file")
def test_process_that_imports_is_never_interrupted(other_imports: Path) -> None:
    other_imports.write_text("")
    import_server.start_import_server(1, verbose=False)
    status = Path(f"/proc/{forkserver._forkserver._forkserver_pid}/status").read_text()  # type: ignore[attr-defined]
    (blocked,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigBlk"))
    assert int(blocked, 16) & 1 << (signal.SIGINT - 1)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.usefixtures("driver_file")
def test_imports_that_fail_are_a_failed_audit(other_imports: Path) -> None:
    other_imports.write_text("raise OSError('a library is missing')")
    pool = WorkerPool(AuditSettings(), verbose=False)
    with pytest.raises(RunError, match="ended before it had imported"):
        pool.start()
    pool.kill()


@pytest.mark.usefixtures("driver_file")
def test_interrupt_while_a_worker_starts_does_not_wait_for_it(
    other_imports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: int) -> int:
        raise KeyboardInterrupt

    other_imports.write_text("import signal; signal.pause()")
    monkeypatch.setattr(forkserver, "read_signed", interrupt)
    pool = WorkerPool(AuditSettings(), verbose=False)
    with pytest.raises(KeyboardInterrupt):
        pool.start()
    ending = threading.Thread(target=pool.kill, daemon=True)
    ending.start()
    ending.join(60)
    assert not ending.is_alive()

"""Which worker processes are forked from one that has imported for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline import worker_start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every worker starts by itself")


@pytest.fixture
def driver_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the driver of a GPU would be, were there one."""
    path = tmp_path / "gpu"
    monkeypatch.setattr(worker_start, "_GPU_DRIVERS", (str(path),))
    return path


@pytest.mark.usefixtures("driver_file")
def test_workers_are_forked_where_there_is_no_gpu() -> None:
    assert worker_start.start_context(verbose=False).get_start_method() == "forkserver"


def test_workers_beside_a_gpu_start_by_themselves(driver_file: Path) -> None:
    driver_file.touch()
    assert worker_start.start_context(verbose=False).get_start_method() == "spawn"


@pytest.mark.usefixtures("driver_file")
def test_workers_that_tell_what_libraries_say_start_by_themselves() -> None:
    assert worker_start.start_context(verbose=True).get_start_method() == "spawn"

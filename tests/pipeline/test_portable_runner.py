"""The same graph on Beam's portable job service, with workers in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipeline.audit_fixtures import mixed_rows, output_in, run_locally, save_tiny_audit, with_token_budget
from tests.transforms.log_files import write_log

ROOT = Path(__file__).parents[2]
ROWS = 24
SECONDS_TO_START = 60
SECONDS_TO_RUN = 240


@pytest.fixture
def job_service(tmp_path: Path) -> Iterator[str]:
    """The endpoint of a job service on a free port; the service and all workers that it started end with the test."""
    port_file = tmp_path / "port"
    module = "apache_beam.runners.portability.local_job_service_main"
    with (tmp_path / "service.log").open("w") as log:
        service = subprocess.Popen(
            [sys.executable, "-m", module, "--port_file", str(port_file), "--staging_dir", str(tmp_path / "staging")],
            cwd=ROOT,
            env=environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield f"localhost:{wait_for_port(service, port_file)}"
    finally:
        os.killpg(service.pid, signal.SIGKILL)
        service.wait()


def wait_for_port(service: subprocess.Popen[bytes], port_file: Path) -> int:
    deadline = time.monotonic() + SECONDS_TO_START
    while not port_file.exists():
        log = port_file.with_name("service.log").read_text
        assert service.poll() is None, f"the job service ended: {log()}"
        assert time.monotonic() < deadline, f"the job service did not start: {log()}"
        time.sleep(0.1)
    return int(port_file.read_text())


def environment() -> dict[str, str]:
    """Workers import the packages from the checkout, and use one thread each."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def sorted_rows(folder: Path, prefix: str) -> list[dict[str, object]]:
    rows = [row for file in sorted(folder.glob(f"{prefix}-*.parquet")) for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: (row["source_row"], row.get("span_index", 0)))


def test_separate_worker_processes_give_the_records_of_a_local_run(tmp_path: Path, job_service: str) -> None:
    settings = with_token_budget(save_tiny_audit(tmp_path), 1)  # each row alone: batches cannot round differently
    file = write_log(tmp_path / "log.parquet", mixed_rows(ROWS), row_group_size=7)
    local, portable = tmp_path / "local", tmp_path / "portable"
    local.mkdir()
    portable.mkdir()
    run_locally(file, settings, output_in(local))
    command = [
        *(sys.executable, "-m", "tests.pipeline.submit_portable_job"),
        *(job_service, file, settings.model.model, settings.parser, str(portable)),
    ]
    submitted = subprocess.run(
        command, cwd=ROOT, env=environment(), timeout=SECONDS_TO_RUN, capture_output=True, text=True, check=False
    )
    log = (tmp_path / "service.log").read_text()
    assert submitted.returncode == 0, submitted.stderr + log
    assert (portable / "workers").exists(), "the stages should run in worker processes"
    for prefix in ("evidence", "dead_letters"):
        assert sorted_rows(local, prefix) == sorted_rows(portable, prefix)
    audited = {row["source_row"] for row in sorted_rows(portable, "evidence")}
    assert len(sorted_rows(portable, "dead_letters")) + len(audited) == ROWS

"""The command as it is after a plain ``pip install``: without any package of an extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.logs.log_files import log_row, write_log

ROOT = Path(__file__).parents[2]
EXTRAS = ("accelerate", "bitsandbytes", "flash_attn", "matplotlib", "opentelemetry", "prometheus_client", "psutil")


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, str]:
    """The environment of processes that cannot import the packages of extras, nor can those that they start."""
    folder = tmp_path / "without_extras"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS!r}))\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**kept, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}


def attribeam(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "attribeam", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)


def test_packages_of_extras_are_missing_in_this_test(plain: dict[str, str]) -> None:
    for name in EXTRAS:
        found = subprocess.run([sys.executable, "-c", f"import {name}"], env=plain, capture_output=True, check=False)
        assert found.returncode == 1


def test_audit_and_report_need_no_extra(tmp_path: Path, plain: dict[str, str]) -> None:
    log = write_log(tmp_path / "log.parquet", [log_row(0), log_row(1, answer=None)])
    output, page = tmp_path / "audit", tmp_path / "page.html"
    audited = attribeam("audit", "--input", log, "--output", str(output), "--workers", "1", env=plain)
    assert (audited.returncode, "Traceback" in audited.stderr) == (0, False), audited.stderr
    assert pq.read_table(output / "evidence").num_rows
    assert pq.read_table(output / "dead_letters").num_rows == 1
    reported = attribeam("report", "--audit", str(output), "--output", str(page), env=plain)
    assert (reported.returncode, page.exists()) == (0, True), reported.stderr

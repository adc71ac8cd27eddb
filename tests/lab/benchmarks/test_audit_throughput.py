"""The benchmark of whole audits: what is kept."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from lab.benchmarks import audit_throughput
from lab.benchmarks.machine import ProcessRun


def test_folder_to_keep_audits_in_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit_throughput, "run_measured", lambda _: ProcessRun(0, 2.0, 1.0, 2**20, ""))
    keep = tmp_path / "audits" / "kept"
    monkeypatch.setattr(sys, "argv", ["audit_throughput", "--rows", "3", "5", "--keep", str(keep)])
    assert audit_throughput.main() == 0
    assert [len(list(keep.glob(f"attribeam-{rows}-*/qa_logs.parquet"))) for rows in (3, 5)] == [1, 1]
    assert "rows/s x 1.67, peak memory x 1.00" in capsys.readouterr().out


def test_interrupted_benchmark_leaves_no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> ProcessRun:
        assert len(list(tmp_path.glob("attribeam-3-*/qa_logs.parquet"))) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(audit_throughput, "run_measured", interrupted)
    monkeypatch.setattr(sys, "argv", ["audit_throughput", "--rows", "3"])
    with pytest.raises(KeyboardInterrupt):
        audit_throughput.main()
    assert not list(tmp_path.iterdir())

"""An audit of a Delta table: one version, also when the table goes on, and no row that was deleted."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.logs.lakes import dated_rows, with_deletion_vector
from tests.pipeline.audit_process import AuditProcess, read_all
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_logs import AuditedLogs
from attribeam.schemas import RowSource
from attribeam.schemas.run_manifest import RunManifest

deltalake = pytest.importorskip("deltalake", reason="the extra 'delta' is not installed")


def test_audit_reads_one_version_and_goes_on_with_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = with_deletion_vector(tmp_path / "lake" / "qa", [0, 3])
    models = save_tiny_model(tmp_path / "model"), save_tiny_parser(tmp_path / "parser")
    audit, output = AuditProcess(*models, root.parent), tmp_path / "out"
    assert audit.run_here(output, "--workers", "1", "--rows-per-chunk", "3") == 0
    assert f"the Delta table '{root}' is read at version 0: 1 of 1 files" in capfd.readouterr().err
    manifest = RunManifest.from_json((output / "run_manifest.json").read_text())
    assert manifest.counts.rows == manifest.inputs[0].row_count == 4
    assert manifest.options["tables"] == [
        {"kind": "delta", "root": str(root), "version": 0, "deletes_rows": True},
    ]
    evidence = read_all(output / "evidence")
    assert dict(zip(evidence["source_row"].to_pylist(), evidence["record_id"].to_pylist(), strict=True)) == {
        row: f"ferry-{number}" for row, number in enumerate((1, 2, 4, 5))
    }
    logs = AuditedLogs.of(AuditDirectory.open(output))
    (answer,) = logs.answers(frozenset({RowSource(manifest.inputs[0].path, 2)}))
    assert answer.record_id == "ferry-4"

    deltalake.write_deltalake(str(root), dated_rows(2, first=6), mode="append")
    capfd.readouterr()
    assert audit.run_here(output, "--workers", "1", "--rows-per-chunk", "3", "--table-version", "0") == 0
    assert "4 of 4 rows were finished by an earlier run" in capfd.readouterr().out
    assert audit.run_here(output, "--table-version", "7") == 2
    assert "cannot be read at version 7" in capfd.readouterr().err

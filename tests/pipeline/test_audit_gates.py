"""Quality gates and metrics of real audits: new ones, finished ones, and one that failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas.run_manifest import RunManifest
from tests.attribution.tiny_models import save_tiny_model
from tests.pipeline.audit_process import AuditProcess, read_all
from tests.pipeline.small_log import log_rows, write_log
from tests.pipeline.test_metrics import samples
from tests.transforms.tiny_parser import save_tiny_parser

ROWS = 6
GATES = ("--fail-if", "dead_letter_share > 0.1", "--fail-if", "rows < 1", "--fail-if", "spans < 1000000")


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> AuditProcess:
    """Small models, and a log whose second row has no answer."""
    root = tmp_path_factory.mktemp("gates")
    rows = log_rows(ROWS)
    rows[1]["answer"] = None
    return AuditProcess(
        save_tiny_model(root / "model"), save_tiny_parser(root / "parser"), write_log(root / "log.parquet", rows)
    )


def test_gates_are_judged_on_a_new_audit_and_again_on_the_finished_one(
    audit: AuditProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    for done_before, more in ((0, ("--no-report",)), (ROWS, ())):
        assert audit.run_here(output, "--workers", "1", *GATES, *more) == 3
        assert (output / "report.html").exists() == (not more)
        captured = capfd.readouterr()
        failed = [line for line in captured.err.splitlines() if "quality gate" in line]
        assert len(failed) == 2
        assert failed[0].endswith("dead_letter_share is 0.1666666667, the limit is 0.1")
        assert "spans < 1000000" in failed[1]
        assert ("were finished by an earlier run" in captured.out) == (done_before > 0)
        assert "metrics.prom" in captured.out
        _check_metrics(output)
    assert RunManifest.from_json((output / "run_manifest.json").read_text()).status == "done"


def _check_metrics(output: Path) -> None:
    """Both files tell what the evidence holds."""
    fields = json.loads((output / "metrics.json").read_text())
    evidence = read_all(output / "evidence")
    assert fields["status"] == "done"
    assert fields["metrics"]["spans"] == evidence.num_rows
    assert fields["metrics"]["dead_letters.empty_answer"] == 1
    assert fields["metrics"]["evidence_mass_mean"] == pytest.approx(
        sum(evidence["evidence_mass"].to_pylist()) / evidence.num_rows
    )
    assert [gate["failed"] for gate in fields["quality_gates"]] == [True, False, True]
    read = samples((output / "metrics.prom").read_text())
    assert read["attribeam_quality_gate_failed", (("gate", "dead_letter_share > 0.1"),)] == 1
    assert read["attribeam_dead_letters", (("reason", "empty_answer"),)] == 1

"""An audit is compared with an earlier one only if both have answers in common; that is found out first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.report.made_audit import made_audit

from attribeam.logs.privacy.redactor import MASK
from attribeam.pipeline.chunks.input_plan import check_input
from attribeam.pipeline.command_line import main
from attribeam.pipeline.outcome.previous_audit import check_previous
from attribeam.schemas.errors import UsageError
from attribeam.transforms.audit_settings import AuditSettings


def test_an_audit_with_one_common_answer_is_accepted(tmp_path: Path) -> None:
    now, before = made_audit(tmp_path / "now"), made_audit(tmp_path / "before", record_ids=["train-1", "ferry-2"])
    check_previous(str(before.root), check_input([str(now.log)], AuditSettings()))


def test_ids_that_the_earlier_audit_masked_are_found(tmp_path: Path) -> None:
    ids = [f"row {row}: marta@harbour-post.example" for row in range(2)]
    now, before = made_audit(tmp_path / "now", record_ids=ids), made_audit(tmp_path / "before", record_ids=ids)
    masked = [f"row {row}: {MASK * 26}" for row in range(2)]
    hidden = made_audit(tmp_path / "hidden", record_ids=masked)
    manifest = json.loads((hidden.root / "run_manifest.json").read_text())
    manifest["options"]["privacy"] = {"redact": True}
    (hidden.root / "run_manifest.json").write_text(json.dumps(manifest))
    for previous in (before, hidden):
        check_previous(str(previous.root), check_input([str(now.log)], AuditSettings()))


def test_an_audit_of_other_answers_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    now, before = made_audit(tmp_path / "now"), made_audit(tmp_path / "before", record_ids=["train-1"])
    with pytest.raises(UsageError, match="none of its 1 record ids is in --input; the first is 'train-1'"):
        check_previous(str(before.root), check_input([str(now.log)], AuditSettings()))
    asked = ["audit", "--input", str(now.log), "--output", str(tmp_path / "out"), "--previous", str(before.root)]
    assert main(asked) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("more", [("--no-report",), ("--runner", "DirectRunner")])
def test_a_comparison_that_no_page_would_show_is_refused(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = made_audit(tmp_path / "made")
    asked = ["audit", "--input", str(made.log), "--output", str(tmp_path / "out"), "--previous", str(made.root), *more]
    assert main(asked) == 2
    assert "attribeam report --previous" in capsys.readouterr().err

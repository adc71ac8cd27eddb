"""An audit is compared with an earlier one only if both have answers in common; that is found out first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.report.made_audit import MadeAudit, made_audit

from attribeam.logs.privacy.redactor import MASK
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.pipeline.chunks.input_plan import check_input
from attribeam.pipeline.command_line import main
from attribeam.pipeline.outcome.previous_audit import check_previous
from attribeam.schemas.errors import UsageError
from attribeam.transforms.audit_settings import AuditSettings


def test_an_audit_with_one_common_answer_is_accepted(tmp_path: Path) -> None:
    now, before = made_audit(tmp_path / "now"), made_audit(tmp_path / "before", record_ids=["train-1", "ferry-2"])
    check_previous(str(before.root), check_input([str(now.log)], AuditSettings()), PrivacySettings())


IDS = [f"row {row}: marta@harbour-post.example" for row in range(2)]
MASKED = [f"row {row}: {MASK * 26}" for row in range(2)]
REDACT = PrivacySettings(redact=True)


def redacted_audit(folder: Path) -> MadeAudit:
    """An audit of ``IDS`` that masked them."""
    hidden = made_audit(folder, record_ids=MASKED)
    manifest = json.loads((hidden.root / "run_manifest.json").read_text())
    manifest["options"]["privacy"] = REDACT.recorded()
    (hidden.root / "run_manifest.json").write_text(json.dumps(manifest))
    return hidden


def test_ids_are_compared_as_both_audits_write_them(tmp_path: Path) -> None:
    now, before = made_audit(tmp_path / "now", record_ids=IDS), made_audit(tmp_path / "before", record_ids=IDS)
    check = check_input([str(now.log)], AuditSettings())
    check_previous(str(before.root), check, PrivacySettings())
    check_previous(str(redacted_audit(tmp_path / "hidden").root), check, REDACT)


def test_masks_that_only_one_audit_has_do_not_matter_where_ids_have_none(tmp_path: Path) -> None:
    now, before = made_audit(tmp_path / "now"), made_audit(tmp_path / "before")
    check_previous(str(before.root), check_input([str(now.log)], AuditSettings()), REDACT)


def test_an_audit_that_masked_other_ids_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now, plain = made_audit(tmp_path / "now", record_ids=IDS), made_audit(tmp_path / "plain", record_ids=IDS)
    hidden = redacted_audit(tmp_path / "hidden")
    for before, more, complaint in (
        (plain, ["--redact"], "was audited without masks, this one is to be audited with --redact,"),
        (hidden, [], "was audited with --redact, this one is to be audited without masks,"),
        (
            hidden,
            ["--redact", "--redact-pattern", "row [01]"],
            "to be audited with --redact and --redact-pattern ['row [01]']",
        ),
    ):
        output = tmp_path / "out"
        asked = ["audit", "--input", str(now.log), "--output", str(output), "--previous", str(before.root), *more]
        assert main(asked) == 2
        said = capsys.readouterr().err
        assert f"--previous {before.root} should have ids that this audit writes" in said
        assert complaint in said
        assert "marta@" not in said
        assert not output.exists()


def test_an_audit_of_other_answers_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    now, before = made_audit(tmp_path / "now"), made_audit(tmp_path / "before", record_ids=["train-1"])
    with pytest.raises(UsageError, match=r"none of the 1 record ids of .* is in --input; the first is 'train-1'"):
        check_previous(str(before.root), check_input([str(now.log)], AuditSettings()), PrivacySettings())
    asked = ["audit", "--input", str(now.log), "--output", str(tmp_path / "out"), "--previous", str(before.root)]
    assert main(asked) == 2
    assert main([*asked, "--dry-run"]) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("more", [("--no-report",), ("--runner", "DirectRunner")])
def test_a_comparison_that_no_page_would_show_is_refused(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = made_audit(tmp_path / "made")
    asked = ["audit", "--input", str(made.log), "--output", str(tmp_path / "out"), "--previous", str(made.root), *more]
    assert main(asked) == 2
    assert "attribeam report --previous" in capsys.readouterr().err

"""Marks of an audit's page as judged answers, and their way into ``attribeam evaluate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.evaluation.calibration.marked_ferries import CARS, LEAVES, answer_marks, claim_marks, save
from tests.report.made_audit import ANSWER, MadeAudit, made_audit

from attribeam.evaluation.datasets.marked_spans import load_marks
from attribeam.pipeline.command_line import main
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas.errors import DataError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeAudit:
    return made_audit(tmp_path_factory.mktemp("marked"))


def test_marked_claims_are_the_ranges_that_people_looked_at(made: MadeAudit, tmp_path: Path) -> None:
    file = save(tmp_path / "marks.jsonl", [*claim_marks([0, 1]), *answer_marks([2])])
    fine, lacking, whole = load_marks(file, AuditDirectory.open(made.root)).answers
    assert (fine.record.record_id, fine.record.answer, fine.judged) == ("ferry-0", ANSWER, (LEAVES, CARS))
    assert fine.is_supported
    assert [one.chars for one in lacking.unsupported or ()] == [CARS]
    assert not lacking.is_supported
    assert (whole.unsupported, whole.judged, whole.answer_supported) == (None, None, True)


def test_answers_that_are_not_there_any_more_are_skipped(made: MadeAudit, tmp_path: Path) -> None:
    file = save(tmp_path / "marks.jsonl", answer_marks([0, 77]))
    found = load_marks(file, AuditDirectory.open(made.root))
    assert [one.record.record_id for one in found.answers] == ["ferry-0"]
    assert [one.reason for one in found.skipped] == ["not_in_audit"]
    gone = made_audit(tmp_path / "gone")
    gone.log.unlink()
    assert [one.reason for one in load_marks(file, AuditDirectory.open(gone.root)).skipped] == [
        "text_gone",
        "not_in_audit",
    ]


def test_a_claim_beyond_its_answer_is_refused(made: MadeAudit, tmp_path: Path) -> None:
    file = save(tmp_path / "marks.jsonl", [{**answer_marks([0])[0], "char_start": 40, "char_end": 400}])
    with pytest.raises(DataError, match="ends beyond its answer"):
        load_marks(file, AuditDirectory.open(made.root))


def test_evaluate_scores_against_marks(made: MadeAudit, tmp_path: Path) -> None:
    file, output = save(tmp_path / "marks.jsonl", claim_marks([0, 1, 2])), tmp_path / "figures.json"
    asked = ["evaluate", "--dataset", "marks", "--data", str(file), "--audit", str(made.root), "--method", "novelty"]
    assert main([*asked, "--output", str(output), "--bootstrap-draws", "20"]) == 0
    figures = json.loads(output.read_text(encoding="utf-8"))
    assert figures["dataset"] == "marks"
    assert list(figures["data_sha256"]) == ["marks.jsonl"]
    assert figures["baselines"][0]["answers"] == 3


@pytest.mark.parametrize(
    "asked",
    [("--dataset", "marks"), ("--dataset", "log", "--audit", "x"), ("--dataset", "marks", "--audit", "nowhere")],
)
def test_marks_need_their_audit_and_nothing_else_does(
    asked: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = save(tmp_path / "marks.jsonl", answer_marks([0]))
    assert main(["evaluate", "--data", str(file), *asked]) == 2
    assert "--audit" in capsys.readouterr().err or "nowhere" in asked

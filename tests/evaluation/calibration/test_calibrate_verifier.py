"""``attribeam calibrate`` for an audit by a verifier: thresholds, the blend with the bundled verdict, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.evaluation.calibration.marked_ferries import claim_marks, ferry_audit, save

from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, load_verdict_model
from attribeam.attribution.verdict.verified import Blend, calibrated_verifier
from attribeam.pipeline.command_line import main

ANSWERS = 120
VERIFIER = {"verifier": "org/own", "verifier_revision": "abc"}


def calibrate(folder: Path, *more: str, answers: int = ANSWERS, **models: str) -> int:
    audit = ferry_audit(folder / "audit", ANSWERS, models={**VERIFIER, **models})
    marks = save(folder / "marks.jsonl", claim_marks(range(answers)))
    arguments = ["--audit", str(audit.root), "--marks", str(marks), "--output", str(folder / "own")]
    return main(["calibrate", *arguments, *more])


def test_thresholds_of_a_verifier_stand_between_the_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate(tmp_path) == 0
    found = calibrated_verifier(str(tmp_path / "own"))
    assert found is not None
    assert (found.verifier, found.identity, found.bundled) == ("org/own", {"verifier_revision": "abc"}, "")
    assert found.claims == found.answers == Blend()
    assert 0.35 < found.answer_risk < 0.55
    assert 0.45 < found.unsupported < 0.65
    assert found.unsupported <= found.supported
    text = capsys.readouterr().out
    assert "answers: risk from" in text
    assert f"attribeam audit --verdict {tmp_path / 'own'}\n" in text


def test_blend_counts_both_scores_and_names_the_bundled_verdict(tmp_path: Path) -> None:
    bundled = ferry_audit(tmp_path / "bundled", ANSWERS)
    assert calibrate(tmp_path, "--blend", str(bundled.root)) == 0
    found = calibrated_verifier(str(tmp_path / "own"))
    assert found is not None
    assert found.bundled == load_verdict_model(BUNDLED_VERDICT).digest[:16]
    for blend in (found.claims, found.answers):  # both audits have the same scores here, so both count alike
        assert blend.verifier == pytest.approx(blend.bundled, abs=1e-5)
        assert blend.verifier > 0.3
    assert found.unsupported <= found.supported


@pytest.mark.parametrize(
    ("models", "answers", "complaint"),
    [
        (
            {"verdict_calibration": "0"},
            ANSWERS,
            "was judged by a calibrated verifier; audit again with --verdict org/own",
        ),
        ({"verdict_band": "(0.1, 0.6)"}, ANSWERS, "was judged by a verifier in a band"),
        ({}, 30, "5 more to go"),
    ],
)
def test_audit_that_tells_too_little_of_the_verifier_is_refused(
    models: dict[str, str], answers: int, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert calibrate(tmp_path, answers=answers, **models) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("count", "verdict", "complaint"),
    [
        (ANSWERS - 1, "bundled", "--blend should have the same marked answers and claims as --audit"),
        (ANSWERS, "smollm2-135m", "should be an audit by the bundled verdict, was judged by smollm2-135m"),
    ],
)
def test_audit_that_cannot_be_blended_in_is_refused(
    count: int, verdict: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ferry_audit(tmp_path / "other", count)
    file = other.root / "run_manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    manifest["options"]["method"] = {"verdict": verdict}
    file.write_text(json.dumps(manifest), encoding="utf-8")
    assert calibrate(tmp_path, "--blend", str(other.root)) == 2
    assert complaint in capsys.readouterr().err


def test_blend_says_nothing_to_an_audit_without_a_verifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = ferry_audit(tmp_path / "plain", ANSWERS)
    marks = save(tmp_path / "marks.jsonl", claim_marks(range(ANSWERS)))
    arguments = ["--audit", str(made.root), "--marks", str(marks), "--output", str(tmp_path / "own")]
    assert main(["calibrate", *arguments, "--blend", str(made.root)]) == 2
    assert "--blend is for an audit by a verifier" in capsys.readouterr().err

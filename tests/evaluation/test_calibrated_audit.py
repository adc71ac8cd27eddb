"""From an audit over marks to thresholds, by a verifier too, and on to an audit with them."""

import csv
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.evaluation.marked_ferries import claim_marks, ferry_audit, judged_by, save

from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, load_verdict_model
from attribeam.attribution.verdict.verified import Blend, calibrated_verifier
from attribeam.evaluation.thresholds import MarkedItems, call_figures, choose_threshold, fit_threshold
from attribeam.pipeline.command_line import main

TOWNS = ("Aln", "Brigg", "Carrow", "Denholm", "Eskdale", "Farne", "Garth", "Holm", "Ister", "Jarrow", "Kelby", "Luss")
ANSWERS = (
    "The mill in {town} grinds oats for the bakers of the harbour.",
    "Oats are ground in {town}, and the bakers of the harbour buy them.",
    "The mill in {town} grinds oats, and its owner also keeps a small museum of clocks.",
    "The mill in {town} burns coal that trains bring from the northern pits.",
)
COLUMNS = (
    "record_id", "source_file", "source_row", "span_index", "char_start", "char_end", "text", "support", "risk", "mark",
    "label", "note", "reviewer", "marked_at", "audit",
)  # fmt: skip
"""What the page writes of each mark."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Two audits of one log, the second with thresholds that were fitted to marks on the first."""

    first: Path
    verdict: Path
    second: Path
    summary: str

    @property
    def thresholds(self):
        return load_verdict_model(self.verdict).thresholds


def mill_log(path):
    """Four answers about each of twelve towns: two that the passages support, and two with something of their own."""
    rows = []
    for number, (town, answer) in enumerate(product(TOWNS, ANSWERS)):
        mill = f"The mill in {town} grinds oats. The bakers of the harbour buy them every morning."
        passages = [mill, f"A bridge leads to the mill in {town}. It is closed when the river is high."]
        asked = {"record_id": f"mill-{number}", "question": f"What does the mill in {town} do?"}
        rows.append({**asked, "passages": passages, "answer": answer.format(town=town)})
    pq.write_table(pa.Table.from_pylist(rows), path)


def claims(audit):
    rows = ds.dataset(audit / "evidence").to_table().to_pylist()
    return [row for row in rows if row["claim_index"] == row["span_index"] and row["support_score"]]


def risks(audit):
    return {str(row["record_id"]): row["answer_risk"] for row in claims(audit)}


def page_marks(found, lacking):
    """A reviewer's marks on every answer and its claims: the first claim of the answers ``lacking`` lacks support."""
    seen = set[object]()
    for row in found:
        is_first = row["record_id"] not in seen
        label = "unsupported" if is_first and row["record_id"] in lacking else "supported"
        said = {"label": label, "reviewer": "Ada", "marked_at": "2026-11-20T08:00:00.000Z", "audit": "0" * 16}
        where = {name: row[name] for name in ("record_id", "source_file", "source_row")}
        if is_first:
            yield {**where, **said}
        seen.add(row["record_id"])
        yield {**where, **{name: row[name] for name in ("span_index", "char_start", "char_end", "text")}, **said}


def save_csv(path, marks):
    """As the page does: with a byte order mark and CR LF."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(marks)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mills")
    log, marks, verdict = folder / "log.parquet", folder / "marks.csv", folder / "verdicts" / "ours"
    first, second = folder / "audits" / "first", folder / "audits" / "second"
    mill_log(log)
    assert main(["audit", "--input", str(log), "--output", str(first), "--quiet", "--workers", "1"]) == 0
    riskiest = sorted(risks(first), key=lambda one: -risks(first)[one])[:24]
    save_csv(marks, page_marks(claims(first), frozenset(riskiest)))
    assert main(["calibrate", "--audit", str(first), "--marks", str(marks), "--output", str(verdict)]) == 0
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr("attribeam.pipeline.console.print_lines", lambda *lines: said.extend(lines))
        asked = ["--verdict", str(verdict), "--workers", "1"]
        assert main(["audit", "--input", str(log), "--output", str(second), *asked]) == 0
    return Calibrated(first, verdict, second, "\n".join(said))


def test_the_second_audit_judges_by_the_fitted_thresholds(calibrated):
    limits, old = calibrated.thresholds, load_verdict_model(BUNDLED_VERDICT).thresholds
    assert limits.balanced != old.balanced
    assert risks(calibrated.second) == risks(calibrated.first)
    flagged = {row["record_id"] for row in claims(calibrated.second) if row["support"] == "unsupported"}
    assert 0 < len(flagged) < len(risks(calibrated.second))
    for row in claims(calibrated.second):
        risk, score = row["answer_risk"], row["support_score"]
        expected = "supported" if score >= limits.supported else "weak"
        assert row["support"] == ("unsupported" if score < limits.balanced else expected)
        assert score >= 1 - risk - 1e-6


VERIFIED_ANSWERS = 120
VERIFIER = {"verifier": "org/own", "verifier_revision": "abc"}


def calibrate(folder, *more, answers=VERIFIED_ANSWERS, **models):
    audit = ferry_audit(folder / "audit", VERIFIED_ANSWERS, models={**VERIFIER, **models})
    marks = save(folder / "marks.jsonl", claim_marks(range(answers)))
    arguments = ["--audit", str(audit.root), "--marks", str(marks), "--output", str(folder / "own")]
    return main(["calibrate", *arguments, *more])


def test_thresholds_of_a_verifier_stand_between_the_marks(tmp_path, capsys):
    assert calibrate(tmp_path) == 0
    found = calibrated_verifier(str(tmp_path / "own"))
    assert (found.verifier, found.identity, found.bundled) == ("org/own", {"verifier_revision": "abc"}, "")
    assert found.claims == found.answers == Blend()
    assert 0.35 < found.answer_risk < 0.55
    assert 0.45 < found.unsupported < 0.65
    assert found.unsupported <= found.supported
    text = capsys.readouterr().out
    assert "answers: risk from" in text
    assert f"attribeam audit --verdict {tmp_path / 'own'}\n" in text


def test_blend_counts_both_scores_and_names_the_bundled_verdict(tmp_path):
    bundled = ferry_audit(tmp_path / "bundled", VERIFIED_ANSWERS)
    assert calibrate(tmp_path, "--blend", str(bundled.root)) == 0
    found = calibrated_verifier(str(tmp_path / "own"))
    assert found.bundled == load_verdict_model(BUNDLED_VERDICT).digest[:16]
    for blend in (found.claims, found.answers):  # both audits have the same scores here, so both count alike
        assert blend.verifier == pytest.approx(blend.bundled, abs=1e-5)
        assert blend.verifier > 0.3
    assert found.unsupported <= found.supported


@pytest.mark.parametrize(
    ("models", "answers", "complaint"),
    [
        ({"verdict_calibration": "0"}, 120, "by a calibrated verifier; audit again with --verdict org/own"),
        ({"verdict_band": "(0.1, 0.6)"}, 120, "was judged by a verifier in a band"),
        ({}, 30, "5 more to go"),
    ],
)
def test_audit_that_tells_too_little_of_the_verifier_is_refused(models, answers, complaint, tmp_path, capsys):
    assert calibrate(tmp_path, answers=answers, **models) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("count", "verdict", "complaint"),
    [
        (VERIFIED_ANSWERS - 1, "bundled", "--blend should have the same marked answers and claims as --audit"),
        (VERIFIED_ANSWERS, "smollm2-135m", "should be an audit by the bundled verdict, was judged by smollm2-135m"),
    ],
)
def test_audit_that_cannot_be_blended_in_is_refused(count, verdict, complaint, tmp_path, capsys):
    other = judged_by(ferry_audit(tmp_path / "other", count), verdict)
    assert calibrate(tmp_path, "--blend", str(other.root)) == 2
    assert complaint in capsys.readouterr().err


def drawn(seed, count=60):
    """Items whose suspicion tells something, with ties."""
    chance = np.random.default_rng(seed)
    lacking = chance.random(count) < 0.4
    suspicion = np.round(np.clip(chance.normal(0.4 + 0.2 * lacking, 0.15), 0, 1), 2)
    return MarkedItems(suspicion, lacking, np.arange(count) // 2)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_f1_of_all_thresholds_is_found(seed):
    items = drawn(seed)
    found = choose_threshold(items.suspicion, items.lacking, None)
    every = [call_figures(items.suspicion >= one, items.lacking).f1 for one in np.unique(items.suspicion)]
    assert call_figures(items.suspicion >= found, items.lacking).f1 == max(every)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.25])
def test_the_lowest_threshold_within_the_rate_is_found(seed, rate):
    items = drawn(seed)
    found = choose_threshold(items.suspicion, items.lacking, rate)
    figures = call_figures(items.suspicion >= found, items.lacking)
    assert figures.false_alarms <= rate
    lower = [one for one in np.unique(items.suspicion) if one < found]
    assert all(call_figures(items.suspicion >= one, items.lacking).false_alarms > rate for one in lower)


def test_figures_are_of_answers_that_a_threshold_was_not_fitted_on():
    items = drawn(3)
    noise = MarkedItems(items.suspicion, np.random.default_rng(0).permutation(items.lacking), items.answers)
    fitted = fit_threshold(noise, None, seed=0)
    inside = call_figures(noise.suspicion >= fitted.threshold, noise.lacking)
    assert fitted.figures.f1 < inside.f1
    assert fitted.f1_interval.low <= fitted.figures.f1 <= fitted.f1_interval.high
    assert fitted.threshold_interval.low <= fitted.threshold_interval.high

"""From an audit over marks to thresholds, and on to an audit with them: the commands of docs/evaluation.md."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from attribeam.attribution.verdict.verdict_model import BUNDLED_VERDICT, VerdictThresholds, load_verdict_model
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

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Two audits of one log, the second with thresholds that were fitted to marks on the first."""

    first: Path
    verdict: Path
    second: Path
    summary: str

    @property
    def thresholds(self) -> VerdictThresholds:
        return load_verdict_model(self.verdict).thresholds


def mill_log(path: Path) -> None:
    """Four answers about each of twelve towns: two that the passages support, and two with something of their own."""
    rows = [
        {
            "record_id": f"mill-{number}",
            "question": f"What does the mill in {town} do?",
            "passages": [
                f"The mill in {town} grinds oats. The bakers of the harbour buy them every morning.",
                f"A bridge leads to the mill in {town}. It is closed when the river is high.",
            ],
            "answer": answer.format(town=town),
        }
        for number, (town, answer) in enumerate((town, answer) for town in TOWNS for answer in ANSWERS)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)


def evidence(audit: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = ds.dataset(audit / "evidence").to_table().to_pylist()
    return rows


def claims(audit: Path) -> list[dict[str, object]]:
    return [row for row in evidence(audit) if row["claim_index"] == row["span_index"] and row["support_score"]]


def risks(audit: Path) -> dict[str, float]:
    return {str(row["record_id"]): row["answer_risk"] for row in claims(audit)}  # type: ignore[misc]


def page_marks(found: Sequence[Row], lacking: frozenset[str]) -> Iterable[dict[str, object]]:
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


def save_csv(path: Path, marks: Iterable[Row]) -> None:
    """As the page does: with a byte order mark and CR LF."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(marks)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Calibrated:
    folder = tmp_path_factory.mktemp("mills")
    log, marks, verdict = folder / "log.parquet", folder / "marks.csv", folder / "verdicts" / "ours"
    first, second = folder / "audits" / "first", folder / "audits" / "second"
    mill_log(log)
    assert main(["audit", "--input", str(log), "--output", str(first), "--quiet"]) == 0
    riskiest = sorted(risks(first), key=lambda one: -risks(first)[one])[:24]
    save_csv(marks, page_marks(claims(first), frozenset(riskiest)))
    assert main(["calibrate", "--audit", str(first), "--marks", str(marks), "--output", str(verdict)]) == 0
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr("attribeam.pipeline.outcome.console.print_result", lambda *lines: said.extend(lines))
        asked = ["--verdict", str(verdict)]
        assert main(["audit", "--input", str(log), "--output", str(second), *asked]) == 0
    return Calibrated(first, verdict, second, "\n".join(said))


def test_the_second_audit_judges_by_the_fitted_thresholds(calibrated: Calibrated) -> None:
    limits, old = calibrated.thresholds, load_verdict_model(BUNDLED_VERDICT).thresholds
    assert limits.balanced != old.balanced
    assert risks(calibrated.second) == risks(calibrated.first)
    flagged = {row["record_id"] for row in claims(calibrated.second) if row["support"] == "unsupported"}
    assert 0 < len(flagged) < len(risks(calibrated.second))
    for row in claims(calibrated.second):
        risk, score = row["answer_risk"], row["support_score"]
        assert isinstance(risk, float)
        assert isinstance(score, float)
        expected = "supported" if score >= limits.supported else "weak"
        assert row["support"] == ("unsupported" if score < limits.balanced else expected)
        assert score >= 1 - risk - 1e-6


def test_manifest_metrics_summary_and_page_name_the_fitted_verdict(calibrated: Calibrated) -> None:
    manifest = json.loads((calibrated.second / "run_manifest.json").read_text(encoding="utf-8"))
    limit = round(1 - calibrated.thresholds.balanced, 6)
    assert manifest["models"]["verdict"] == str(calibrated.verdict)
    assert manifest["models"]["verdict_model"] == load_verdict_model(calibrated.verdict).digest[:16]
    assert float(manifest["models"]["answer_risk_threshold"]) == limit
    measured = "48 marked answers of log.parquet, which its thresholds were fitted to"
    assert manifest["models"]["verdict_measured_on"] == measured
    named = f"verdict {calibrated.verdict}, risk from {limit:g}"
    assert f"{named}: measured on {measured}" in calibrated.summary
    page = (calibrated.second / "report.html").read_text(encoding="utf-8")
    assert named in page
    assert f"(measured on {measured})" in page
    metrics = json.loads((calibrated.second / "metrics.json").read_text(encoding="utf-8"))["metrics"]
    at_risk = [risk >= limit for risk in risks(calibrated.second).values()]
    assert metrics["answers_at_risk"] == pytest.approx(sum(at_risk) / len(at_risk))


def test_the_second_audit_can_be_calibrated_again(calibrated: Calibrated, tmp_path: Path) -> None:
    riskiest = sorted(risks(calibrated.second), key=lambda one: -risks(calibrated.second)[one])[:20]
    save_csv(tmp_path / "marks.csv", page_marks(claims(calibrated.second), frozenset(riskiest)))
    asked = ["--audit", str(calibrated.second), "--marks", str(tmp_path / "marks.csv")]
    assert main(["calibrate", *asked, "--output", str(tmp_path / "again")]) == 0
    again = load_verdict_model(tmp_path / "again").thresholds
    assert again.balanced < calibrated.thresholds.balanced

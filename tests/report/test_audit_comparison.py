"""What changed between two audits of the same answers, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.made_audit import made_audit, supported_span, unsupported_span

from attribeam.report.audit_comparison import AnswerChange, compare_audits
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.html_page import write_html_report
from attribeam.schemas import AnswerKind, ClaimKind, SpanEvidence, Support
from attribeam.schemas.errors import UsageError

Spans = tuple[SpanEvidence, ...]


def risky(risk: float, *spans: SpanEvidence) -> Spans:
    return tuple(replace(one, answer_risk=risk) for one in spans or (supported_span(),))


def refusal() -> Spans:
    span = replace(supported_span(), claim_index=None, support=Support.NO_CLAIM, claim_kind=ClaimKind.REFUSAL)
    return (replace(span, answer_kind=AnswerKind.REFUSAL),)


FLAGGED = risky(0.9, supported_span(), unsupported_span())
FINE = risky(0.2)


def audits(folder: Path, now: list[tuple[str, Spans]], before: list[tuple[str, Spans]]) -> list[AuditDirectory]:
    """Two audits of answers with these ids and spans."""
    made = [
        made_audit(
            folder / name, record_ids=[one for one, _ in rows], spans=dict(enumerate(spans for _, spans in rows))
        )
        for name, rows in (("now", now), ("before", before))
    ]
    return [AuditDirectory.open(one.root) for one in made]


@pytest.mark.parametrize(
    ("now", "before", "change"),
    [
        (FLAGGED, FINE, AnswerChange.NEWLY_FLAGGED),
        (FINE, FLAGGED, AnswerChange.NO_LONGER_FLAGGED),
        (refusal(), FINE, AnswerChange.OTHER_KIND),
        (risky(0.5), risky(0.25), AnswerChange.RISKIER),
        (risky(0.25), risky(0.5), AnswerChange.LESS_RISKY),
        (risky(0.25), risky(0.25), AnswerChange.SAME),
    ],
)
def test_an_answer_changes_by_verdict_kind_or_risk(
    tmp_path: Path, now: Spans, before: Spans, change: AnswerChange
) -> None:
    comparison = compare_audits(*audits(tmp_path, [("a", now), ("b", FINE)], [("b", FINE), ("a", before)]))
    assert comparison.change_of("a") is change
    assert comparison.change_of("b") is AnswerChange.SAME
    assert comparison.change_of("c") is AnswerChange.NEW
    assert comparison.in_both == 2


def test_verdicts_that_changed_come_before_risks_that_did(tmp_path: Path) -> None:
    now = [("a", risky(0.9)), ("b", risky(0.3, supported_span(), unsupported_span())), ("c", FINE)]
    comparison = compare_audits(*audits(tmp_path, now, [("a", FINE), ("b", FINE), ("c", FINE)]))
    assert [one.source_row for one in comparison.changed] == [1, 0]
    assert comparison.words() == "1 newly flagged, 1 riskier, 1 about the same"


def test_claims_of_the_earlier_audit_are_found_by_id(tmp_path: Path) -> None:
    comparison = compare_audits(*audits(tmp_path, [("a", FINE)], [("b", FINE), ("a", FLAGGED)]))
    found = comparison.earlier_answers(["a", "x"])
    assert list(found) == ["a"]
    assert [span.support for span in found["a"].answer.spans] == [Support.SUPPORTED, Support.UNSUPPORTED]
    assert found["a"].risk == pytest.approx(0.9, abs=1e-6)


def test_an_audit_without_a_common_id_is_refused(tmp_path: Path) -> None:
    now, before = audits(tmp_path, [("a", FINE)], [("train-1", FINE)])
    with pytest.raises(UsageError, match=r"has none of the record ids of .* the first ids are 'train-1' and 'a'"):
        compare_audits(now, before)


def test_a_page_shows_answers_that_changed_beside_the_riskiest(tmp_path: Path) -> None:
    now, before = audits(
        tmp_path,
        [(f"a{row}", FLAGGED) for row in range(19)] + [("calm", FINE)],
        [(f"a{row}", FLAGGED) for row in range(19)] + [("calm", FLAGGED)],
    )
    page = tmp_path / "page.html"
    write_html_report(now.root, page, previous=before.root, answers=10)
    text = page.read_text(encoding="utf-8")
    assert '"id":"calm"' in text
    assert '"change":"no longer flagged"' in text
    write_html_report(now.root, page, answers=10)
    assert '"id":"calm"' not in page.read_text(encoding="utf-8")


def test_answers_whose_id_is_repeated_are_not_compared(tmp_path: Path) -> None:
    now, before = audits(tmp_path, [("a", FLAGGED), ("b", FINE), ("b", FLAGGED)], [("a", FINE), ("b", FINE)])
    comparison = compare_audits(now, before)
    assert (comparison.in_both, comparison.only_now, comparison.only_before) == (1, 0, 0)
    assert comparison.words() == "1 newly flagged"
    assert (comparison.change_of("b"), comparison.repeated) == (AnswerChange.REPEATED, {"b"})
    assert comparison.earlier_answers(["a", "b"]).keys() == {"a"}
    write_html_report(now.root, tmp_path / "page.html", previous=before.root)
    assert "1 ids that several answers have are not compared" in (tmp_path / "page.html").read_text(encoding="utf-8")

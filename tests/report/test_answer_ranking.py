"""The risk of spans and answers, their order, and what changed between two audits of the same answers."""

import random
from dataclasses import replace

import pytest
from tests.report.made_audit import added, made_audit, no_claim, supported_span, unsupported_span

from attribeam.report.answer_ranking import AnswerChange, RiskTally, compare_audits, riskiest_claim
from attribeam.schemas import AnswerKind, ClaimKind, Support

START_RISK = {"supported": 0.0, "weak": 0.5, "unsupported": 1.0}


def ranking_of(rows, *, size, batch_size=4):
    return added(RiskTally(), rows, size=batch_size).ranking(size)


def naive_risk(spans):
    """The formula of docs/report.md."""
    risks = [
        min(1.0, START_RISK[one["support"]] * (1 - one["evidence_mass"]) + (0.5 if one["unmatched_values"] else 0.0))
        for one in spans
    ]
    return 2 / 3 * max(risks) + 1 / 3 * sum(risks) / len(risks)


def random_spans(seed):
    """The spans of 30 answers in two files; every fifth answer is supported through and through."""
    chance = random.Random(seed)
    answers = {}
    for file in ("b.parquet", "a.parquet"):
        for row in range(15):
            answers[file, row] = [
                {
                    "source_file": file, "source_row": row, "span_index": index, "claim_index": index,
                    "support": "supported" if row % 5 == 0 else chance.choice(list(START_RISK)),
                    "evidence_mass": chance.randrange(64) / 64,
                    "unmatched_values": ["40"] if row % 5 and chance.random() < 0.3 else [],
                }
                for index in range(chance.randrange(1, 6))
            ]  # fmt: skip
    return answers


@pytest.mark.parametrize("batch_size", [1, 4, 1000])
def test_answers_are_ranked_by_risk_and_ties_stay_in_the_order_of_the_input(batch_size):
    answers = random_spans(batch_size)
    rows = [span for spans in answers.values() for span in spans]
    found = ranking_of(rows, size=28, batch_size=batch_size)
    order = sorted(answers, key=lambda one: -naive_risk(answers[one]))  # stable
    assert [(one.source_file, one.source_row) for one in found.riskiest] == order[:28]
    assert [*found.riskiest.values()] == pytest.approx([naive_risk(answers[one]) for one in order[:28]])
    assert found.answer_count == len(answers)
    flagged = [any(span["support"] == "unsupported" for span in spans) for spans in answers.values()]
    assert found.flagged_count == sum(flagged) >= 6


def answer(row, *spans, kind="answer", risk=None):
    """The spans of one answer; each is a claim of its own unless it says otherwise."""
    own = {"source_row": row, "answer_kind": kind, "answer_risk": risk}
    return [{**own, "span_index": index, "claim_index": index, **span} for index, span in enumerate(spans)]


def risks_of(found):
    return [(one.source_row, risk) for one, risk in found.riskiest.items()]


FLAGGED = {"support": "unsupported", "evidence_mass": 0.0}
LANGUAGE = {"support": "not_judged", "claim_kind": "language", "claim_index": None, "evidence_mass": 0.0}


def test_a_calibrated_risk_goes_before_what_the_claims_say():
    spans = [*answer(0, FLAGGED, risk=0.25), *answer(1, {}, risk=0.75), *answer(2, FLAGGED, risk=0.5)]
    found = ranking_of(spans, size=3)
    assert risks_of(found) == [(1, 0.75), (2, 0.5), (0, 0.25)]
    assert (found.mean_risk, found.judged_count, found.flagged_count) == (0.5, 3, 2)


def test_refusals_and_answers_that_cannot_be_judged_come_apart_after_the_others():
    spans = [
        *answer(0, LANGUAGE, kind="not_judged"),
        *answer(1, {"support": "no_claim", "claim_index": None}, kind="refusal"),
        *answer(2, {}),
        *answer(3, FLAGGED, {"support": "no_claim", "claim_index": None}, kind="partial"),
    ]
    found = ranking_of(spans, size=9)
    assert risks_of(found) == [(3, 1.0), (2, 0.0), (1, 0.0), (0, None)]
    assert (found.judged_count, found.flagged_count, found.mean_risk) == (2, 1, None)


@pytest.mark.parametrize(
    ("spans", "kind", "risk"),
    [
        # in another language, but copied from a passage; a part of a claim adds nothing
        ([{**LANGUAGE, "support": "supported", "claim_index": 0}, LANGUAGE], "not_judged", 0.0),
        ([{"support": "weak", "evidence_mass": 0.5}, {**FLAGGED, "claim_index": 0}], "answer", 0.25),
    ],
)
def test_risk_of_an_answer_is_that_of_its_claims(spans, kind, risk):
    assert risks_of(ranking_of(answer(0, *spans, kind=kind), size=1)) == [(0, pytest.approx(risk))]


@pytest.mark.parametrize(
    ("groups", "size", "rows"),
    [
        ((40, 20, 20), 20, [*range(16), 40, 41, 60, 61]), ((40, 20, 20), 10, [*range(8), 40, 60]),
        ((40, 20, 20), 9, [*range(9)]), ((40, 20, 20), 0, []),
        ((1, 19, 2), 10, [*range(9), 20]),  # places that one group does not need fall to the others
    ],
)  # fmt: skip
def test_a_full_worklist_keeps_places_for_refusals_and_what_cannot_be_judged(groups, size, rows):
    kinds = (
        ({"kind": "answer"}, FLAGGED),
        ({"kind": "refusal"}, {"support": "no_claim"}),
        ({"kind": "not_judged"}, LANGUAGE),
    )
    numbered = enumerate(kind for count, kind in zip(groups, kinds, strict=True) for _ in range(count))
    spans = [span for row, (kind, one) in numbered for span in answer(row, one, **kind)]
    assert [row for row, _ in risks_of(ranking_of(spans, size=size, batch_size=7))] == rows


def test_the_riskiest_claim_has_the_lowest_score_or_else_the_worst_verdict():
    first, second = supported_span(), unsupported_span()
    assert riskiest_claim([first, second]) == second
    scored = [replace(first, support_score=0.25), replace(second, support_score=0.5)]
    assert riskiest_claim(scored) == scored[0]
    part = replace(second, claim_index=0)
    heading = replace(second, claim_index=None, claim_kind=ClaimKind.HEADING, support=Support.NO_CLAIM)
    assert riskiest_claim([first, part, heading]) == first
    assert riskiest_claim([heading]) is None


def risky(risk, *spans):
    return tuple(replace(one, answer_risk=risk) for one in spans or (supported_span(),))


REFUSAL = (no_claim(ClaimKind.REFUSAL, answer_kind=AnswerKind.REFUSAL),)
RISKY = risky(0.9, supported_span(), unsupported_span())
FINE = risky(0.2)


def audits(folder, now, before):
    """Two audits of answers with these ids and spans."""
    return [
        made_audit(folder / name, record_ids=[one for one, _ in rows], spans=dict(enumerate(one for _, one in rows)))
        for name, rows in (("now", now), ("before", before))
    ]


def compared(folder, now, before):
    return compare_audits(*(one.opened for one in audits(folder, now, before)))


@pytest.mark.parametrize(
    ("now", "before", "change"),
    [
        (RISKY, FINE, AnswerChange.NEWLY_FLAGGED), (FINE, RISKY, AnswerChange.NO_LONGER_FLAGGED),
        (REFUSAL, FINE, AnswerChange.OTHER_KIND), (risky(0.5), risky(0.25), AnswerChange.RISKIER),
        (risky(0.25), risky(0.5), AnswerChange.LESS_RISKY), (risky(0.25), risky(0.25), AnswerChange.SAME),
    ],
)  # fmt: skip
def test_an_answer_changes_by_verdict_kind_or_risk(tmp_path, now, before, change):
    comparison = compared(tmp_path, [("a", now), ("b", FINE)], [("b", FINE), ("a", before)])
    assert comparison.change_of("a") is change
    assert comparison.change_of("b") is AnswerChange.SAME
    assert comparison.change_of("c") is AnswerChange.NEW
    assert comparison.answers.keys() == {"a", "b"}


def test_verdicts_that_changed_come_before_risks_that_did(tmp_path):
    now = [("a", risky(0.9)), ("b", risky(0.3, supported_span(), unsupported_span())), ("c", FINE)]
    comparison = compared(tmp_path, now, [("a", FINE), ("b", FINE), ("c", FINE)])
    assert [one.source_row for one in comparison.changed] == [1, 0]
    assert comparison.words() == "1 newly flagged, 1 riskier, 1 about the same"


def test_claims_of_the_earlier_audit_are_found_by_id(tmp_path):
    comparison = compared(tmp_path, [("a", FINE)], [("b", FINE), ("a", RISKY)])
    found = comparison.earlier_answers(["a", "x"])
    assert list(found) == ["a"]
    assert [span.support for span in found["a"].answer.spans] == [Support.SUPPORTED, Support.UNSUPPORTED]
    assert found["a"].risk == pytest.approx(0.9, abs=1e-6)


def test_a_page_shows_answers_that_changed_beside_the_riskiest(tmp_path):
    risky_ones = [(f"a{row}", RISKY) for row in range(19)]
    now, before = audits(tmp_path, [*risky_ones, ("calm", FINE)], [*risky_ones, ("calm", RISKY)])
    page = now.page(previous=before, answers=10)
    assert '"id":"calm"' in page
    assert '"change":"no longer flagged"' in page
    assert '"id":"calm"' not in now.page(answers=10)


def test_answers_whose_id_is_repeated_are_not_compared(tmp_path):
    now, before = audits(tmp_path, [("a", RISKY), ("b", FINE), ("b", RISKY)], [("a", FINE), ("b", FINE)])
    comparison = compare_audits(now.opened, before.opened)
    assert (len(comparison.answers), comparison.only_now, comparison.only_before) == (1, 0, 0)
    assert comparison.words() == "1 newly flagged"
    assert (comparison.change_of("b"), comparison.repeated) == (AnswerChange.REPEATED, {"b"})
    assert comparison.earlier_answers(["a", "b"]).keys() == {"a"}
    assert "1 ids that several answers have are not compared" in now.page(previous=before)

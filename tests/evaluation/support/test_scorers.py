import pytest
from tests.evaluation.support.judged_examples import judged, span

from attribeam.evaluation.support.judged_parts import judged_parts
from attribeam.evaluation.support.scorers import AuditScorer, FlagAllScorer, NoveltyScorer, ShareScorer
from attribeam.schemas import ClaimKind, Support

TEXT = "Ada lit ten lamps. Zebras came."
UNSUPPORTED, WEAK, SUPPORTED = Support.UNSUPPORTED, Support.WEAK, Support.SUPPORTED


def parts_of(found, *marked, **labels):
    return judged_parts(judged(TEXT, *marked, **labels), found)


def test_part_is_marked_if_half_of_it_or_half_of_a_mark_lies_in_it():
    found = [span(TEXT, "Ada lit ten lamps", SUPPORTED, 0), span(TEXT, "lamps. Zebras came", SUPPORTED, 1)]
    parts = parts_of(found, "ten", "Zebras came")
    assert [one.is_marked for one in parts.sentences] == [True, True]
    assert [one.is_marked for one in parts.claims] == [True, True]
    assert [one.is_marked for one in parts_of(found, "ten").claims] == [True, False]
    assert [one.is_marked for one in parts_of(found, "s. Zebras").sentences] == [False, True]


def test_parts_that_nobody_looked_at_are_left_out():
    parts = parts_of([span(TEXT, "Zebras came", WEAK)], looked_at=["Ada lit"])
    assert (len(parts.sentences), len(parts.claims), len(parts.characters)) == (1, 0, 6)


def test_answer_judged_as_a_whole_has_parts_without_marks():
    parts = parts_of([span(TEXT, "Zebras came", WEAK)], answer_supported=False)
    assert parts.is_marked
    assert parts.marked is None
    assert {one.is_marked for one in (*parts.sentences, *parts.claims)} == {None}


def test_audit_without_probabilities_ranks_by_its_worst_flag():
    found = [span(TEXT, "Ada lit ten lamps", WEAK, 0, evidence_mass=0.2), span(TEXT, "Zebras came", UNSUPPORTED, 1)]
    scorer = AuditScorer("ours", [found])
    scored = scorer.score(parts_of(found))
    assert not scorer.has_probabilities
    assert scored.risk == scored.claims[1] == scored.sentences[1] > scored.claims[0] > 0
    assert scored.called
    assert len(scored.flagged) == len("Zebrascame")


def test_audit_with_probabilities_ranks_by_them():
    found = [
        span(TEXT, "Ada lit ten lamps", SUPPORTED, 0, support_score=0.9, answer_risk=0.3),
        span(TEXT, "ten", SUPPORTED, 1, claim_index=0, support_score=None, answer_risk=0.3),
        span(TEXT, "Zebras", Support.NO_CLAIM, 2, claim_index=None, answer_risk=0.3),
    ]
    scorer = AuditScorer("ours", [found])
    scored = scorer.score(parts_of(found))
    assert scorer.has_probabilities
    assert scored.risk == 0.3
    assert scored.claims == pytest.approx((0.1,))
    assert scored.sentences == pytest.approx((0.1, 0.0))
    assert (scored.called, scored.flagged) == (False, frozenset())


def test_answer_in_which_nothing_was_judged_has_no_risk():
    other = [span(TEXT, "Ada", SUPPORTED, answer_risk=0.7)]
    assert AuditScorer("ours", [other, ()]).score(parts_of(())).risk == 0


def test_share_weighs_claims_by_their_length_and_counts_refusals_as_ungrounded():
    found = [
        span(TEXT, "Ada lit ten", SUPPORTED, 0, support_score=0.9),
        span(TEXT, "ten", SUPPORTED, 1, claim_index=0, support_score=0.9),
        span(TEXT, "lamps", Support.NO_CLAIM, 2, claim_index=None, claim_kind=ClaimKind.HEADING),
        span(TEXT, "Zebras", Support.NO_CLAIM, 3, claim_index=None, claim_kind=ClaimKind.REFUSAL),
    ]
    scored = ShareScorer("ours").score(parts_of(found))
    assert scored.risk == pytest.approx((9 * 0.1 + 6) / 15)
    assert (scored.called, scored.claims, scored.sentences) == (None, (), ())


def test_of_claims_that_overlap_the_riskier_one_counts_in_the_share():
    found = [
        span(TEXT, "Ada lit ten", SUPPORTED, 0, support_score=1.0),
        span(TEXT, "ten lamps", UNSUPPORTED, 1, support_score=0.0),
    ]
    assert ShareScorer("ours").score(parts_of(found)).risk == pytest.approx(8 / 14)


def test_answer_that_neither_claims_nor_refuses_has_no_share():
    heading = span(TEXT, "lamps", Support.NO_CLAIM, claim_index=None, claim_kind=ClaimKind.HEADING)
    assert ShareScorer("ours").score(parts_of([heading])).risk == 0


def test_novelty_of_an_answer_and_of_each_sentence():
    scored = NoveltyScorer().score(parts_of([span(TEXT, "lamps. Zebras", SUPPORTED)]))
    assert scored.risk == pytest.approx(2 / 3)
    assert scored.sentences == (0.0, 1.0)
    assert scored.claims == pytest.approx((1 / 2,))
    assert set(scored.characters) == {0.0, 1.0}
    assert scored.called is None


def test_flag_all_calls_everything():
    scored = FlagAllScorer().score(parts_of(()))
    assert (scored.risk, scored.called, len(scored.flagged)) == (1.0, True, len(TEXT.replace(" ", "")))

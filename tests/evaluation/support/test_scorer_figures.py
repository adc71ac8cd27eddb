import pytest
from tests.evaluation.support.judged_examples import judged, span

from attribeam.evaluation.support.judged_parts import judged_parts
from attribeam.evaluation.support.scorer_tables import compare_scorers, comparison_tables
from attribeam.evaluation.support.scorers import AuditScorer, ShareScorer, baseline_scorers
from attribeam.schemas import Support

GOOD, BAD = "Ada lit ten lamps.", "Zebras painted lamps."


def answers(count=10):
    """Pairs of a supported and an unsupported answer over passages of their own; every other pair is of one group."""
    for number in range(count):
        labels = {"passages": [f"Ada lit ten lamps in {number}."], "group": "ab"[number % 2]}
        yield judged(GOOD, **labels)
        yield judged(BAD, "Zebras painted", **labels)


def baselines(parts, **options):
    return compare_scorers(parts, baseline_scorers(), draws=20, seed=0, **options)


def test_baselines_on_answers_with_marked_characters():
    everything, first, second = baselines([judged_parts(answer, ()) for answer in answers()])
    assert (everything.answers, everything.marked_answers, first.answers, second.group) == (20, 10, 10, "b")
    novelty, flag_all = everything.scorers
    assert novelty.answers.value == novelty.sentences.value == 1
    assert (novelty.verdict, novelty.claims, novelty.characters) == (None, None, None)
    assert novelty.chosen_verdict.f1.value == novelty.balanced_verdict.balanced_accuracy.value == 100
    assert novelty.chosen_characters.recall == 100
    assert novelty.chosen_characters.precision == pytest.approx(100 * 13 / 19)
    assert [one.precision.value for one in novelty.precision_at] == [100]
    assert flag_all.answers.value == 0.5
    assert flag_all.verdict.false_alarms.value == 100
    assert (flag_all.chosen_verdict, flag_all.chosen_characters) == (None, None)


def test_audit_is_compared_on_its_own_claims_with_its_own_threshold():
    pairs = [
        (answer, [span(text, text[:-1], Support.UNSUPPORTED if bad else Support.SUPPORTED)])
        for number, answer in enumerate(answers())
        for text in [answer.record.answer]
        for bad in [text == BAD and number != 1]
    ]
    parts = [judged_parts(answer, found) for answer, found in pairs]
    scorers = [AuditScorer("ours", [found for _, found in pairs]), *baseline_scorers()]
    everything, *_ = compare_scorers(parts, scorers, draws=20, seed=0)
    ours, novelty, _ = everything.scorers
    assert everything.claims == 20
    assert ours.verdict.recall.value == pytest.approx(90)
    assert ours.verdict.false_alarms.value == 0
    assert ours.claims.value == pytest.approx(0.95)
    assert novelty.claims.value == 1
    assert ours.characters.precision == pytest.approx(100 * 13 / 18)
    assert (ours.claim_verdicts.precision, ours.claim_verdicts.recall) == pytest.approx((100, 90))
    assert novelty.chosen_claim_verdicts.f1 == pytest.approx(100)
    assert novelty.claim_verdicts is None
    assert ours.answer_reliability is None


def test_probabilities_have_a_reliability_diagram_of_answers_and_of_claims():
    found = [
        [span(answer.record.answer, "lamps", Support.SUPPORTED, support_score=0.8, answer_risk=0.25)]
        for answer in answers()
    ]
    parts = [judged_parts(answer, own) for answer, own in zip(answers(), found, strict=True)]
    everything, *_ = compare_scorers(parts, [AuditScorer("ours", found)], draws=20, seed=0)
    (ours,) = everything.scorers
    assert ours.answer_reliability.brier_score == pytest.approx((0.25**2 + 0.75**2) / 2)
    assert ours.claim_reliability.brier_score == pytest.approx(0.2**2)
    assert "risks of claims as probabilities, ours: calibration error 0.200" in "\n".join(
        comparison_tables("made", [everything])
    )


def test_grades_are_correlated_and_kinds_counted_where_whole_answers_were_judged():
    parts = [
        judged_parts(
            judged(
                text, passages=[str(number), GOOD], answer_supported=grade > 2, faithfulness=grade, error_kinds=kinds
            ),
            (),
        )
        for number in range(6)
        for text, grade, kinds in ((GOOD, 4.0, ()), (BAD, 1.0, ("animals", "paint")))
    ]
    (everything,) = baselines(parts)
    novelty, _ = everything.scorers
    assert novelty.rank_correlation.value == pytest.approx(1)
    assert (novelty.sentences, novelty.chosen_characters, novelty.chosen_claim_verdicts) == (None, None, None)
    assert [(one.kind, one.answers, one.called) for one in novelty.kinds] == [("animals", 6, 100), ("paint", 6, 100)]
    table = "\n".join(comparison_tables("made", [everything]))
    assert table.startswith("made, all: 6 of 12 answers unsupported; novelty, flag-all\n")
    assert "Spearman" in table
    assert "animals" in table
    assert "sentences" not in table


def test_grades_have_the_share_called_and_the_mean_risk():
    grades = {GOOD: (4.0, 0.1), BAD: (1.0, 0.9), "Ada painted lamps.": (3.67, 0.5), "Ada lit lamps.": (3.0, 0.1)}
    found = [
        [span(text, text[:-1], Support.UNSUPPORTED if risk > 0.2 else Support.SUPPORTED, answer_risk=risk)]
        for text, (_, risk) in grades.items()
    ]
    answers = [judged(text, answer_supported=grade > 2, faithfulness=grade) for text, (grade, _) in grades.items()]
    parts = [judged_parts(answer, own) for answer, own in zip(answers, found, strict=True)]
    everything, *_ = compare_scorers(parts, [AuditScorer("ours", found)], draws=20, seed=0)
    (ours,) = everything.scorers
    assert [(one.grade, one.answers, one.called) for one in ours.grades] == [(1, 1, 100), (3, 2, 50), (4, 1, 0)]
    assert [one.mean_risk for one in ours.grades] == pytest.approx([0.9, 0.3, 0.1])
    assert "mean grade from" in "\n".join(comparison_tables("made", [everything]))


def test_share_ranks_answers_and_leaves_their_parts_to_the_audit():
    found = [
        [span(answer.record.answer, "lamps", Support.SUPPORTED, support_score=0.1 if answer.unsupported else 0.9)]
        for answer in answers()
    ]
    parts = [judged_parts(answer, own) for answer, own in zip(answers(), found, strict=True)]
    everything, *_ = compare_scorers(parts, [ShareScorer("ours")], draws=20, seed=0)
    (share,) = everything.scorers
    assert (share.scorer, share.answers.value, share.chosen_verdict.f1.value) == ("ours share", 1, 100)
    assert (share.verdict, share.claims, share.sentences, share.chosen_characters) == (None, None, None, None)


def test_answers_of_one_source_have_no_chosen_threshold():
    parts = [judged_parts(judged(text, *marked), ()) for text, marked in ((GOOD, ()), (BAD, ("Zebras",)))]
    (everything,) = baselines(parts)
    novelty, _ = everything.scorers
    assert (novelty.chosen_verdict, novelty.chosen_characters, novelty.kinds) == (None, None, ())

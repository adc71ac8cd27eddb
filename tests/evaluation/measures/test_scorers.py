"""Scorers of support, and answers that people judged."""

from dataclasses import replace

import pytest
from tests.report.made_audit import bare_span as span
from tests.report.made_audit import place

from attribeam.evaluation.datasets.dataset_file import JudgedAnswer, UnsupportedRange
from attribeam.evaluation.measures.judged_answers import LEVELS, audit_calls, group_figures, judged_parts
from attribeam.evaluation.measures.scorers import BASELINES, audit_scorers, compare_scorers, comparison_tables, novelty
from attribeam.schemas import CharRange, ClaimKind, Passage, QARecord, RowSource, SpanKind, Support

TEXT = "Ada lit ten lamps. Zebras came."
UNSUPPORTED, WEAK, SUPPORTED = Support.UNSUPPORTED, Support.WEAK, Support.SUPPORTED


def judged(text, *marked, passages=("Ada lit ten lamps.",), looked_at=None, group=None, **labels):
    """An answer in which these parts are marked; ``labels`` are those of the whole answer."""
    record = QARecord("r", "", tuple(map(Passage, passages)), text, RowSource("a", 0))
    ranges = None if "answer_supported" in labels else tuple(UnsupportedRange(place(one, text), "x") for one in marked)
    parts = None if looked_at is None else tuple(place(part, text) for part in looked_at)
    return JudgedAnswer(record, ranges, parts, group, **labels)


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


def audit(parts, *others):
    return audit_scorers("ours", [parts, *others])[0].score(parts)


def share(parts):
    return audit_scorers("ours", [parts, parts_of([span(TEXT, "Ada", SUPPORTED, support_score=1)])])[1].score(parts)


def test_audit_without_probabilities_ranks_by_its_worst_flag():
    found = [span(TEXT, "Ada lit ten lamps", WEAK, 0, evidence_mass=0.2), span(TEXT, "Zebras came", UNSUPPORTED, 1)]
    scored = audit(parts_of(found))
    assert scored.risk == scored.claims[1] == scored.sentences[1] > scored.claims[0] > 0
    assert scored.calls.answer
    assert sum(scored.calls.characters) == len("Zebrascame")


def test_audit_with_probabilities_ranks_by_them():
    found = [
        span(TEXT, "Ada lit ten lamps", SUPPORTED, 0, support_score=0.9, answer_risk=0.3),
        span(TEXT, "ten", SUPPORTED, 1, claim_index=0, support_score=None, answer_risk=0.3),
        span(TEXT, "Zebras", Support.NO_CLAIM, 2, claim_index=None, answer_risk=0.3),
    ]
    scored = audit(parts_of(found))
    assert scored.risk == 0.3
    assert scored.claims == pytest.approx((0.1,))
    assert scored.sentences == pytest.approx((0.1, 0.0))
    assert (scored.calls.answer, any(scored.calls.characters)) == (False, False)


def test_share_weighs_claims_by_their_length_and_counts_refusals_as_ungrounded():
    found = [
        span(TEXT, "Ada lit ten", SUPPORTED, 0, support_score=0.9),
        span(TEXT, "ten", SUPPORTED, 1, claim_index=0, support_score=0.9),
        span(TEXT, "lamps", Support.NO_CLAIM, 2, claim_index=None, claim_kind=ClaimKind.HEADING),
        span(TEXT, "Zebras", Support.NO_CLAIM, 3, claim_index=None, claim_kind=ClaimKind.REFUSAL),
    ]
    scored = share(parts_of(found))
    assert scored.risk == pytest.approx((9 * 0.1 + 6) / 15)
    assert (scored.calls.answer, scored.claims, scored.sentences) == (None, None, None)


def test_novelty_of_an_answer_and_of_each_sentence():
    scored = BASELINES["novelty"].score(parts_of([span(TEXT, "lamps. Zebras", SUPPORTED)]))
    assert scored.risk == pytest.approx(2 / 3)
    assert scored.sentences == (0.0, 1.0)
    assert scored.claims == pytest.approx((1 / 2,))
    assert scored.calls.answer is None


@pytest.mark.parametrize(
    ("word", "unseen"),
    [
        ("polish", False), ("Polishing", False), ("polite", True), ("lighthouse", False), ("lamps", True),
        ("1874", False), ("1875", True), ("лампу", False), ("Ada", False),
    ],
)  # fmt: skip
def test_word_is_unseen_if_its_first_six_letters_begin_no_word_of_the_passages(word, unseen):
    passages = [Passage("Ada Thorne polished the lamp in 1874. Ада зажгла лампу.", title="Lighthouses")]
    share_of = novelty(word, passages, frozenset(range(len(word))))
    assert share_of(CharRange(0, len(word))) == unseen


GOOD, BAD = "Ada lit ten lamps.", "Zebras painted lamps."


def answers(count=10):
    """Pairs of a supported and an unsupported answer over passages of their own; every other pair is of one group."""
    for number in range(count):
        labels = {"passages": [f"Ada lit ten lamps in {number}."], "group": "ab"[number % 2]}
        yield judged(GOOD, **labels)
        yield judged(BAD, "Zebras painted", **labels)


def test_audit_is_compared_with_baselines_on_all_answers_and_on_each_group():
    pairs = [
        (answer, [span(text, text[:-1], UNSUPPORTED if bad else SUPPORTED)])
        for number, answer in enumerate(answers())
        for text in [answer.record.answer]
        for bad in [text == BAD and number != 1]
    ]
    parts = [judged_parts(answer, found) for answer, found in pairs]
    groups = compare_scorers(parts, [*audit_scorers("ours", parts), *BASELINES.values()], draws=20, seed=0)
    assert [(one.group, one.answers, one.marked_answers, one.claims) for one in groups] == [
        ("all", 20, 10, 20), ("a", 10, 5, 10), ("b", 10, 5, 10),
    ]  # fmt: skip
    ours, novelty, flag_all = groups[0].scorers
    assert ours.verdict.recall.value == pytest.approx(90)
    assert ours.verdict.false_alarms.value == 0
    assert ours.claims.value == pytest.approx(0.95)
    assert novelty.answers.value == novelty.sentences.value == novelty.claims.value == 1
    assert [one.precision.value for one in novelty.precision_at] == [100]
    assert ours.characters.precision == pytest.approx(100 * 13 / 18)
    assert (ours.claim_verdicts.precision, ours.claim_verdicts.recall) == pytest.approx((100, 90))
    assert novelty.chosen_verdict.f1.value == novelty.balanced_verdict.balanced_accuracy.value == 100
    assert novelty.chosen_claim_verdicts.f1 == novelty.chosen_characters.recall == 100
    assert novelty.chosen_characters.precision == pytest.approx(100 * 13 / 19)
    assert (flag_all.answers.value, flag_all.verdict.false_alarms.value) == (0.5, 100)
    assert next(comparison_tables("made", groups)) == "made, all: 10 of 20 answers unsupported; ours, novelty, flag-all"


def test_grades_have_the_share_called_and_the_mean_risk():
    grades = {GOOD: (4.0, 0.1), BAD: (1.0, 0.9), "Ada painted lamps.": (3.67, 0.5), "Ada lit lamps.": (3.0, 0.1)}
    parts = [
        judged_parts(
            judged(text, answer_supported=grade > 2, faithfulness=grade),
            [span(text, text[:-1], UNSUPPORTED if risk > 0.2 else SUPPORTED, answer_risk=risk)],
        )
        for text, (grade, risk) in grades.items()
    ]
    (everything,) = compare_scorers(parts, audit_scorers("ours", parts), draws=20, seed=0)
    (ours,) = everything.scorers
    assert [(one.grade, one.answers, one.called) for one in ours.grades] == [(1, 1, 100), (3, 2, 50), (4, 1, 0)]
    assert [one.mean_risk for one in ours.grades] == pytest.approx([0.9, 0.3, 0.1])


def test_kinds_are_counted_where_whole_answers_were_judged():
    texts = ((GOOD, True, ()), (BAD, False, ("animals", "paint")))
    parts = [
        judged_parts(judged(text, answer_supported=right, error_kinds=kinds), [span(text, text[:-1], UNSUPPORTED)])
        for text, right, kinds in texts
    ]
    (everything,) = compare_scorers(parts, audit_scorers("ours", parts), draws=20, seed=0)
    (ours,) = everything.scorers
    assert (ours.sentences, ours.claims, ours.characters, ours.claim_verdicts) == (None, None, None, None)
    assert [(one.kind, one.answers, one.called) for one in ours.kinds] == [("animals", 1, 100), ("paint", 1, 100)]
    assert "animals" in "\n".join(comparison_tables("made", [everything]))


JUDGED_TEXT = "Ada lit ten lamps in May."


def judged_of(*unsupported, group=None):
    ranges = tuple(UnsupportedRange(place(part, JUDGED_TEXT), kind) for part, kind in unsupported)
    return replace(judged(JUDGED_TEXT, passages=["x"], group=group), unsupported=ranges)


def span_of(part, support, mass=0.5):
    return span(JUDGED_TEXT, part, support, evidence_mass=mass, span_kind=SpanKind.GIVEN, claim_index=None)


def calls_of(judged_answer, found):
    """Of each level whether the answer is called, and the text that is."""
    parts = judged_parts(judged_answer, found)
    calls = [audit_calls(parts, levels) for levels in LEVELS.values()]
    called = [zip(parts.characters, one.characters, strict=True) for one in calls]
    texts = ["".join(JUDGED_TEXT[place] for place, is_called in own if is_called) for own in called]
    return list(zip([one.answer for one in calls], texts, strict=True))


def test_worked_example_of_characters():
    found = [span_of("ten lamps", UNSUPPORTED), span_of("in May", WEAK), span_of("Ada", SUPPORTED)]
    answer = judged_of(("ten", "number"), ("in May", "date"))
    assert calls_of(answer, found) == [(True, "tenlamps"), (True, "tenlampsinMay")]
    (figures,) = group_figures([judged_parts(answer, found)], draws=2, seed=0)
    assert [one.characters.precision for one in figures.levels] == pytest.approx([100 * 3 / 8, 100 * 8 / 13])
    assert [one.characters.recall for one in figures.levels] == pytest.approx([100 * 3 / 8, 100])
    kinds = [(one.kind, one.characters, list(one.recall.values())) for one in figures.kinds]
    assert kinds == [("date", 5, [0, 100]), ("number", 3, [100, 100])]


def test_words_that_a_weak_claim_names_are_called_unsupported_and_no_answer_is_for_them():
    weak = replace(span_of("ten lamps in May", Support.WEAK), unsupported_words=(place("May", JUDGED_TEXT),))
    assert calls_of(judged_of(("in May", "x")), [weak]) == [(False, "May"), (True, "May")]


def judged_answers():
    """Two tasks; the alarm is right in the first answer, wrong in the second, and missing in the third."""
    of_answers = [
        (judged_of(("ten", "number"), group="QA"), [span_of("ten", Support.UNSUPPORTED, 0.0)]),
        (judged_of(group="QA"), [span_of("Ada", Support.UNSUPPORTED, 0.2)]),
        (judged_of(("in May", "date"), group="Summary"), [span_of("in May", Support.WEAK, 0.4)]),
        (judged_of(group="Summary"), [span_of("lit", Support.SUPPORTED, 0.9)]),
    ]
    return [judged_parts(*pair) for pair in of_answers]


def test_an_answers_number_is_that_of_its_worst_span():
    found = [span_of("Ada", SUPPORTED, 0.9), span_of("ten", WEAK, 0.2), span_of("May", SUPPORTED, 0.1)]
    several = judged_parts(judged_of(("ten", "number")), found)
    for support, mass, mass_area, flag_area in (
        (Support.WEAK, 0.15, 1, 0), (Support.WEAK, 0.3, 1, 1), (Support.SUPPORTED, 0.05, 0, 1),
    ):  # fmt: skip
        clean = judged_parts(judged_of(), [span_of("lit", support, mass)])
        (figures,) = group_figures([several, clean], draws=2, seed=0)
        assert (figures.answer_mass.value, figures.answer_flag.value) == (mass_area, flag_area)


def test_figures_of_all_answers():
    figures, *_ = group_figures(judged_answers(), draws=20, seed=0)
    unsupported, or_weak = figures.levels
    assert (figures.answers, figures.marked_answers) == (4, 2)
    assert (unsupported.characters.precision, unsupported.characters.recall) == pytest.approx((50, 100 * 3 / 8))
    assert (unsupported.answers.precision, unsupported.answers.recall) == pytest.approx((50, 50))
    assert (or_weak.characters.recall, or_weak.answers.recall) == pytest.approx((100, 100))
    assert (figures.answer_mass.value, figures.span_flag.value) == pytest.approx((3 / 4, 3 / 4))
    kinds = [(one.kind, one.characters, one.recall["unsupported"]) for one in figures.kinds]
    assert kinds == [("date", 5, 0.0), ("number", 3, 100.0)]


def test_tables_show_weak_alarms_beside_the_verdict_and_kinds_of_marks():
    parts = judged_answers()
    groups = compare_scorers(parts, audit_scorers("ours", parts), draws=20, seed=0)
    shown = [*comparison_tables("made", groups[:1], group_figures(parts, draws=20, seed=0)[:1])]
    areas, answers, characters, kinds = [table.splitlines() for table in shown[1:]]
    assert [line.split()[0] for line in areas[2:]] == ["ours", "mass", "flag"]
    assert "claims" not in areas[0]
    assert [line.split("  ")[0] for line in (*answers[2:], *characters[2:])] == ["ours", "ours, or weak"] * 2
    assert characters[3].split()[3:6] == ["72.7", "100.0", "84.2"]
    assert [line.split() for line in kinds[2:]] == [["date", "5", "0.0", "100.0"], ["number", "3", "100.0", "100.0"]]

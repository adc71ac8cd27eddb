from dataclasses import replace

import pytest

from attribeam.evaluation.support.judged_answers import AuditedAnswer, Overlap, audited_answer, group_figures
from attribeam.schemas import CharRange, Passage, QARecord, RowSource, SpanEvidence, SpanKind, Support
from attribeam.schemas.labelled_answer import JudgedAnswer, UnsupportedRange

TEXT = "Ada lit ten lamps in May."


def chars(part: str) -> CharRange:
    return CharRange(TEXT.index(part), TEXT.index(part) + len(part))


def judged(*unsupported: tuple[str, str], judged: list[str] | None = None, group: str | None = None) -> JudgedAnswer:
    return JudgedAnswer(
        QARecord("r", "", (Passage("x"),), TEXT, RowSource("a", 0)),
        tuple(UnsupportedRange(chars(part), kind) for part, kind in unsupported),
        None if judged is None else tuple(chars(part) for part in judged),
        group,
    )


def span(part: str, support: Support, mass: float = 0.5) -> SpanEvidence:
    return SpanEvidence(
        span_index=0,
        span_kind=SpanKind.GIVEN,
        chars=chars(part),
        text=part,
        atomic_fact=(chars(part),),
        evidence=(),
        passage_scores=(0.0,),
        top_passage_index=None,
        top_passage_id=None,
        margin=None,
        evidence_mass=mass,
        evidence_isolated=False,
        support=support,
        unmatched_values=(),
    )


def test_worked_example_of_characters():
    found = [span("ten lamps", Support.UNSUPPORTED), span("in May", Support.WEAK), span("Ada", Support.SUPPORTED)]
    audited = audited_answer(judged(("ten", "number"), ("in May", "date")), found)
    assert audited.overlaps == {"unsupported": Overlap(3, 8, 8), "unsupported or weak": Overlap(8, 13, 8)}
    assert audited.kinds == {
        "number": {"unsupported": Overlap(3, 8, 3), "unsupported or weak": Overlap(3, 13, 3)},
        "date": {"unsupported": Overlap(0, 8, 5), "unsupported or weak": Overlap(5, 13, 5)},
    }
    assert audited.calls == {"unsupported": True, "unsupported or weak": True}


def test_character_is_called_unsupported_if_any_of_its_spans_is():
    found = [span("ten lamps in May", Support.SUPPORTED), span("ten", Support.UNSUPPORTED)]
    assert audited_answer(judged(("ten", "x")), found).overlaps["unsupported"] == Overlap(3, 3, 3)


def test_words_that_a_weak_claim_names_are_called_unsupported_and_no_answer_is_for_them():
    weak = replace(span("ten lamps in May", Support.WEAK), unsupported_words=(chars("May"),))
    audited = audited_answer(judged(("in May", "x")), [weak])
    assert audited.overlaps == {"unsupported": Overlap(3, 3, 5), "unsupported or weak": Overlap(3, 3, 5)}
    assert audited.calls == {"unsupported": False, "unsupported or weak": True}


def test_span_counts_as_marked_if_half_of_it_is():
    found = [span("ten lamps", Support.WEAK, 0.1), span("in May", Support.WEAK, 0.3), span("Ada", Support.SUPPORTED)]
    spans = audited_answer(judged(("lamps", "x"), ("in", "x")), found).spans
    assert [one.marked for one in spans] == [True, False, False]


def test_what_the_person_did_not_look_at_counts_for_neither_side():
    found = [span("ten", Support.UNSUPPORTED), span("in May", Support.UNSUPPORTED)]
    audited = audited_answer(judged(("ten", "x"), judged=["Ada", "ten"]), found)
    assert audited.overlaps["unsupported"] == Overlap(3, 3, 3)
    assert len(audited.spans) == 1


def test_an_answers_number_is_that_of_its_worst_span():
    found = [span("Ada", Support.SUPPORTED, 0.9), span("ten", Support.WEAK, 0.2), span("May", Support.SUPPORTED, 0.1)]
    audited = audited_answer(judged(), found)
    assert (audited.lowest_mass, audited.lowest_flag) == (0.1, 2.2)


def answers() -> list[AuditedAnswer]:
    """Two tasks; the alarm is right in the first answer, wrong in the second, and missing in the third."""
    return [
        audited_answer(judged(("ten", "number"), group="QA"), [span("ten", Support.UNSUPPORTED, 0.0)]),
        audited_answer(judged(group="QA"), [span("Ada", Support.UNSUPPORTED, 0.2)]),
        audited_answer(judged(("in May", "date"), group="Summary"), [span("in May", Support.WEAK, 0.4)]),
        audited_answer(judged(group="Summary"), [span("lit", Support.SUPPORTED, 0.9)]),
    ]


def test_figures_of_all_answers():
    figures, *_ = group_figures(answers(), draws=20, seed=0)
    unsupported, or_weak = figures.levels
    assert (figures.answers, figures.marked_answers) == (4, 2)
    assert (unsupported.characters.precision, unsupported.characters.recall) == pytest.approx((50, 100 * 3 / 8))
    assert (unsupported.answers.precision, unsupported.answers.recall) == pytest.approx((50, 50))
    assert (or_weak.characters.recall, or_weak.answers.recall) == pytest.approx((100, 100))
    assert figures.answer_mass is not None
    assert figures.answer_mass.value == pytest.approx(3 / 4)
    assert figures.span_flag is not None
    assert figures.span_flag.value == pytest.approx(3 / 4)
    assert [(one.kind, one.characters, one.recall["unsupported"]) for one in figures.kinds] == [
        ("date", 5, 0.0),
        ("number", 3, 100.0),
    ]


def test_each_group_has_its_own_figures():
    _, qa, summary = group_figures(answers(), draws=20, seed=0)
    assert (qa.group, qa.levels[0].characters.f1) == ("QA", pytest.approx(100 * 2 * 3 / 9))
    assert (summary.group, summary.levels[0].characters.f1) == ("Summary", 0)
    assert summary.answer_mass is not None
    assert summary.answer_mass.value == 1


def test_answers_without_marks_have_no_area():
    (figures,) = group_figures(answers()[1:2], draws=5, seed=0)
    assert (figures.answer_mass, figures.span_flag) == (None, None)


def test_range_beyond_the_answer_is_refused():
    with pytest.raises(ValueError, match="within the answer's 25 code points"):
        JudgedAnswer(judged().record, (UnsupportedRange(CharRange(20, 26)),))

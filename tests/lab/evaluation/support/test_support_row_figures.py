import pytest

from attribeam.lab.evaluation.support.support_rows import FlaggedSpan, SpanTruth, best_thresholds, kind_figures
from attribeam.schemas import Support

RIGHT, WRONG = SpanTruth.SUPPORTED, SpanTruth.WRONG_NUMBER


def flagged(
    truth: SpanTruth, mass: float, support: Support = Support.SUPPORTED, *, row: int = 0, unmatched: bool = False
) -> FlaggedSpan:
    return FlaggedSpan(row=row, truth=truth, evidence_mass=mass, support=support, has_unmatched_values=unmatched)


def test_flag_orders_by_level_before_mass():
    spans = [
        flagged(RIGHT, 0.0, Support.UNSUPPORTED),
        flagged(RIGHT, 0.2, Support.UNSUPPORTED),
        flagged(RIGHT, 0.1, Support.WEAK),
        flagged(RIGHT, 1.0, Support.WEAK),
        flagged(RIGHT, 0.3, Support.SUPPORTED),
    ]
    assert [span.flag for span in spans] == sorted(span.flag for span in spans)
    assert len({span.flag for span in spans}) == len(spans)


def test_unmatched_value_lifts_the_flag_above_the_mass():
    spans = [flagged(RIGHT, 0.6), flagged(WRONG, 0.9, Support.WEAK, unmatched=True)]
    everything = kind_figures(spans, draws=10, seed=0)[0]
    assert (everything.evidence_mass.value, everything.flag.value) == (0.0, 1.0)


def test_each_kind_is_compared_with_all_spans_of_the_other_side():
    spans = [
        flagged(RIGHT, 0.9),
        flagged(SpanTruth.PARAPHRASE, 0.5, row=1),
        flagged(WRONG, 0.7, row=2),
        flagged(SpanTruth.WRONG_NAME, 0.1, row=3),
    ]
    figures = {one.kind: one for one in kind_figures(spans, draws=20, seed=0)}
    assert list(figures) == ["all", "supported", "paraphrase", "wrong number", "wrong name"]
    areas = {kind: one.evidence_mass.value for kind, one in figures.items()}
    assert areas == {"all": 0.75, "supported": 1.0, "paraphrase": 0.5, "wrong number": 0.5, "wrong name": 1.0}


def test_shares_are_percent_of_the_kind():
    spans = [
        flagged(WRONG, 0.7, Support.SUPPORTED),
        flagged(WRONG, 0.7, Support.WEAK, unmatched=True),
        flagged(WRONG, 0.1, Support.UNSUPPORTED),
        flagged(WRONG, 0.1, Support.UNSUPPORTED),
    ]
    (_, wrong) = kind_figures(spans, draws=5, seed=0)
    assert (wrong.spans, wrong.flagged, wrong.called_supported, wrong.unmatched) == (4, 75.0, 25.0, 25.0)


def test_without_the_other_side_there_is_no_area():
    (everything, _) = kind_figures([flagged(RIGHT, 0.5)], draws=5, seed=0)
    assert (everything.evidence_mass, everything.flag) == (None, None)


def test_supported_threshold_lies_in_the_middle_of_the_gap():
    spans = [*(flagged(RIGHT, mass) for mass in (0.6, 0.7, 0.8)), *(flagged(WRONG, mass) for mass in (0.1, 0.2, 0.4))]
    assert best_thresholds(spans).supported == pytest.approx(0.5, abs=0.002)


def test_span_with_unmatched_values_does_not_move_the_supported_threshold():
    spans = [*(flagged(RIGHT, mass) for mass in (0.6, 0.7, 0.8)), *(flagged(WRONG, mass) for mass in (0.1, 0.2, 0.4))]
    spans += [flagged(WRONG, 0.9, Support.WEAK, unmatched=True)] * 3
    assert best_thresholds(spans).supported == pytest.approx(0.5, abs=0.002)


def test_most_supported_spans_lie_above_weak_and_weak_below_supported():
    spans = [*(flagged(RIGHT, place / 100) for place in range(100)), flagged(WRONG, 0.3), flagged(WRONG, 0.02)]
    best = best_thresholds(spans)
    assert best.weak <= best.supported
    assert sum(span.evidence_mass >= best.weak for span in spans if span.truth is RIGHT) >= 95


def test_thresholds_need_both_sides():
    assert best_thresholds([flagged(RIGHT, 0.5)]) is None
    assert best_thresholds([flagged(WRONG, 0.5)]) is None


def test_span_without_a_verdict_is_neither_flagged_nor_called_supported():
    spans = [flagged(RIGHT, 0.6, Support.SUPPORTED), flagged(RIGHT, 0.1, Support.NO_CLAIM)]
    figures, *_ = kind_figures(spans, draws=5, seed=0)
    assert (figures.flagged, figures.called_supported) == (0, 50)

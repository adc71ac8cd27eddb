"""Passage accuracy, verdicts as decisions and as probabilities, and bootstrap intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made_audit import place

from attribeam.evaluation.datasets.dataset_file import PassageRange
from attribeam.evaluation.measures import (
    Interval,
    RowBootstrap,
    auroc,
    f1_figures,
    precision_at,
    rank_correlation,
    reliability,
    row_draws,
    verdict_figures,
)
from attribeam.evaluation.measures.accuracy import (
    HighlightOverlap,
    best_sentences,
    highlight_overlap,
    highlight_score,
    span_credit,
)
from attribeam.schemas import EvidencePiece, Passage


@pytest.mark.parametrize(
    ("scores", "gold", "credit"),
    [
        ([0.2, 0.9, 0.1], {1}, 1.0),
        ([0.2, 0.9, 0.1], {0}, 0.0),
        ([0.1, 0.0, 0.7], {0, 2}, 1.0),
        *(([4.0, 1.0, 4.0, 4.0], *pair) for pair in (({0}, 1 / 3), ({1}, 0.0), ({0, 2}, 2 / 3), ({0, 2, 3}, 1.0))),
        *((nothing, {0}, 0.0) for nothing in ([], [0.0], [0.0, 0.0])),
        ([0.1 + 0.2, 0.3], {1}, 0.5),  # equal but for rounding
    ],
)
def test_credit_is_the_share_of_gold_passages_among_the_best(scores, gold, credit):
    assert span_credit(scores, gold) == pytest.approx(credit)


PASSAGES = [Passage(text="red lamp at sea"), Passage(text="blue lamp")]


def in_passage(passage_index, text):
    return PassageRange(passage_index, place(text, PASSAGES[passage_index].text))


@pytest.mark.parametrize(
    ("evidence", "gold", "recall", "precision"),
    [
        ([(0, "lamp at")], (0, "red lamp"), 4 / 7, 4 / 6),
        ([(1, "lamp")], (0, "lamp"), 0.0, 0.0),
        ([(0, "red lamp"), (0, "lamp")], (0, "red lamp"), 1.0, 1.0),
        ([], (0, "red"), 0.0, 0.0),
    ],
)
def test_recall_and_precision_count_visible_characters_once(evidence, gold, recall, precision):
    found = highlight_overlap(
        evidence=[in_passage(*one) for one in evidence], gold=[in_passage(*gold)], passages=PASSAGES
    )
    assert found == HighlightOverlap(recall, precision)


def test_score_is_the_mean_over_spans_and_f1_the_mean_of_their_own():
    rows = [[HighlightOverlap(1.0, 1.0), HighlightOverlap(0.5, 0.25)], [HighlightOverlap(0.0, 0.0)]]
    score = highlight_score(rows, RowBootstrap([2, 1], draws=50))
    assert (score.recall, score.precision) == (pytest.approx(50), pytest.approx(100 * 1.25 / 3))
    assert score.f1 == pytest.approx(100 * (4 / 3) / 3)
    assert score.f1_interval.low <= score.f1 <= score.f1_interval.high


def test_difference_of_f1_is_paired_by_row():
    own = [[HighlightOverlap(1.0, 1.0)], [HighlightOverlap(0.5, 0.5)]]
    words = [[HighlightOverlap(0.5, 0.5)], [HighlightOverlap(0.0, 0.0)]]
    bootstrap = RowBootstrap([1, 1], draws=50)
    score = highlight_score(own, bootstrap, words)
    assert score.f1_difference_to_words == pytest.approx(50)
    assert (score.f1_difference_interval.low, score.f1_difference_interval.high) == (50.0, 50.0)
    assert highlight_score(own, bootstrap).f1_difference_interval is None


SEA = "The lamp burns. Mr. Reed lit it in 1874. Gulls cry."
SENTENCES = [Passage(text=SEA), Passage(text="A bell rings.\nNo lamp.")]
LAMP, REED, GULLS = "The lamp burns.", "Mr. Reed lit it in 1874.", "Gulls cry."


@pytest.mark.parametrize(
    ("evidence", "best"),
    [
        ([("Gulls", 0.9), ("Reed", 1.0), ("1874", 1.0)], [REED]), ([("lamp", 1.0), ("Reed", 0.49)], [LAMP]),
        ([("lamp", 1.0), ("Reed", 0.5)], [LAMP, REED]), ([("lamp", 1.0), ("bell", 0.9)], [LAMP]),
        ([("burns. Mr", 9.0), ("Gulls", 2.9)], [LAMP]), ([("burns. Mr", 9.0), ("Gulls", 3.1)], [LAMP, GULLS]),
        ([("bell", 1.0), ("Gulls", 1.0)], [GULLS]), ([], []),
    ],
)  # fmt: skip
def test_best_sentences_are_those_near_the_best_of_its_passage(evidence, best):
    pieces = []
    for text, score in evidence:
        index = 0 if text in SEA else 1
        pieces.append(EvidencePiece(index, None, False, place(text, SENTENCES[index].text), text, score))
    found = best_sentences(pieces, SENTENCES)
    assert [one.chars.of(SENTENCES[one.passage_index].text) for one in found] == best


CALLED = [True, True, True, False, False, False, False, False]
MARKED = [True, True, False, True, False, False, False, False]
COUNTS = row_draws(8, draws=300, seed=1)


def test_worked_example():
    figures = verdict_figures(CALLED, MARKED, COUNTS)
    shares = (figures.precision, figures.recall, figures.f1, figures.false_alarms, figures.balanced_accuracy)
    expected = (2 / 3, 2 / 3, 2 / 3, 1 / 5, (2 / 3 + 4 / 5) / 2)
    assert figures.called == 3
    assert [one.value for one in shares] == pytest.approx([100 * one for one in expected])


def test_interval_is_that_of_resampled_rows():
    drawn = []
    for counts in COUNTS:
        rows = np.repeat(np.arange(8), counts)
        clean = [row for row in rows if not MARKED[row]]
        if clean:
            drawn.append(100 * np.mean([CALLED[row] for row in clean]))
    low, high = np.percentile(drawn, [2.5, 97.5])
    interval = verdict_figures(CALLED, MARKED, COUNTS).false_alarms.interval
    assert (interval.low, interval.high) == pytest.approx((low, high))


def test_share_without_rows_to_divide_by_is_missing():
    figures = verdict_figures([False, False], [True, True], row_draws(2, draws=20, seed=0))
    assert (figures.precision, figures.false_alarms, figures.balanced_accuracy) == (None, None, None)
    assert (figures.recall.value, figures.f1.value) == (0, 0)


@pytest.mark.parametrize(
    ("scores", "marked", "share"),
    [
        ([0.1, 0.9, 0.5, 0.7], [True, True, False, False], 1 / 2),
        ([0.9, 0.5, 0.5, 0.5], [False, True, False, False], (0 + 1 / 3) / 2),  # equal scores share the last place
    ],
)
def test_precision_counts_the_rows_with_the_largest_scores(scores, marked, share):
    found = precision_at(2, scores, marked, row_draws(4, draws=50, seed=0))
    assert found.precision.value == pytest.approx(100 * share)
    assert found.precision.interval.low < 100 * share <= found.precision.interval.high


def naive_correlation(scores, grades):
    if len(set(scores)) == 1 or len(set(grades)) == 1:
        return None
    ranks = [
        [sum(other > number for other in numbers) + (numbers.count(number) + 1) / 2 for number in numbers]
        for numbers in (list(scores), list(grades))
    ]
    return np.corrcoef(*ranks)[0, 1]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=12))
def test_correlation_is_pearsons_of_the_ranks_and_its_interval_that_of_resampled_rows(pairs):
    counts = row_draws(len(pairs), draws=20, seed=0)
    found, expected = rank_correlation(*zip(*pairs, strict=True), counts), naive_correlation(*zip(*pairs, strict=True))
    if expected is None:
        assert found is None
        return
    resampled = [[pair for pair, count in zip(pairs, draw, strict=True) for _ in range(count)] for draw in counts]
    drawn = [naive_correlation(*zip(*one, strict=True)) for one in resampled]
    ends = np.percentile([one for one in drawn if one is not None] or [expected], [2.5, 97.5])
    assert (found.value, found.interval.low, found.interval.high) == pytest.approx((expected, *ends))


def test_bins_hold_as_many_items_each():
    scores = [number / 40 for number in range(40)]
    found = reliability(scores, [score > 0.5 for score in scores], range(40), row_draws(40, draws=5, seed=0))
    assert [one.items for one in found.bins] == [4] * 10
    assert found.bins[0].mean_score == pytest.approx(np.mean(scores[:4]))
    assert found.bins[-1].marked_share == 1


def test_intervals_of_reliability_draw_rows_with_all_their_items():
    rows, counts = np.array([0, 0, 1, 1, 2, 2]), row_draws(3, draws=200, seed=2)
    scores, marked = np.array([0.9, 0.1, 0.1, 0.8, 0.6, 0.2]), np.array([True, False, True, True, False, False])
    found = reliability(list(scores), list(marked), list(rows), counts)
    weights = counts[:, rows] / 6
    for interval, drawn in (
        (found.brier_score_interval, weights @ (scores - marked) ** 2),
        (found.calibration_error_interval, np.abs(weights * (scores - marked)) @ np.ones(6)),
    ):
        assert (interval.low, interval.high) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))


SPANS = [1, 3, 2, 4, 1, 2]


@pytest.mark.parametrize(("spans", "draws"), [([], 10), ([1], 0)])
def test_no_rows_or_no_draws_are_refused(spans, draws):
    with pytest.raises(ValueError, match="at least 1"):
        RowBootstrap(spans, draws=draws)


ALL_DRAWS = np.ones((5, 2), dtype=np.int64)


def test_counts_are_summed_before_they_are_divided():
    figures = f1_figures([(3, 4, 3), (1, 6, 5)], ALL_DRAWS)
    assert figures.precision == pytest.approx(40)
    assert figures.recall == pytest.approx(50)
    assert figures.f1 == pytest.approx(100 * 2 * 4 / 18)
    assert (figures.f1_interval.low, figures.f1_interval.high) == pytest.approx((figures.f1, figures.f1))


ITEMS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30).filter(
    lambda items: len({right for _, right in items}) == 2
)


def once(rows):
    return np.ones((1, rows), dtype=np.int64)


def by_pairs(items):
    pairs = [(a > b) + 0.5 * (a == b) for a, right in items for b, other in items if right and not other]
    return sum(pairs) / len(pairs)


@given(ITEMS)
def test_area_is_the_share_of_pairs_in_order_with_ties_counted_half(items):
    numbers, right = zip(*items, strict=True)
    area = auroc(numbers=numbers, right=right, rows=[0] * len(items), row_counts=once(1))
    assert area.value == pytest.approx(by_pairs(items))


def test_resamples_without_a_wrong_item_are_left_out():
    counts = row_draws(2, draws=200, seed=0)
    area = auroc(numbers=[0.1, 0.9], right=[False, True], rows=[0, 1], row_counts=counts)
    assert (area.value, area.interval) == (1.0, Interval(1.0, 1.0))


@pytest.mark.parametrize("right", [[True, True], [False, False]])
def test_items_of_one_kind_alone_have_no_area(right):
    assert auroc(numbers=[0.0, 1.0], right=right, rows=[0, 0], row_counts=once(1)) is None

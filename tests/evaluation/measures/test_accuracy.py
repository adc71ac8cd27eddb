"""Passage accuracy, and the overlap of evidence and highlights."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribeam.evaluation.measures.accuracy import HighlightOverlap, HighlightTally, highlight_overlap, span_credit
from attribeam.evaluation.measures.bootstrap import RowBootstrap
from attribeam.schemas import CharRange, Passage
from attribeam.schemas.labelled_answer import PassageRange


def test_best_passage_decides():
    assert span_credit([0.2, 0.9, 0.1], {1}) == 1.0
    assert span_credit([0.2, 0.9, 0.1], {0}) == 0.0


@pytest.mark.parametrize(("gold", "credit"), [({0}, 1 / 3), ({1}, 0.0), ({0, 2}, 2 / 3), ({0, 2, 3}, 1.0)])
def test_tie_is_shared_among_its_passages(gold, credit):
    assert span_credit([4.0, 1.0, 4.0, 4.0], gold) == pytest.approx(credit)


def test_any_gold_passage_is_right():
    assert span_credit([0.1, 0.0, 0.7], {0, 2}) == 1.0


@pytest.mark.parametrize("scores", [[], [0.0], [0.0, 0.0]])
def test_nothing_found_is_wrong(scores):
    assert span_credit(scores, {0}) == 0.0


def test_sums_that_differ_by_rounding_are_a_tie():
    assert span_credit([0.1 + 0.2, 0.3], {1}) == 0.5


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6))
def test_credits_of_all_passages_sum_to_one(scores):
    assert sum(span_credit(scores, {index}) for index in range(len(scores))) == pytest.approx(1)


PASSAGES = [Passage(text="red lamp at sea"), Passage(text="blue lamp")]


def in_passage(passage_index: int, text: str) -> PassageRange:
    start = PASSAGES[passage_index].text.index(text)
    return PassageRange(passage_index, CharRange(start, start + len(text)))


def overlap(evidence: list[PassageRange], gold: list[PassageRange]) -> HighlightOverlap:
    return highlight_overlap(evidence=evidence, gold=gold, passages=PASSAGES)


def test_recall_and_precision_count_visible_characters():
    assert overlap([in_passage(0, "lamp at")], [in_passage(0, "red lamp")]) == HighlightOverlap(4 / 7, 4 / 6)


def test_same_characters_of_another_passage_do_not_count():
    assert overlap([in_passage(1, "lamp")], [in_passage(0, "lamp")]) == HighlightOverlap(0.0, 0.0)


def test_overlapping_ranges_count_once():
    evidence = [in_passage(0, "red lamp"), in_passage(0, "lamp")]
    assert overlap(evidence, [in_passage(0, "red lamp")]) == HighlightOverlap(1.0, 1.0)


def test_no_evidence_is_zero_for_both():
    assert overlap([], [in_passage(0, "red")]) == HighlightOverlap(0.0, 0.0)


def test_f1_is_the_harmonic_mean_and_0_without_a_common_character():
    assert HighlightOverlap(recall=0.5, precision=0.25).f1 == pytest.approx(1 / 3)
    assert HighlightOverlap(recall=0.0, precision=0.0).f1 == 0.0


def test_score_is_the_mean_over_spans_and_f1_the_mean_of_their_own():
    rows = [[HighlightOverlap(1.0, 1.0), HighlightOverlap(0.5, 0.25)], [HighlightOverlap(0.0, 0.0)]]
    score = HighlightTally(rows).score(RowBootstrap([2, 1], draws=50))
    assert (score.recall, score.precision) == (pytest.approx(50), pytest.approx(100 * 1.25 / 3))
    assert score.f1 == pytest.approx(100 * (4 / 3) / 3)
    assert score.f1_interval.low <= score.f1 <= score.f1_interval.high


def test_difference_of_f1_is_paired_by_row():
    own = HighlightTally([[HighlightOverlap(1.0, 1.0)], [HighlightOverlap(0.5, 0.5)]])
    words = HighlightTally([[HighlightOverlap(0.5, 0.5)], [HighlightOverlap(0.0, 0.0)]])
    bootstrap = RowBootstrap([1, 1], draws=50)
    score = own.score(bootstrap, words)
    assert score.f1_difference_to_words == pytest.approx(50)
    assert (score.f1_difference_interval.low, score.f1_difference_interval.high) == (50.0, 50.0)
    assert own.score(bootstrap).f1_difference_interval is None


def test_data_without_highlights_has_no_score():
    assert HighlightTally().score(RowBootstrap([1])) is None

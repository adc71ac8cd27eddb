import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.measures.passage_accuracy import span_credit


def test_best_passage_decides():
    assert span_credit([0.2, 0.9, 0.1], {1}) == 1.0
    assert span_credit([0.2, 0.9, 0.1], {0}) == 0.0


@pytest.mark.parametrize(("gold", "credit"), [({0}, 1 / 3), ({1}, 0.0), ({0, 2}, 2 / 3), ({0, 2, 3}, 1.0)])
def test_tie_is_shared_among_its_passages(gold, credit):
    assert span_credit([4.0, 1.0, 4.0, 4.0], gold) == pytest.approx(credit)


def test_any_gold_passage_will_do():
    assert span_credit([0.1, 0.0, 0.7], {0, 2}) == 1.0


@pytest.mark.parametrize("scores", [[], [0.0], [0.0, 0.0]])
def test_nothing_found_is_wrong(scores):
    assert span_credit(scores, {0}) == 0.0


def test_sums_that_differ_by_rounding_are_a_tie():
    assert span_credit([0.1 + 0.2, 0.3], {1}) == 0.5


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=6))
def test_credits_of_all_passages_sum_to_one(scores):
    assert sum(span_credit(scores, {index}) for index in range(len(scores))) == pytest.approx(1)

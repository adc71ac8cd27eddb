import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.token_attribution import EncodedRow, TokenAttribution
from attribution.union import PassageScores, keep_neighboured


def scores_of(
    top: list[list[tuple[int, float]]], column_passage: list[int], *, blank: int | None = None
) -> PassageScores:
    """The passage scores of response tokens with these (column, similarity) pairs; ``blank`` is white space alone."""
    size, responses = len(column_passage), len(top)
    starts = np.arange(size, dtype=np.int32)
    ends = starts + (starts != blank)
    encoded = EncodedRow(
        token_ids=np.zeros(size + responses, dtype=np.int32),
        prompt_length=size,
        column_passage=np.array(column_passage, dtype=np.int32),
        column_in_title=np.zeros(size, dtype=np.bool_),
        column_char_start=starts,
        column_char_end=ends.astype(np.int32),
        response_char_start=np.arange(responses, dtype=np.int32),
        response_char_end=np.arange(1, responses + 1, dtype=np.int32),
    )
    tokens = TokenAttribution(
        top_columns=np.array([[column for column, _ in row] for row in top], dtype=np.int32).reshape(responses, -1),
        top_scores=np.array([[score for _, score in row] for row in top], dtype=np.float32).reshape(responses, -1),
        passage_mass=np.zeros((responses, 1), dtype=np.float32),
    )
    return PassageScores(encoded=encoded, tokens=tokens)


def algorithm_1(
    top: list[list[tuple[int, float]]], column_passage: list[int], multiplicity: list[int], tau: float
) -> dict[int, float]:
    """Algorithm 1 as the paper writes it."""
    w: dict[int, float] = {}
    for row, count in zip(top, multiplicity, strict=True):
        for _ in range(count):
            for j, similarity in row:
                if column_passage[j] >= 0 and similarity > 0:
                    w[j] = w.get(j, 0) + similarity
    if math.isinf(tau):
        return w
    near = range(-int(tau), int(tau) + 1)
    return {i: score for i, score in w.items() if any(i + step in w for step in near if step)}


SIMILARITIES = st.sampled_from([0.0, 0.125, 0.25, 0.5])


@st.composite
def responses(draw: st.DrawFn) -> tuple[list[list[tuple[int, float]]], list[int], list[int]]:
    column_passage = draw(st.lists(st.sampled_from([-1, 0, 0, 1]), min_size=3, max_size=16))
    columns = st.lists(st.sampled_from(range(len(column_passage))), min_size=2, max_size=2, unique=True)
    chosen = draw(st.lists(columns, min_size=1, max_size=6))
    top = [[(column, draw(SIMILARITIES)) for column in row] for row in chosen]
    return top, column_passage, [draw(st.integers(0, 3)) for _ in top]


@given(response=responses(), tau=st.sampled_from([0, 1, 2, 3, math.inf]))
def test_union_and_filter_are_algorithm_1(
    response: tuple[list[list[tuple[int, float]]], list[int], list[int]], tau: float
) -> None:
    top, column_passage, multiplicity = response
    expected = algorithm_1(top, column_passage, multiplicity, tau)
    unfiltered = algorithm_1(top, column_passage, multiplicity, math.inf)
    found = scores_of(top, column_passage).span_scores(np.array(multiplicity), isolation_tau=tau)
    assert found.evidence_isolated == (bool(unfiltered) and not expected)
    kept = expected or unfiltered
    assert found.columns.tolist() == sorted(kept)
    assert found.scores.tolist() == [kept[column] for column in sorted(kept)]


def kept(columns: list[int], tau: float) -> list[int]:
    return [
        column
        for column, stays in zip(columns, keep_neighboured(np.array(columns), isolation_tau=tau).tolist(), strict=True)
        if stays
    ]


def test_token_within_tau_of_another_is_kept_both_ends_included() -> None:
    assert kept([5, 7, 20], 2) == [5, 7]


def test_isolated_token_below_tau_is_dropped() -> None:
    assert kept([5, 8], 2) == []


def test_infinite_tau_switches_the_filter_off() -> None:
    assert kept([5, 800], math.inf) == [5, 800]


def test_tau_of_zero_drops_everything() -> None:
    assert kept([5, 6], 0) == []


def test_tokens_outside_passages_neighbour_nothing() -> None:
    found = scores_of([[(0, 0.5), (1, 0.25)]], [-1, 0, 0]).span_scores(np.ones(1, dtype=np.int64), isolation_tau=2)
    assert (found.columns.tolist(), found.evidence_isolated) == ([1], True)


def test_filter_that_leaves_nothing_gives_the_unfiltered_evidence() -> None:
    found = scores_of([[(0, 0.5), (9, 0.25)]], [0] * 10).span_scores(np.ones(1, dtype=np.int64), isolation_tau=2)
    assert (found.columns.tolist(), found.scores.tolist(), found.evidence_isolated) == ([0, 9], [0.5, 0.25], True)


def test_no_evidence_is_not_isolated_evidence() -> None:
    found = scores_of([[(0, 0.5)]], [-1]).span_scores(np.ones(1, dtype=np.int64), isolation_tau=2)
    assert (found.columns.tolist(), found.evidence_isolated) == ([], False)


def test_mass_is_the_mean_of_the_spans_own_tokens() -> None:
    scores = scores_of([[(0, 0.5), (1, 0.25)], [(1, 0.5), (2, 0.25)], [(0, 1.0), (2, 0.0)]], [0, 0, 0])
    assert scores.mean_mass_on(np.array([0, 1]), span_tokens=np.array([0, 1])) == pytest.approx((0.75 + 0.5) / 2)
    assert scores.mean_mass_on(np.array([0, 1]), span_tokens=np.array([], dtype=np.intp)) == 0.0


def test_white_space_of_a_passage_is_no_evidence_and_no_neighbour() -> None:
    scores = scores_of([[(1, 0.5), (2, 0.25), (5, 0.125)]], [-1, 0, 0, 0, 0, 0], blank=2)
    found = scores.span_scores(np.array([1]), isolation_tau=2)
    assert (found.columns.tolist(), found.evidence_isolated) == ([1, 5], True)
    assert scores.mean_mass_on(np.array([1, 2]), span_tokens=np.array([0])) == 0.5

"""Which evidence is left where only the best window of each passage counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.evidence.evidence_window import windowed
from attribution.evidence.union import UnionScores
from attribution.settings import UnionSettings
from attribution.token_attribution import EncodedRow

INFINITE = float("inf")
Scores = list[dict[int, float]]


def encoded_row(column_passage: list[int], titles: set[int]) -> EncodedRow:
    size = len(column_passage)
    nothing = np.zeros(0, dtype=np.int32)
    return EncodedRow(
        token_ids=np.zeros(size, dtype=np.int32),
        prompt_length=size,
        column_passage=np.array(column_passage, dtype=np.int32),
        column_in_title=np.array([column in titles for column in range(size)]),
        column_char_start=np.arange(size, dtype=np.int32),
        column_char_end=np.arange(1, size + 1, dtype=np.int32),
        response_char_start=nothing,
        response_char_end=nothing,
    )


def union_scores(evidence: Scores) -> UnionScores:
    cells = [(union, column, one[column]) for union, one in enumerate(evidence) for column in sorted(one)]
    unions, columns, scores = (np.array([cell[part] for cell in cells]) for part in range(3))
    return UnionScores(unions.astype(np.intp), columns.astype(np.intp), scores.astype(float), [False] * len(evidence))


def naive(
    evidence: dict[int, float], context: dict[int, float], column_passage: list[int], titles: set[int], window: float
) -> tuple[set[int], list[float]]:
    """The kept columns and the passage scores of one union, window after window."""
    kept, sums = set(), []
    for passage in range(2):
        columns = [column for column, one in enumerate(column_passage) if one == passage]
        text = [column for column in columns if column not in titles]
        worth = {column: evidence.get(column, 0.0) + context.get(column, 0.0) for column in columns}
        windows = [[other for other in text if column <= other < column + window] for column in text if worth[column]]
        if any(column in evidence for column in text):
            windows = [one for one in windows if any(column in evidence for column in one)]
        best = max(windows, key=lambda one: sum(worth[column] for column in one), default=[])
        inside = {*best, *(column for column in columns if column in titles)}
        kept |= inside & set(evidence)
        sums.append(sum(worth[column] for column in inside))
    return kept, sums


VALUES = st.sampled_from([0.125, 0.25, 0.5, 1.0])


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[int], set[int], Scores, Scores]:
    order = draw(st.sampled_from([(0, 1), (1, 0)]))
    lengths = [draw(st.integers(1, 9)) for _ in order]
    column_passage = [-1]
    titles = set()
    for passage, length in zip(order, lengths, strict=True):
        titles |= {len(column_passage)} if draw(st.booleans()) else set()
        column_passage += [passage] * length + [-1]
    inside = [column for column, passage in enumerate(column_passage) if passage >= 0]
    some = st.dictionaries(st.sampled_from(inside), VALUES, max_size=8)
    evidence = [draw(some) for _ in range(3)]
    return column_passage, titles, evidence, [draw(some) for _ in evidence]


@given(row=rows(), window=st.sampled_from([1, 2, 3, 5, INFINITE]), with_context=st.booleans())
def test_windows_are_those_of_the_naive_search(
    row: tuple[list[int], set[int], Scores, Scores], window: float, with_context: bool
) -> None:
    column_passage, titles, evidence, added = row
    columns = sorted({column for one in [*evidence, *added] for column in one})
    values = np.array([[one.get(column, 0.0) for column in columns] for one in added]).reshape(len(added), -1)
    found = windowed(
        union_scores(evidence),
        encoded=encoded_row(column_passage, titles),
        passage_count=2,
        window=window,
        context=(np.array(columns, dtype=np.intp), values) if with_context else None,
    )
    for union, own in enumerate(evidence):
        kept, sums = naive(own, added[union] if with_context else {}, column_passage, titles, window)
        assert set(found.evidence.columns[found.evidence.unions == union].tolist()) == kept
        assert found.passage_scores[union].tolist() == pytest.approx(sums)


def test_of_equal_windows_the_first_counts() -> None:
    found = windowed(union_scores([{1: 0.5, 4: 0.5}]), encoded=encoded_row([0] * 6, set()), passage_count=1, window=2)
    assert found.evidence.columns.tolist() == [1]
    assert found.passage_scores.tolist() == [[0.5]]


@pytest.mark.parametrize("window", [0, -1, 2.5, float("nan")])
def test_window_that_is_no_number_of_tokens_is_refused(window: float) -> None:
    with pytest.raises(ValueError, match="evidence_window"):
        replace(UnionSettings(), evidence_window=window)

"""The merged attribution is that of the merged matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribution.prompts.window_merge import attribute_with_windows, merge_windows
from attribution.token_attribution import EncodedRow, PassageWindow, TokenAttribution
from schemas import Reason, RowFault

RESPONSES = 3


def made_row(prompt_length: int, windows: tuple[PassageWindow, ...] = ()) -> EncodedRow:
    zeros, ends = np.zeros(prompt_length, np.int32), np.ones(RESPONSES, np.int32)
    ids = np.zeros(prompt_length + RESPONSES, np.int32)
    return EncodedRow(ids, prompt_length, zeros, zeros.astype(bool), zeros, zeros, ends - 1, ends, windows)


def row_with_windows(columns: Sequence[Sequence[int]]) -> EncodedRow:
    length = 1 + max(column for some in columns for column in some)
    return made_row(length, tuple(PassageWindow(made_row(len(some)), np.array(some, np.int32)) for some in columns))


def largest(similarity: np.ndarray, top_k: int) -> tuple[np.ndarray, np.ndarray]:
    order = [
        sorted(range(similarity.shape[1]), key=lambda column, row=row: (-row[column], column)) for row in similarity
    ]
    top = np.array(order, np.int32)[:, :top_k]
    return top, np.take_along_axis(similarity, top, axis=1)


def attributed(similarity: np.ndarray, top_k: int, passage_mass: np.ndarray, sink_mass: float = 0) -> TokenAttribution:
    outside = np.full(RESPONSES, sink_mass, np.float32)
    return TokenAttribution(*largest(similarity, top_k), passage_mass, outside)


@st.composite
def windows_and_scores(draw: st.DrawFn) -> tuple[list[list[int]], list[np.ndarray], int]:
    """Windows over some columns that share the outer ones, and whole matrices with many ties."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    shared, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    ends = np.cumsum([shared, *sizes]).tolist()
    tail = [*range(ends[-1], ends[-1] + after)]
    columns = [[*range(shared), *range(a, b), *tail] for a, b in pairwise(ends)]
    numbers = st.integers(0, 6)
    scores = [
        np.array(draw(st.lists(numbers, min_size=RESPONSES * len(some), max_size=RESPONSES * len(some))), np.float32)
        for some in columns
    ]
    matrices = [one.reshape(RESPONSES, -1) / 8 for one in scores]
    return columns, matrices, draw(st.integers(1, 6))


@settings(max_examples=150, deadline=None)
@given(case=windows_and_scores())
def test_merge_of_the_top_k_is_the_top_k_of_the_merged_matrices(
    case: tuple[list[list[int]], list[np.ndarray], int],
) -> None:
    columns, matrices, top_k = case
    row = row_with_windows(columns)
    merged = np.full((RESPONSES, row.prompt_length), -1, np.float32)
    for some, matrix in zip(columns, matrices, strict=True):
        merged[:, some] = np.maximum(merged[:, some], matrix)
    masses = [np.full((RESPONSES, 2), number, np.float32) for number in range(len(columns))]
    parts = [attributed(one, top_k, mass) for one, mass in zip(matrices, masses, strict=True)]
    found = merge_windows(row, parts, top_k=top_k)
    expected_columns, expected_scores = largest(merged, top_k)
    np.testing.assert_array_equal(found.top_columns, expected_columns)
    np.testing.assert_array_equal(found.top_scores, expected_scores)
    np.testing.assert_array_equal(found.passage_mass, sum(masses))
    assert (found.top_columns.dtype, found.top_scores.dtype) == (np.int32, np.float32)
    assert found.passage_mass.dtype == np.float32


def test_merge_of_one_window_changes_nothing() -> None:
    similarity = np.random.default_rng(7).random((RESPONSES, 9), np.float32)
    mass = np.ones((RESPONSES, 2), np.float32)
    one = attributed(similarity, 4, mass, sink_mass=0.3)
    found = merge_windows(row_with_windows([range(9)]), [one], top_k=4)
    for name in ("top_columns", "top_scores", "passage_mass", "sink_mass"):
        np.testing.assert_array_equal(getattr(found, name), getattr(one, name))


def test_mass_outside_the_passages_is_the_mean_over_windows_and_shares_still_add_up() -> None:
    similarity, nothing = np.zeros((RESPONSES, 3), np.float32), np.zeros((RESPONSES, 2), np.float32)
    first, second = nothing + np.array([0.5, 0], np.float32), nothing + np.array([0, 0.125], np.float32)
    parts = [attributed(similarity, 2, first, sink_mass=0.5), attributed(similarity, 2, second, sink_mass=0.875)]
    found = merge_windows(row_with_windows([[0, 1, 2], [0, 3, 4]]), parts, top_k=2)
    assert found.sink_mass.tolist() == [0.6875] * RESPONSES
    assert found.sink_mass.dtype == np.float32
    assert (found.passage_mass.sum(1) / len(parts) + found.sink_mass).tolist() == [1] * RESPONSES


def test_rows_with_and_without_windows_keep_their_order_and_a_windows_fault_is_its_rows() -> None:
    rows = [made_row(4), row_with_windows([[0, 1, 2], [0, 3]]), row_with_windows([[0, 1], [0, 2]])]
    seen: list[tuple[int, int]] = []

    def attribute(some: Sequence[EncodedRow], counts: Sequence[int]) -> list[TokenAttribution | RowFault]:
        seen.extend((row.prompt_length, count) for row, count in zip(some, counts, strict=True))
        mass = [np.zeros((RESPONSES, count), np.float32) for count in counts]
        found: list[TokenAttribution | RowFault] = [
            attributed(np.ones((RESPONSES, row.prompt_length), np.float32), 2, mass[place])
            for place, row in enumerate(some)
        ]
        found[-1] = RowFault(Reason.OUT_OF_MEMORY, "too large")
        return found

    outcomes = attribute_with_windows(rows, [1, 5, 7], top_k=2, attribute=attribute)
    assert seen == [(4, 1), (3, 5), (2, 5), (2, 7), (2, 7)]
    assert isinstance(outcomes[0], TokenAttribution)
    assert isinstance(outcomes[1], TokenAttribution)
    assert outcomes[1].passage_mass.shape == (RESPONSES, 5)
    assert isinstance(outcomes[2], RowFault)
    assert outcomes[2].reason is Reason.OUT_OF_MEMORY


@pytest.mark.parametrize("counts", [[1], [1, 2, 3]])
def test_one_passage_count_a_row_is_needed(counts: list[int]) -> None:
    with pytest.raises(ValueError, match="zip"):
        attribute_with_windows([made_row(4), made_row(4)], counts, top_k=2, attribute=lambda _rows, _counts: [])

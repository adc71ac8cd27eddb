"""Top-k and passage mass against plain references."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attribeam.attribution.attention import reduction
from attribeam.attribution.attention.reduction import passage_mass, sink_mass, top_columns

# Few different values, so that ties are everywhere.
rows = st.integers(1, 9).flatmap(
    lambda width: st.lists(
        st.lists(st.sampled_from([0.0, 1e-30, 0.125, 0.5, 1.0]), min_size=width, max_size=width), min_size=1, max_size=4
    )
)


@given(rows, st.integers(1, 12))
def test_best_columns_come_first_and_ties_go_to_the_lower_column(values: list[list[float]], top_k: int) -> None:
    columns, scores = top_columns(torch.tensor(values), top_k)
    for row, found, found_scores in zip(values, columns.tolist(), scores.tolist(), strict=True):
        expected = sorted(range(len(row)), key=lambda column: (-row[column], column))[:top_k]
        assert found == expected
        assert found_scores == torch.tensor(row)[expected].tolist()


def test_top_k_works_on_a_slice_of_a_wider_matrix() -> None:
    similarity = torch.tensor([[0.1, 0.3, 0.2, 0.9], [0.4, 0.2, 0.4, 0.9]])[:, :3]
    assert top_columns(similarity, 2)[0].tolist() == [[1, 2], [0, 2]]


def test_passage_mass_sums_the_columns_of_each_passage_and_no_others() -> None:
    similarity = torch.tensor([[0.5, 0.25, 0.125, 0.0625], [0.0, 1.0, 0.0, 0.0]])
    mass = passage_mass(similarity, torch.tensor([-1, 0, 2, 0]), 3)
    assert mass.tolist() == [[0.3125, 0.0, 0.125], [1.0, 0.0, 0.0]]


def test_sink_mass_sums_the_columns_outside_the_passages() -> None:
    similarity = torch.tensor([[0.5, 0.25, 0.125, 0.0625], [0.0, 1.0, 0.0, 0.0]])
    assert sink_mass(similarity, torch.tensor([-1, 0, -1, 1])).tolist() == [0.625, 0.0]


def test_masses_of_many_passages_are_summed_from_small_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(3)
    similarity = torch.rand(4, 500, generator=generator)
    column_passage = torch.randint(-1, 90, (500,), generator=generator)
    whole = reduction.passage_mass(similarity, column_passage, 90)
    sizes: list[int] = []
    membership = reduction._membership

    def measured(columns: torch.Tensor, passages: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        sizes.append(len(columns) * len(passages))
        return membership(columns, passages, like)

    monkeypatch.setattr(reduction, "_membership", measured)
    monkeypatch.setattr(reduction, "_LARGEST_MEMBERSHIP", 5000)
    torch.testing.assert_close(reduction.passage_mass(similarity, column_passage, 90), whole)
    assert len(sizes) == 9
    assert max(sizes) <= 5000

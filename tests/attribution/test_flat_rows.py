"""Rows and attributions as a few long arrays: nothing is lost on the way, and nothing is cast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.flat_rows import FlatAttributions, FlatRows
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.prompts.passage_windows import merge_parts, parts_of
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource

FAULT = RowFault(Reason.OUT_OF_MEMORY, "too long")


def _record(number: int, *, passages: int) -> QARecord:
    texts = tuple(Passage(text=f"Boat {number} of pier {place} sails at noon. " * 3) for place in range(passages))
    return QARecord(str(number), "Which boat sails?", texts, f"Boat {number} sails.", RowSource("log", number))


def _attribution(responses: int, top_k: int, passages: int) -> TokenAttribution:
    numbers = np.arange(responses * top_k, dtype=np.int32).reshape(responses, top_k)
    masses = np.full((responses, passages), 0.5, np.float32)
    return TokenAttribution(numbers, numbers.astype(np.float32), masses, masses[:, 0].copy())


def test_a_model_gives_the_same_attributions_for_flat_rows_with_and_without_windows(tmp_path: Path) -> None:
    options = ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu")
    model = AttentionModel.from_pretrained(options)
    records = [_record(0, passages=1), _record(1, passages=16), _record(2, passages=2)]
    rows, counts = [model.encode(record) for record in records], [len(record.passages) for record in records]
    assert [bool(row.windows) for row in rows].count(True) >= 1
    flat = FlatRows.of(*parts_of(rows, counts))
    outcomes = FlatAttributions.of(model.attribute(flat.rows(), flat.passage_counts)).outcomes()
    merged = merge_parts(rows, outcomes, top_k=model.settings.top_k)
    for found, expected in zip(merged, model.attribute(rows, counts), strict=True):
        assert isinstance(found, TokenAttribution)
        assert isinstance(expected, TokenAttribution)
        for name in TokenAttribution.__slots__:
            assert np.array_equal(getattr(found, name), getattr(expected, name))
            assert getattr(found, name).dtype == getattr(expected, name).dtype


def test_faults_keep_their_places_between_attributions() -> None:
    outcomes = FlatAttributions.of([_attribution(2, 3, 4), FAULT, _attribution(1, 2, 5), FAULT]).outcomes()
    assert [isinstance(one, RowFault) for one in outcomes] == [False, True, False, True]
    last = outcomes[2]
    assert isinstance(last, TokenAttribution)
    assert last.top_columns.tolist() == [[0, 1]]
    assert last.passage_mass.shape == (1, 5)


def test_a_block_without_attributions_or_without_rows_comes_back() -> None:
    assert FlatAttributions.of([FAULT]).outcomes() == [FAULT]
    assert FlatAttributions.of([]).outcomes() == []
    assert FlatRows.of([], []).rows() == []


def test_numbers_of_another_type_are_refused_and_not_cast() -> None:
    wide = replace(_attribution(1, 1, 1), top_scores=np.zeros((1, 1), np.float64))
    with pytest.raises(TypeError, match="cast"):
        FlatAttributions.of([wide])


def test_a_row_with_windows_is_refused_whole(tmp_path: Path) -> None:
    options = ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu")
    row = AttentionModel.from_pretrained(options).encode(_record(1, passages=16))
    with pytest.raises(ValueError, match="no windows"):
        FlatRows.of([row], [16])

"""Where a model's attention goes on the worked example."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.attribution.lighthouse_row import RECORD
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.capture import observing
from attribeam.attribution.attention.model_check import (
    agreement_with_float32,
    attention_shares,
    is_exact,
    top_columns_agreement,
)
from attribeam.attribution.options import ModelOptions, Quantization
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError

LONG = QARecord(
    "long",
    "Who lit the lamp?",
    tuple(Passage(f"The lamp was lit {number} times by the keeper, who lived in the tower.") for number in range(12)),
    "The keeper lit it.",
    RowSource("log", 0),
)


def load(directory: Path, max_tokens: int | None = None) -> AttentionModel:
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", max_tokens=max_tokens))


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_shares_are_those_of_the_whole_attention_matrix(tmp_path: Path, kind: str) -> None:
    model = load(save_tiny_model(tmp_path, kind))
    row = model.encode(RECORD)
    request = model.request(row, len(RECORD.passages))
    seen = {}

    def observe(layer_index: int, attention: object) -> None:
        seen[layer_index] = attention.similarity(request.query_positions, len(row.token_ids))

    with observing(observe):
        found = attention_shares(model, RECORD)
    matrix = seen[model.layer - 1].numpy().mean(0)
    prompt = matrix[: row.prompt_length]
    assert found.passages == pytest.approx(prompt[row.column_passage >= 0].sum(), abs=1e-5)
    assert found.outside == pytest.approx(prompt[row.column_passage < 0].sum(), abs=1e-5)
    assert found.rest == pytest.approx(matrix[row.prompt_length :].sum(), abs=1e-5)
    assert found.passage_tokens == np.mean(row.column_passage >= 0)


def test_shares_of_a_row_in_windows_are_the_mean_of_its_windows(tmp_path: Path) -> None:
    model = load(save_tiny_model(tmp_path), max_tokens=160)
    row = model.encode(LONG)
    assert len(row.windows) > 1
    alone = [model.attribute([window.row], [len(LONG.passages)])[0] for window in row.windows]
    found = attention_shares(model, LONG)
    assert found.passages == pytest.approx(np.mean([one.passage_mass.sum(1).mean() for one in alone]), abs=1e-5)
    assert found.outside == pytest.approx(np.mean([one.sink_mass.mean() for one in alone]), abs=1e-5)
    assert found.rest > 0


def test_row_that_does_not_fit_is_an_error_of_the_model(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="worked example"):
        attention_shares(load(save_tiny_model(tmp_path), max_tokens=20), LONG)


def with_columns(*columns: tuple[int, ...]) -> TokenAttribution:
    """Attributions to these columns, best first."""
    count = len(columns)
    return TokenAttribution(
        top_columns=np.array(columns, dtype=np.int32),
        top_scores=np.ones((count, len(columns[0])), dtype=np.float32),
        passage_mass=np.ones((count, 1), dtype=np.float32),
        sink_mass=np.zeros(count, dtype=np.float32),
    )


def test_agreement_is_the_share_of_tokens_with_the_same_two_best_columns_in_any_order() -> None:
    found = [with_columns((4, 7, 1), (2, 3, 9)), with_columns((0, 5, 6))]
    expected = [with_columns((7, 4, 2), (2, 9, 3)), with_columns((0, 5, 8))]
    assert top_columns_agreement(found, expected) == pytest.approx(2 / 3)


def test_model_agrees_with_itself_in_float32_and_mostly_in_half_precision(tmp_path: Path) -> None:
    options = ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu", dtype="float32")
    assert agreement_with_float32(AttentionModel.from_pretrained(options), options) == 1
    rounded = options.replaced(dtype="bfloat16")
    model = AttentionModel.from_pretrained(rounded)
    assert 0.5 < agreement_with_float32(model, rounded) < 1
    assert is_exact(AttentionModel.from_pretrained(options), options)
    assert not is_exact(model, rounded)
    assert not is_exact(AttentionModel.from_pretrained(options), options.replaced(quantization=Quantization.INT8))

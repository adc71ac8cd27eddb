"""Where a model's attention goes on the worked example."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.attribution.lighthouse_row import RECORD
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.capture import observing
from attribeam.attribution.models.model_check import attention_shares
from attribeam.attribution.options import ModelOptions
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

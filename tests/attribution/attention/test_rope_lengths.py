"""A row's attention does not depend on its neighbours, even where rotary frequencies follow the longest of a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.attribution.attention.test_capture import EVERYTHING, TOLERANCE, eager_similarity, full_similarity
from tests.attribution.tiny_models import save_tiny_tokenizer, tiny_model
from transformers import AutoModel, Gemma3TextConfig, LlamaConfig, Phi3Config, PreTrainedConfig

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import groups_by_border, rope_border
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import Passage, QARecord, RowSource

BORDER = 60
SHAPE = {
    "vocab_size": 400,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "pad_token_id": 2,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.3, 1.5],
    "long_factor": [2.0, 5.0, 9.0, 15.0],
}
PHI3 = Phi3Config(**SHAPE, original_max_position_embeddings=BORDER, rope_parameters=LONGROPE)
DYNAMIC = LlamaConfig(**SHAPE, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0})


def record(letters: int) -> QARecord:
    passages = (Passage("The keeper lived in the tower."), Passage("z" * letters))
    return QARecord("r", "Who?", passages, "Ada Thorne.", RowSource("log.parquet", 0))


def save(directory: Path, config: PreTrainedConfig) -> Path:
    tiny_model(config).save_pretrained(directory)
    save_tiny_tokenizer(directory)
    return directory


def load(directory: Path) -> AttentionModel:
    options = ModelOptions(model=str(directory), token_budget=EVERYTHING, device="cpu")
    return AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING))


def rows_around_the_border(model: AttentionModel) -> list[EncodedRow]:
    """Rows of one token less than the border, of as many, of one more, and a long one; not in this order."""
    base = len(model.encode(record(1)).token_ids) - 1
    rows = [model.encode(record(length - base)) for length in (BORDER + 1, BORDER - 1, 4 * BORDER, BORDER)]
    assert [len(row.token_ids) for row in rows] == [BORDER + 1, BORDER - 1, 4 * BORDER, BORDER]
    return rows


@pytest.fixture(scope="module", params=[PHI3, DYNAMIC], ids=["longrope", "dynamic"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("rope"), request.param)


def test_rows_on_both_sides_of_the_border_get_in_one_call_what_they_get_alone(directory: Path) -> None:
    model = load(directory)
    rows = rows_around_the_border(model)
    for row, together in zip(rows, model.attribute(rows, [2] * len(rows)), strict=True):
        (alone,) = load(directory).attribute([row], [2])
        assert isinstance(alone, TokenAttribution)
        assert isinstance(together, TokenAttribution)
        np.testing.assert_allclose(full_similarity(together), full_similarity(alone), atol=1e-6)
        expected = eager_similarity(directory, model, row)
        np.testing.assert_allclose(full_similarity(together), expected, atol=TOLERANCE, rtol=0)


def test_transformers_itself_turns_a_short_row_otherwise_beside_a_long_one(tmp_path: Path) -> None:
    directory = save(tmp_path, PHI3)
    model = load(directory)
    long, short = rows_around_the_border(model)[:2]
    network = AutoModel.from_pretrained(directory).eval()
    ids = np.stack([np.pad(short.token_ids, (0, 2), mode="edge"), long.token_ids]).astype(np.int64)
    with torch.no_grad():
        alone = network(torch.from_numpy(ids[:1, :-2])).last_hidden_state[0]
        beside = network(torch.from_numpy(ids)).last_hidden_state[0, :-2]
    assert (alone - beside).abs().max() > 0.01


@pytest.mark.parametrize(
    ("config", "border"),
    [
        (PHI3, BORDER),
        (DYNAMIC, None),
        (LlamaConfig(), None),
        (Gemma3TextConfig(), None),
        (LlamaConfig(rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}), None),
    ],
    ids=["longrope", "dynamic", "default", "one for each kind of layer", "yarn"],
)
def test_border_is_the_original_context_of_longrope(config: PreTrainedConfig, border: int | None) -> None:
    assert rope_border(config) == border


def test_border_of_parameters_for_each_kind_of_layer_is_the_lowest() -> None:
    parameters = {
        "full_attention": {"rope_type": "longrope", "original_max_position_embeddings": 70},
        "sliding_attention": {"rope_type": "longrope", "original_max_position_embeddings": 50},
    }
    config = PreTrainedConfig()
    config.rope_parameters = parameters
    assert rope_border(config) == 50


@given(lengths=st.lists(st.integers(1, 9)), border=st.none() | st.integers(0, 9))
def test_every_row_is_in_one_group_of_one_side(lengths: list[int], border: int | None) -> None:
    groups = groups_by_border(lengths, border)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    assert all(group == sorted(group) and group for group in groups)
    for group in groups:
        assert len({border is not None and lengths[index] > border for index in group}) == 1

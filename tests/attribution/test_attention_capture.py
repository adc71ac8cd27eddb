"""Our capture against transformers' own eager attention, one table row an architecture."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from attribution.attention_model import AttentionModel
from attribution.model_options import MethodOptions, ModelOptions
from attribution.settings import QueryPosition
from attribution.token_attribution import EncodedRow, TokenAttribution
from schemas import Passage, QARecord, RowSource
from tests.attribution.tiny_models import CONFIGS, save_tiny_model

TOLERANCE = 1e-5
EVERYTHING = 10_000


def record(passages: list[str], answer: str) -> QARecord:
    parts = tuple(Passage(text=text, title=f"Part {index}") for index, text in enumerate(passages))
    return QARecord("r", "Who kept the lamp?", parts, answer, RowSource("log.parquet", 0))


RECORDS = [
    record(["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."], "Ada Thorne lit the lamp."),
    record(["A short one."], "Yes."),
    record(["The lamp was seen from twelve miles away."] * 3, "Twelve miles away, in the tower at Brigg Point."),
]


@pytest.fixture(scope="module", params=list(CONFIGS))
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)


def load(directory: Path, position: QueryPosition, token_budget: int) -> AttentionModel:
    options = ModelOptions(model=str(directory), query_position=position, token_budget=token_budget, device="cpu")
    return AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING))


@lru_cache(maxsize=1)
def eager_model(directory: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager").eval()


def eager_similarity(directory: Path, model: AttentionModel, row: EncodedRow) -> np.ndarray:
    """S by transformers' own means, over the whole model: [responses, prompt_length]."""
    reference = eager_model(directory)
    with torch.no_grad():
        outputs = reference(torch.from_numpy(row.token_ids.astype(np.int64))[None], output_attentions=True)
    attention = outputs.attentions[model.layer - 1][0].mean(0).numpy()
    shift = 1 if model.query_position is QueryPosition.PREDICTING else 0
    return attention[row.prompt_length - shift : len(row.token_ids) - shift, : row.prompt_length]


def full_similarity(tokens: TokenAttribution) -> np.ndarray:
    """S put together again from a top-k that kept every column."""
    similarity = np.zeros(tokens.top_scores.shape, dtype=np.float32)
    np.put_along_axis(similarity, tokens.top_columns.astype(np.int64), tokens.top_scores, axis=1)
    return similarity


@pytest.mark.parametrize("position", list(QueryPosition))
@pytest.mark.parametrize("token_budget", [1, EVERYTHING], ids=["single", "padded"])
def test_similarity_is_that_of_eager_attention(directory: Path, position: QueryPosition, token_budget: int) -> None:
    model = load(directory, position, token_budget)
    rows = [model.encode(one) for one in RECORDS]
    for row, tokens in zip(rows, model.attribute(rows, [2, 1, 3]), strict=True):
        expected = eager_similarity(directory, model, row)
        assert isinstance(tokens, TokenAttribution)
        np.testing.assert_allclose(full_similarity(tokens), expected, atol=TOLERANCE, rtol=0)
        for passage in range(tokens.passage_mass.shape[1]):
            mass = expected[:, row.column_passage == passage].sum(1)
            np.testing.assert_allclose(tokens.passage_mass[:, passage], mass, atol=TOLERANCE, rtol=0)

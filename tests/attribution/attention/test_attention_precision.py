"""Whatever the model's precision, the captured softmax is that of float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attribution.attention.attention_model import AttentionModel
from attribution.models.model_options import MethodOptions, ModelOptions
from attribution.settings import QueryPosition
from attribution.token_attribution import EncodedRow, TokenAttribution
from tests.attribution.attention.test_attention_capture import EVERYTHING, RECORDS, full_similarity
from tests.attribution.tiny_models import ENCODERS, save_tiny_model

RECORDING = "recording_of_queries_and_keys"
KINDS = ["llama", "gemma3", "gpt2", "gpt_neox", "phi3", "bert"]
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
ROUGHEST = {"bfloat16": 1e-4, "float16": 1e-5}

recorded: list[tuple[torch.Tensor, torch.Tensor, float]] = []


def record_and_attend(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, *rest: Any, scaling: float, **options: Any
) -> tuple[torch.Tensor, None]:
    recorded.append((query[0], key[0], scaling))
    return sdpa_attention_forward(module, query, key, *rest, scaling=scaling, **options)


ALL_ATTENTION_FUNCTIONS.register(RECORDING, record_and_attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(RECORDING, sdpa_mask)


@pytest.fixture(scope="module", params=KINDS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)


def queries_and_keys(directory: Path, row: EncodedRow, layer: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """What the model itself, in its own precision, brings to the softmax of a layer: [heads, tokens, size], scaling."""
    model = AutoModel.from_pretrained(directory, dtype=dtype, attn_implementation=RECORDING).eval()
    recorded.clear()
    with torch.inference_mode():
        model(torch.from_numpy(row.token_ids.astype(np.int64))[None])
    query, key, scaling = recorded[layer - 1]
    assert query.dtype == key.dtype == dtype
    return query, key.repeat_interleave(len(query) // len(key), dim=0), torch.tensor(scaling)


def softmax_in(dtype: torch.dtype, parts: tuple[torch.Tensor, ...], *, causal: bool) -> torch.Tensor:
    """The attention of one row with everything computed in ``dtype``, mean over attention heads: [tokens, tokens]."""
    query, key, scaling = (part.to(dtype) for part in parts)
    logits = query @ key.transpose(1, 2) * scaling
    if causal:
        logits = logits.masked_fill(torch.ones_like(logits).triu(1).bool(), float("-inf"))
    return logits.softmax(-1).mean(0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_of_half_precision_models_is_that_of_float32(directory: Path, dtype: str) -> None:
    options = ModelOptions(model=str(directory), dtype=dtype, query_position=QueryPosition.SELF, device="cpu")
    model = AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING))
    assert model.dtype == DTYPES[dtype]
    row = model.encode(RECORDS[2])
    (tokens,) = model.attribute([row], [3])
    assert isinstance(tokens, TokenAttribution)
    assert tokens.top_scores.dtype == tokens.passage_mass.dtype == np.float32
    parts = queries_and_keys(directory, row, model.layer, DTYPES[dtype])
    causal = AutoConfig.from_pretrained(directory).model_type not in ENCODERS
    rows, columns = slice(row.prompt_length, None), slice(row.prompt_length)
    exact = softmax_in(torch.float64, parts, causal=causal)[rows, columns].numpy()
    rough = softmax_in(DTYPES[dtype], parts, causal=causal)[rows, columns].double().numpy()
    np.testing.assert_allclose(full_similarity(tokens), exact, atol=1e-6, rtol=0)
    assert np.abs(rough - exact).max() > ROUGHEST[dtype]

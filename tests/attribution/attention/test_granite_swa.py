"""Granite-SWA: our weights are the shares of its values, sinks counted; those that it puts out leave sinks out."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests.attribution.attention.test_capture import RECORDS, eager_similarity, full_similarity
from tests.attribution.tiny_models import save_tiny_tokenizer, tiny_model
from transformers import AutoModel, GraniteMoeSWAConfig, GraniteSWAConfig
from transformers.models.granite_swa import modeling_granite_swa
from transformers.models.granitemoe_swa import modeling_granitemoe_swa

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import TokenAttribution

SHAPE = {
    "vocab_size": 400,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "sliding_window": 24,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "attention_multiplier": 0.5,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 16}
CONFIGS = {
    modeling_granite_swa: GraniteSWAConfig(**SHAPE),
    modeling_granitemoe_swa: GraniteMoeSWAConfig(**SHAPE, **EXPERTS),
}


@pytest.fixture(scope="module", params=CONFIGS, ids=["dense", "experts"])
def code(request: pytest.FixtureRequest) -> ModuleType:
    found: ModuleType = request.param
    return found


@pytest.fixture(scope="module")
def directory(code: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("granite_swa")
    tiny_model(CONFIGS[code]).save_pretrained(folder)
    save_tiny_tokenizer(folder)
    return folder


@pytest.mark.parametrize("layer", [1, 2, 3, 4])
def test_weights_are_the_shares_that_the_layers_output_is_made_of(
    directory: Path, code: ModuleType, layer: int
) -> None:
    options = ModelOptions(model=str(directory), layer=layer, device="cpu")
    model = AttentionModel.from_pretrained(options, method=MethodOptions(top_k=10_000))
    row = model.encode(RECORDS[2])
    (found,) = model.attribute([row], [len(RECORDS[2].passages)])
    assert isinstance(found, TokenAttribution)
    expected = _shares(directory, code, row.token_ids, layer - 1)[row.prompt_length - 1 : -1, : row.prompt_length]
    np.testing.assert_allclose(full_similarity(found), expected, atol=1e-5, rtol=0)
    without_sinks = eager_similarity(directory, model, row)
    assert (without_sinks - expected).max() > 5e-5
    assert (without_sinks - expected).min() > -1e-5


def _shares(directory: Path, code: ModuleType, token_ids: npt.NDArray[np.int32], index: int) -> npt.NDArray[np.float32]:
    """What transformers' eager attention makes of the rows of the identity: the shares of all values, sinks counted."""
    model = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    eager, shares = code.eager_attention_forward, {}

    def watched(module, query, key, value, *arguments, **named):  # type: ignore[no-untyped-def]
        identity = torch.eye(key.shape[2]).expand(1, key.shape[1], -1, -1)
        shares[module.layer_idx] = eager(module, query, key, identity, *arguments, **named)[0][0].mean(1)
        return eager(module, query, key, value, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(code, "eager_attention_forward", watched)
        model(torch.from_numpy(token_ids.astype(np.int64))[None])
    found: npt.NDArray[np.float32] = shares[index].numpy()
    return found

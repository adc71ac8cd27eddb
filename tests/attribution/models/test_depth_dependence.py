"""Models that compute by their number of layers are known, and are not cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoConfig, EsmcConfig, Gemma3nTextConfig, GPTNeoXJapaneseConfig, PreTrainedConfig

from attribution.attention.attention_model import AttentionModel
from attribution.models.depth_dependence import depth_matters
from attribution.models.model_options import MethodOptions, ModelOptions
from attribution.token_attribution import TokenAttribution
from tests.attribution.attention.test_attention_capture import EVERYTHING, RECORDS, eager_similarity, full_similarity
from tests.attribution.tiny_models import CONFIGS, save_tiny_tokenizer, tiny_model

TOLERANCE = 1e-5
SCALED_BY_DEPTH = {"minicpm3", "albert", "distilbert"}
"""ALBERT's groups of layers go by their number; DistilBERT only keeps the number, which is not told from using it."""


@pytest.mark.parametrize("kind", CONFIGS)
def test_most_models_only_build_their_layers_by_their_number(kind: str) -> None:
    assert depth_matters(CONFIGS[kind]) is (kind in SCALED_BY_DEPTH)


@pytest.mark.parametrize(
    "config", [EsmcConfig(), Gemma3nTextConfig(), GPTNeoXJapaneseConfig()], ids=lambda c: c.model_type
)
def test_scales_shared_keys_and_last_layers_are_found(config: PreTrainedConfig) -> None:
    assert depth_matters(config)


def test_config_without_a_model_in_transformers_is_taken_to_matter() -> None:
    class OwnConfig(PreTrainedConfig):
        model_type = "own"

    assert depth_matters(OwnConfig())


def test_scale_of_every_layer_is_that_of_the_whole_model(tmp_path: Path) -> None:
    """MiniCPM3 adds to the stream in proportion to 1 / sqrt(layers): a cut config would change layer 1 already."""
    config = type(CONFIGS["minicpm3"])(**{**CONFIGS["minicpm3"].to_dict(), "num_hidden_layers": 9})
    tiny_model(config).save_pretrained(tmp_path)
    save_tiny_tokenizer(tmp_path)
    options = ModelOptions(model=str(tmp_path), layer=2, device="cpu")
    model = AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING))
    row = model.encode(RECORDS[0])
    (tokens,) = model.attribute([row], [2])
    assert isinstance(tokens, TokenAttribution)
    assert AutoConfig.from_pretrained(tmp_path).num_hidden_layers == model.network.config.num_hidden_layers == 9
    assert abs(full_similarity(tokens) - eager_similarity(tmp_path, model, row)).max() < TOLERANCE

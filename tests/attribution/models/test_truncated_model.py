"""Models cut above the captured layer: whether they may be, and what is let go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.attribution.attention.test_capture import EVERYTHING, RECORDS, eager_similarity, full_similarity
from tests.attribution.tiny_models import CONFIGS, RECORD, save_tiny_model, save_tiny_tokenizer, tiny_model
from transformers import AutoConfig, EsmcConfig, Gemma3nTextConfig, GPTNeoXJapaneseConfig, PreTrainedConfig

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.models.truncated_model import depth_matters, drop_unused_weights
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import TokenAttribution

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


_ONE_LAYER_FOR_ALL = ("albert",)


def outcome(model: AttentionModel) -> TokenAttribution:
    (tokens,) = model.attribute([model.encode(RECORD)], [2])
    assert isinstance(tokens, TokenAttribution)
    return tokens


def size(model: AttentionModel) -> int:
    return sum(parameter.numel() for parameter in model.network.parameters())


@pytest.mark.parametrize("kind", CONFIGS)
def test_attention_is_the_same_without_the_weights_behind_it(kind: str, tmp_path: Path) -> None:
    directory = str(save_tiny_model(tmp_path, kind))
    slim = AttentionModel.from_pretrained(ModelOptions(model=directory, device="cpu"))
    whole = AttentionModel.from_pretrained(ModelOptions(model=directory, device="cpu", loaded_layers=1))
    assert (size(slim) < size(whole)) is (kind not in _ONE_LAYER_FOR_ALL)
    np.testing.assert_array_equal(outcome(slim).top_columns, outcome(whole).top_columns)
    np.testing.assert_array_equal(outcome(slim).passage_mass, outcome(whole).passage_mass)


def test_feed_forward_and_output_of_the_captured_layer_are_gone_and_all_below_is_kept(tmp_path: Path) -> None:
    options = ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu", layer=2)
    kept = {name for name, _ in AttentionModel.from_pretrained(options).network.named_parameters()}
    assert {name for name in kept if name.startswith("layers.1.")} == {
        "layers.1.input_layernorm.weight",
        *(f"layers.1.self_attn.{part}_proj.weight" for part in "qkv"),
    }
    assert len({name for name in kept if name.startswith("layers.0.")}) == 9


class _Layer(torch.nn.Module):
    def __init__(self, shared: torch.nn.Parameter) -> None:
        super().__init__()
        self.shared = shared
        self.spare = torch.nn.Linear(2, 2)


def test_weight_that_is_used_elsewhere_under_another_name_stays() -> None:
    shared = torch.nn.Parameter(torch.ones(2))
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList([_Layer(shared)])
    with drop_unused_weights(model, 1):
        torch.add(shared, 1)
    assert [name for name, _ in model.named_parameters()] == ["layers.0.shared"]

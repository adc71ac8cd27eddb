"""What is let go after the first pass is never missed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from attribution.attention.attention_model import AttentionModel
from attribution.models.model_options import ModelOptions
from attribution.models.unused_weights import without_unused_weights
from attribution.token_attribution import TokenAttribution
from tests.attribution.lighthouse_row import RECORD
from tests.attribution.tiny_models import CONFIGS, save_tiny_model

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
    with without_unused_weights(model, 1):
        torch.add(shared, 1)
    assert [name for name, _ in model.named_parameters()] == ["layers.0.shared"]


def test_weights_below_the_captured_layer_stay_though_the_pass_left_them_out() -> None:
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    with without_unused_weights(model, 2):
        pass
    assert [name for name, _ in model.named_parameters()] == ["layers.0.weight", "layers.0.bias"]

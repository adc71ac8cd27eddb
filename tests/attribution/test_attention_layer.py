"""The choice of the layer, and the config that leaves the layers above unread."""

from __future__ import annotations

import pytest
from transformers import Gemma2Config, GPT2Config, LlamaConfig, MistralConfig, PreTrainedConfig

from attribution.attention_layer import choose_layer, layer_types, without_layers_above


def with_types(*types: str) -> PreTrainedConfig:
    return Gemma2Config(num_hidden_layers=len(types), layer_types=list(types))


FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


@pytest.mark.parametrize(("layer_count", "layer"), [(1, 1), (2, 2), (3, 2), (4, 3), (32, 17), (33, 17)])
def test_default_is_the_layer_above_the_middle(layer_count: int, layer: int) -> None:
    assert choose_layer(LlamaConfig(num_hidden_layers=layer_count), None) == layer


def test_sliding_default_moves_to_the_nearest_full_layer() -> None:
    assert choose_layer(with_types(FULL, SLIDING, SLIDING, SLIDING, FULL, SLIDING), None) == 5


def test_tie_between_full_layers_goes_to_the_lower() -> None:
    assert choose_layer(with_types(SLIDING, FULL, SLIDING, FULL), None) == 2


def test_model_with_windows_everywhere_keeps_the_default() -> None:
    assert choose_layer(MistralConfig(num_hidden_layers=4, sliding_window=8), None) == 3
    assert layer_types(MistralConfig(num_hidden_layers=2, sliding_window=8)) == (SLIDING, SLIDING)


def test_requested_layer_is_taken_even_with_a_window() -> None:
    assert choose_layer(with_types(FULL, SLIDING, FULL), 2) == 2


@pytest.mark.parametrize("layer", [0, 4, -1])
def test_layer_that_does_not_exist_is_refused(layer: int) -> None:
    with pytest.raises(ValueError, match=rf"\[1, 2, 3\], was: {layer}"):
        choose_layer(LlamaConfig(num_hidden_layers=3), layer)


def test_layer_without_attention_is_refused_and_never_the_default() -> None:
    config = with_types(LINEAR, LINEAR, LINEAR, FULL)
    assert choose_layer(config, None) == 4
    with pytest.raises(ValueError, match=r"\[4\], was: 1"):
        choose_layer(config, 1)


def test_layers_above_are_cut_from_every_list_of_layers() -> None:
    config = with_types(FULL, SLIDING, FULL, SLIDING)
    trimmed = without_layers_above(config, 3)
    assert (trimmed.num_hidden_layers, trimmed.layer_types) == (3, [FULL, SLIDING, FULL])
    assert config.num_hidden_layers == 4


def test_layers_are_cut_under_other_names_of_the_field_too() -> None:
    assert without_layers_above(GPT2Config(n_layer=6), 4).n_layer == 4

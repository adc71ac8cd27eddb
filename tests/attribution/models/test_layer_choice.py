"""The choice of the layer, and the config that leaves the layers above unread."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Gemma2Config, Gemma3Config, LlamaConfig, MambaConfig, MistralConfig, PerceiverConfig

from attribeam.attribution.models.model_directory import choose_layer, layer_types, without_layers_above

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def with_types(*types):
    return Gemma2Config(num_hidden_layers=len(types), layer_types=list(types))


def chosen(config, requested=None):
    return choose_layer(config, requested).layer


@pytest.mark.parametrize(("layer_count", "layer"), [(1, 1), (2, 2), (3, 2), (4, 3), (32, 17), (33, 17)])
def test_default_is_the_layer_above_the_middle(layer_count, layer):
    choice = choose_layer(LlamaConfig(num_hidden_layers=layer_count), None)
    assert (choice.layer, choice.default) == (layer, layer)
    assert choice.provenance()["layer_choice"] == f"layer {layer} of {layer_count}: the default"


@pytest.mark.parametrize("kind", [SLIDING, "chunked_attention", LINEAR, "conv", "indexed_attention"])
def test_default_that_cannot_see_the_passages_moves_to_the_nearest_full_layer(kind):
    choice = choose_layer(with_types(FULL, kind, kind, kind, FULL, kind), None)
    assert choice.provenance() == {
        "layer": "5",
        "layer_count": "6",
        "layer_type": FULL,
        "layer_default": "4",
        "layer_kinds": ", ".join(sorted([f"{FULL} 2", f"{kind} 4"])),
        "layer_choice": f"layer 5 of 6: nearest full_attention layer to the default 4 ({kind})",
    }


def test_model_with_windows_everywhere_keeps_the_default_and_says_what_it_misses():
    choice = choose_layer(MistralConfig(num_hidden_layers=4, sliding_window=8), None)
    assert choice.layer == 3
    assert choice.reason == "the default; a sliding_attention layer, which may not see all passages"
    assert layer_types(MistralConfig(num_hidden_layers=2, sliding_window=8)) == (SLIDING, SLIDING)


def test_requested_layer_is_taken_even_with_a_window():
    choice = choose_layer(with_types(FULL, SLIDING, FULL), 2)
    assert (choice.layer, choice.kind) == (2, SLIDING)
    assert choice.reason.startswith("as configured; a sliding_attention layer")


@pytest.mark.parametrize("layer", [0, 4, -1])
def test_layer_that_does_not_exist_is_refused(layer):
    with pytest.raises(ValueError, match=rf"\[1, 2, 3\], was: {layer}"):
        choose_layer(LlamaConfig(num_hidden_layers=3), layer)


def test_layer_without_attention_is_refused_and_never_the_default():
    config = with_types(LINEAR, LINEAR, LINEAR, FULL)
    assert chosen(config) == 4
    with pytest.raises(ValueError, match=r"\[4\], was: 1"):
        choose_layer(config, 1)


@pytest.mark.parametrize(
    "config", [with_types(LINEAR, LINEAR), MambaConfig(num_hidden_layers=2)], ids=["list", "mamba"]
)
def test_model_without_any_attention_is_refused(config):
    with pytest.raises(ValueError, match="has only: linear_attention"):
        choose_layer(config, None)


def test_model_of_unknown_depth_is_refused():
    with pytest.raises(ValueError, match=r"\(perceiver\) should have a num_hidden_layers"):
        choose_layer(PerceiverConfig(), None)


@settings(max_examples=30, deadline=None)
@given(kinds=st.lists(st.sampled_from([FULL, SLIDING, LINEAR, "chunked_attention", "hybrid"]), min_size=1, max_size=12))
def test_no_layer_of_as_good_a_kind_is_nearer_to_the_default(kinds):
    if set(kinds) == {LINEAR}:
        return
    choice = choose_layer(with_types(*kinds), None)
    good = [place + 1 for place, kind in enumerate(kinds) if kind in (FULL, "hybrid")]
    some = good or [place + 1 for place, kind in enumerate(kinds) if kind != LINEAR]
    assert choice.layer in some
    assert all(abs(choice.layer - choice.default) <= abs(layer - choice.default) for layer in some)
    assert sum(int(part.split()[-1]) for part in choice.provenance()["layer_kinds"].split(", ")) == len(kinds)


def test_nested_text_config_is_the_one_that_counts():
    text = {"num_hidden_layers": 4, "layer_types": [SLIDING, SLIDING, SLIDING, FULL]}
    config = Gemma3Config(text_config=text, vision_config={"num_hidden_layers": 9})
    assert chosen(config) == 4
    trimmed = without_layers_above(config, 3)
    assert (trimmed.text_config.num_hidden_layers, trimmed.vision_config.num_hidden_layers) == (3, 9)
    assert config.text_config.num_hidden_layers == 4


def test_layers_above_are_cut_from_every_list_of_layers():
    config = with_types(FULL, SLIDING, FULL, SLIDING)
    trimmed = without_layers_above(config, 3)
    assert (trimmed.num_hidden_layers, trimmed.layer_types) == (3, [FULL, SLIDING, FULL])
    assert config.num_hidden_layers == 4

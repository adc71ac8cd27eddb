"""The revision of a model: equal where what is used of its files is equal."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.attribution.models.test_weight_loading import save_in_shards
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.weight_files import revision_of, weights_digest
from attribeam.attribution.options import ModelOptions


def revision(directory, layer=2):
    return revision_of(read_model_directory(ModelOptions(model=str(directory))), layer=layer)


def other_weight(layer):
    def add(directory):
        path, name = directory / "model.safetensors", f"model.layers.{layer}.self_attn.q_proj.weight"
        tensors = load_file(path)
        save_file({**tensors, name: tensors[name] + 1e-3}, path, metadata={"format": "pt"})

    return add


def other_defaults(directory):
    (directory / "attribution_config.json").write_text('{"layer": 2}', encoding="utf-8")


def other_tokenizer(directory):
    path = directory / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")


other_weight_below, other_weight_above = other_weight(1), other_weight(2)


@pytest.mark.parametrize("change", [other_defaults, other_tokenizer, other_weight_below])
def test_change_of_what_is_used_is_another_revision(change, tmp_path):
    before = revision(save_tiny_model(tmp_path))
    change(tmp_path)
    assert revision(tmp_path) != before


def test_change_above_the_captured_layer_counts_only_where_that_is_used(tmp_path):
    save_tiny_model(tmp_path)
    before = {layer: revision(tmp_path, layer) for layer in (2, 3, None)}
    other_weight_above(tmp_path)
    assert {layer: revision(tmp_path, layer) == before[layer] for layer in before} == {2: True, 3: False, None: False}


def test_every_byte_of_a_used_tensor_counts(tmp_path):
    path = save_tiny_model(tmp_path) / "model.safetensors"
    name = max(load_file(path), key=lambda one: (load_file(path)[one].numel(), one))
    tensors = load_file(path)
    before = revision(tmp_path, None)
    for place in (0, -1):
        changed = {key: tensor.clone() for key, tensor in tensors.items()}
        changed[name].view(torch.uint8).view(-1)[place] ^= 1
        save_file(changed, path, metadata={"format": "pt"})
        assert revision(tmp_path, None) != before


def weights(directory, layer=2):
    return weights_digest(read_model_directory(ModelOptions(model=str(directory))), layer=layer)


@pytest.mark.parametrize("change", [other_defaults, other_tokenizer, other_weight_above])
def test_weights_digest_counts_nothing_but_the_weights_of_its_layers(change, tmp_path):
    before = weights(save_tiny_model(tmp_path))
    change(tmp_path)
    assert weights(tmp_path) == before
    other_weight_below(tmp_path)
    assert weights(tmp_path) != before


def test_weights_digest_is_the_same_in_one_file_and_in_several(tmp_path):
    files = save_in_shards(tmp_path)
    assert len(set(files.values())) > 1
    before = weights(tmp_path)
    whole = {name: tensor for file in set(files.values()) for name, tensor in load_file(tmp_path / file).items()}
    for file in set(files.values()):
        (tmp_path / file).unlink()
    (tmp_path / "model.safetensors.index.json").unlink()
    save_file(whole, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert weights(tmp_path) == before


def test_digest_of_weights_is_the_same_in_float32_and_bfloat16(tmp_path):
    before = weights(save_tiny_model(tmp_path))
    path = tmp_path / "model.safetensors"
    save_file({name: tensor.bfloat16() for name, tensor in load_file(path).items()}, path, metadata={"format": "pt"})
    assert weights(tmp_path) == before

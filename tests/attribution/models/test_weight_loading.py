"""What is read from disk and kept: the text model's layers up to the captured one, and nothing else."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tests.attribution.attention.test_capture import EVERYTHING, RECORDS, eager_similarity, full_similarity
from tests.attribution.tiny_models import (
    CONFIGS,
    NESTED,
    RECORD,
    save_nested_model,
    save_tiny_model,
    save_tiny_tokenizer,
    tiny_model,
)
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    EsmcConfig,
    Gemma3nTextConfig,
    GPTNeoXJapaneseConfig,
    modeling_utils,
)

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.weight_files import is_above_layer
from attribeam.attribution.models.weight_loading import depth_matters, drop_unused_weights, load_weights
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas.errors import ModelLoadError

CPU = torch.device("cpu")


def load(directory, layer):
    options = ModelOptions(model=str(directory))
    return load_weights(read_model_directory(options), layer=layer, dtype=torch.float32, device=CPU)


def save_in_shards(directory):
    """A small model of several files; returns its index, tensor to file."""
    save_tiny_model(directory)
    model = AutoModelForCausalLM.from_pretrained(directory)
    (directory / "model.safetensors").unlink()
    model.save_pretrained(directory, max_shard_size="25KB")
    index = json.loads((directory / "model.safetensors.index.json").read_text(encoding="utf-8"))
    return dict(index["weight_map"])


class _Slice:
    """A tensor of a file that is read when it is indexed, and says so."""

    def __init__(self, inner, name, read):
        self._inner, self._name, self._read = inner, name, read

    def __getitem__(self, key):
        self._read.add(self._name)
        return self._inner[key]

    def __getattr__(self, name):
        return getattr(self._inner, name)


@pytest.fixture
def tensors_read(monkeypatch):
    """The names of all tensors whose bytes were asked for."""
    read = set()

    class Watched:
        def __init__(self, *arguments, **options):
            self._inner = safe_open(*arguments, **options)

        def get_slice(self, name):
            return _Slice(self._inner.get_slice(name), name, read)

        def __getattr__(self, name):
            return getattr(self._inner, name)

        def __exit__(self, *arguments):
            return self._inner.__exit__(*arguments)

    monkeypatch.setattr(modeling_utils, "safe_open", Watched)
    return read


def test_of_one_file_only_the_tensors_of_the_layers_that_run_are_read(tmp_path, tensors_read):
    directory = save_tiny_model(tmp_path)
    load(directory, layer=2)
    everything = set(load_file(directory / "model.safetensors"))
    above = {name for name in everything if "layers.2." in name or "layers.3." in name or "lm_head" in name}
    assert len(above) == 2 * 9 + 1
    assert tensors_read == everything - above


def test_of_a_nested_model_neither_images_nor_upper_layers_are_read(tmp_path, tensors_read):
    save_nested_model(tmp_path, "gemma3")
    load(tmp_path, layer=2)
    assert {name.split(".")[0] for name in tensors_read} == {"language_model"}
    assert not [name for name in tensors_read if "layers.2." in name or "layers.3." in name]
    assert any("layers.1." in name for name in tensors_read)


def test_files_that_hold_upper_layers_only_need_not_exist(tmp_path):
    files = save_in_shards(tmp_path)
    whole = load(tmp_path, layer=2).state_dict()
    unneeded = set(files.values()) - {file for name, file in files.items() if not is_above_layer(name, 2)}
    assert len(unneeded) >= 2
    for file in unneeded:
        (tmp_path / file).unlink()
    found = load(tmp_path, layer=2).state_dict()
    assert found.keys() == whole.keys()
    assert all(torch.equal(found[name], whole[name]) for name in whole)


def test_file_that_is_needed_and_missing_is_named(tmp_path):
    files = save_in_shards(tmp_path)
    file = files["model.layers.1.mlp.up_proj.weight"]
    (tmp_path / file).unlink()
    with pytest.raises(ModelLoadError, match=rf"lacks 1 of \d+: {file}; fetch them again"):
        load(tmp_path, layer=2)


def test_pickled_weights_are_refused_and_named(tmp_path):
    directory = save_tiny_model(tmp_path)
    torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()
    with pytest.raises(
        ModelLoadError, match=r"pytorch_model\.bin, which can run code when read; if you trust it, convert"
    ):
        load(directory, layer=2)


@pytest.mark.parametrize("kind", NESTED)
def test_text_model_alone_has_the_attention_of_the_whole(kind, tmp_path):
    whole = save_nested_model(tmp_path, kind)
    model = AttentionModel.from_pretrained(ModelOptions(model=str(tmp_path), device="cpu", layer=3))
    assert not any("vis" in name for name, _ in model.network.named_parameters())
    row = model.encode(RECORD)
    (tokens,) = model.attribute([row], [2])
    assert isinstance(tokens, TokenAttribution)
    with torch.inference_mode():
        output = whole(input_ids=torch.from_numpy(row.token_ids.astype(np.int64))[None], output_attentions=True)
    similarity = output.attentions[2][0].mean(0)[row.prompt_length - 1 : -1, : row.prompt_length].numpy()
    expected = np.stack([similarity[:, row.column_passage == passage].sum(1) for passage in (0, 1)], axis=1)
    np.testing.assert_allclose(tokens.passage_mass, expected, atol=1e-5)


TOLERANCE = 1e-5
SCALED_BY_DEPTH = {"minicpm3", "albert", "distilbert"}
"""ALBERT's groups of layers go by their number; DistilBERT only keeps the number, which is not told from using it."""


@pytest.mark.parametrize("kind", CONFIGS)
def test_most_models_only_build_their_layers_by_their_number(kind):
    assert depth_matters(CONFIGS[kind]) is (kind in SCALED_BY_DEPTH)


@pytest.mark.parametrize(
    "config", [EsmcConfig(), Gemma3nTextConfig(), GPTNeoXJapaneseConfig()], ids=lambda c: c.model_type
)
def test_scales_shared_keys_and_last_layers_are_found(config):
    assert depth_matters(config)


def test_scale_of_every_layer_is_that_of_the_whole_model(tmp_path):
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


def size(directory, **options):
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", **options))
    return sum(parameter.numel() for parameter in model.network.parameters())


@pytest.mark.parametrize("kind", ["llama", "gpt2", "phi3", "bert", "modernbert", *_ONE_LAYER_FOR_ALL])
def test_weights_behind_the_attention_are_not_kept(kind, tmp_path):
    """That no attention needs them is what ``test_capture`` shows of every kind, against transformers' whole models."""
    directory = save_tiny_model(tmp_path, kind)
    assert (size(directory) < size(directory, loaded_layers=1)) is (kind not in _ONE_LAYER_FOR_ALL)


def test_feed_forward_and_output_of_the_captured_layer_are_gone_and_all_below_is_kept(tmp_path):
    options = ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu", layer=2)
    kept = {name for name, _ in AttentionModel.from_pretrained(options).network.named_parameters()}
    assert {name for name in kept if name.startswith("layers.1.")} == {
        "layers.1.input_layernorm.weight",
        *(f"layers.1.self_attn.{part}_proj.weight" for part in "qkv"),
    }
    assert len({name for name in kept if name.startswith("layers.0.")}) == 9


class _Layer(torch.nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.shared = shared
        self.spare = torch.nn.Linear(2, 2)


def test_weight_that_is_used_elsewhere_under_another_name_stays():
    shared = torch.nn.Parameter(torch.ones(2))
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList([_Layer(shared)])
    with drop_unused_weights(model, 1):
        torch.add(shared, 1)
    assert [name for name, _ in model.named_parameters()] == ["layers.0.shared"]

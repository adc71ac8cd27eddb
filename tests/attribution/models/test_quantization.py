"""Quantised on the CPU: really smaller, close to the unquantised attention, and clear about what is missing."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from bitsandbytes.functional import dequantize_blockwise
from bitsandbytes.nn import Linear4bit, Linear8bitLt
from tests.attribution.tiny_models import RECORD, VOCABULARY_SIZE, save_tiny_tokenizer
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.language_models.language_model import load_causal_weights
from attribeam.attribution.models import precision
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.precision import keep_weights_as_loaded, quantization_config
from attribeam.attribution.models.weight_memory import held_size, total_size, weight_groups
from attribeam.attribution.options import ModelOptions, Quantization
from attribeam.attribution.token_attribution import TokenAttribution
from attribeam.schemas.errors import ModelLoadError

LAYER = 3
CONFIG = LlamaConfig(
    vocab_size=VOCABULARY_SIZE,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=512,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama")
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(CONFIG)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=1.0 if "embed" in name else 0.08)
    model.save_pretrained(path)
    save_tiny_tokenizer(path)
    return path


def load(directory: Path, kind: Quantization, dtype: str = "float32") -> AttentionModel:
    options = ModelOptions(model=str(directory), device="cpu", layer=LAYER, dtype=dtype, quantization=kind)
    return AttentionModel.from_pretrained(options)


def masses(model: AttentionModel) -> np.typing.NDArray[np.float32]:
    (tokens,) = model.attribute([model.encode(RECORD)], [2])
    assert isinstance(tokens, TokenAttribution)
    return tokens.passage_mass


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("kind", "difference"), [(Quantization.NF4, 0.05), (Quantization.INT8, 0.01)])
def test_attention_is_close_to_that_of_the_unquantised_model(
    directory: Path, kind: Quantization, difference: float, dtype: str
) -> None:
    expected, found = masses(load(directory, Quantization.NONE)), masses(load(directory, kind, dtype))
    assert expected.std() > 0.03
    assert 0 < np.abs(found - expected).max() < difference


def test_int8_weights_that_no_pass_reaches_are_released(directory: Path) -> None:
    released = load(directory, Quantization.INT8).network.layers[LAYER - 1].mlp.up_proj
    assert isinstance(released, Linear8bitLt)
    assert (released.weight, released.state.CB, released.state.SCB) == (None, None, None)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("kind", Quantization)
def test_memory_of_the_loaded_layers_is_what_was_computed(directory: Path, kind: Quantization) -> None:
    held = held_size(load(directory, kind, "bfloat16").network.layers[0])
    below = [group for group in weight_groups(CONFIG, 2) if group.name == "layers 1 to 1"]
    assert held == pytest.approx(total_size(below, torch.bfloat16, kind), rel=0.001)


def test_provenance_names_the_quantisation_and_its_library(directory: Path) -> None:
    provenance = load(directory, Quantization.NF4, "bfloat16").provenance()
    assert provenance["quantization"] == "nf4"
    assert provenance["bitsandbytes_version"] == version("bitsandbytes")
    assert provenance["dtype"] == "bfloat16"
    plain = load(directory, Quantization.NONE).provenance()
    assert plain["quantization"] == "none"
    assert "bitsandbytes_version" not in plain


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("kind", [Quantization.NF4, Quantization.INT8])
def test_provenance_names_the_quantisation_that_the_weights_are_stored_in(
    directory: Path, tmp_path: Path, kind: Quantization
) -> None:
    how = quantization_config(kind, CONFIG, torch.float32)
    AutoModelForCausalLM.from_pretrained(directory, quantization_config=how, device_map={"": "cpu"}).save_pretrained(
        tmp_path
    )
    save_tiny_tokenizer(tmp_path)
    stored = load(tmp_path, Quantization.NONE)
    assert stored.provenance()["quantization"] == f"stored: bitsandbytes {kind}"
    assert stored.provenance()["bitsandbytes_version"] == version("bitsandbytes")
    np.testing.assert_array_equal(masses(stored), masses(load(directory, kind)))


def test_missing_package_names_the_extra_to_install(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "find_spec", lambda name: None if name == "bitsandbytes" else object())
    with pytest.raises(ModelLoadError, match=r"needs bitsandbytes, not installed here.*'attribeam\[quantization\]'"):
        load(directory, Quantization.NF4)


@pytest.mark.parametrize(
    ("entries", "name"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq 4 bits"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8"),
        (BitsAndBytesConfig(load_in_4bit=True), "bitsandbytes fp4"),
        ({}, "method not named"),
    ],
    ids=["gptq", "fp8", "as an object", "empty"],
)
def test_model_that_is_quantised_already_is_refused_by_the_name_of_its_method(entries: object, name: str) -> None:
    config = LlamaConfig()
    config.quantization_config = entries
    with pytest.raises(ModelLoadError, match=f"are stored as {name} .*leave --quantization out"):
        quantization_config(Quantization.INT8, config, torch.float32)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize(("kind", "layer"), [(Quantization.NF4, Linear4bit), (Quantization.INT8, Linear8bitLt)])
def test_language_model_is_quantised_but_for_its_head(
    directory: Path, kind: Quantization, layer: type[torch.nn.Linear]
) -> None:
    options = ModelOptions(model=str(directory), device="cpu", quantization=kind)
    model = load_causal_weights(read_model_directory(options), dtype=torch.float32, device=torch.device("cpu"))
    assert isinstance(model.model.layers[3].mlp.up_proj, layer)
    assert type(model.lm_head) is torch.nn.Linear
    scores = model(input_ids=torch.arange(9)[None]).logits
    assert scores.isfinite().all()


FOUR_BIT_ROWS = 96


def four_bit(columns: int, dtype: torch.dtype | None, *, bias: bool = True) -> Linear4bit:
    torch.manual_seed(columns)
    layer = Linear4bit(columns, FOUR_BIT_ROWS, bias=bias, compute_dtype=dtype, quant_type="nf4").to("cpu").eval()
    keep_weights_as_loaded(torch.nn.Sequential(layer))
    return layer.requires_grad_(False)


def weights_of_blocks(layer: Linear4bit) -> torch.Tensor:
    """float32 [rows, columns], worked out weight by weight: a value of the code times the scale of its block."""
    state, packed = layer.weight.quant_state, layer.weight.data.flatten()
    codes = torch.stack([packed >> 4, packed & 15], dim=1).flatten().long()
    scales = dequantize_blockwise(state.absmax, state.state2) + state.offset
    return (state.code[codes] * scales.repeat_interleave(state.blocksize)[: len(codes)]).view(state.shape)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("columns", [15, 16, 24, 32, 80, 128])
def test_product_is_that_of_the_weights_that_the_layer_holds(columns: int, dtype: torch.dtype) -> None:
    layer, states = four_bit(columns, dtype), torch.randn(2, 5, columns)
    weights, bias = weights_of_blocks(layer).to(dtype), layer.bias.to(dtype)
    expected = torch.nn.functional.linear(states.to(dtype), weights, bias)
    torch.testing.assert_close(layer(states.to(dtype)), expected, rtol=0, atol=0)
    torch.testing.assert_close(layer(states), expected.float(), rtol=0, atol=0)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("columns", [80, 128])
def test_layer_without_bias_and_dtype_of_its_own_takes_that_of_its_input(columns: int) -> None:
    layer, states = four_bit(columns, None, bias=False), torch.randn(3, columns, dtype=torch.bfloat16)
    expected = states @ weights_of_blocks(layer).to(torch.bfloat16).T
    torch.testing.assert_close(layer(states), expected, rtol=0, atol=0)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("columns", [80, 128])
def test_gradients_pass_through_four_bits(columns: int) -> None:
    layer, states = four_bit(columns, torch.float32), torch.randn(3, columns, requires_grad=True)
    (found,) = torch.autograd.grad(layer(states).sum(), states)
    torch.testing.assert_close(found, weights_of_blocks(layer).sum(0).expand(3, columns))


def test_layers_that_cannot_be_kept_from_repacking_are_refused() -> None:
    layer = four_bit(64, torch.float32)
    assert layer.support_avx512bf16_for_cpu is False
    del layer.support_avx512bf16_for_cpu
    with pytest.raises(ModelLoadError, match=r"may repack 4-bit weights.*'attribeam\[quantization\]'"):
        keep_weights_as_loaded(torch.nn.Sequential(layer))

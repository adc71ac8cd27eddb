"""Quantised on the CPU: really smaller, close to the unquantised attention, and clear about what is missing."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from bitsandbytes.nn import Linear4bit, Linear8bitLt
from tests.attribution.tiny_models import RECORD, VOCABULARY_SIZE, save_tiny_tokenizer
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.language_models.language_model import load_causal_weights
from attribeam.attribution.models import quantization
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.quantization import quantization_config
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
    monkeypatch.setattr(quantization, "find_spec", lambda name: None if name == "bitsandbytes" else object())
    with pytest.raises(ModelLoadError, match=r"needs bitsandbytes, not installed here.*'attribeam\[quantization\]'"):
        load(directory, Quantization.NF4)


def test_model_that_is_quantised_already_is_refused() -> None:
    config = LlamaConfig(quantization_config=BitsAndBytesConfig(load_in_4bit=True).to_dict())
    with pytest.raises(ModelLoadError, match="leave --quantization out"):
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


def test_int8_runs_in_integers_wherever_a_model_is_loaded(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        pytest.fail("bitsandbytes computed the product")

    monkeypatch.setattr("bitsandbytes.matmul", refused)
    assert np.isfinite(masses(load(directory, Quantization.INT8))).all()
    options = ModelOptions(model=str(directory), device="cpu", quantization=Quantization.INT8)
    model = load_causal_weights(read_model_directory(options), dtype=torch.float32, device=torch.device("cpu"))
    assert model(input_ids=torch.arange(9)[None]).logits.isfinite().all()

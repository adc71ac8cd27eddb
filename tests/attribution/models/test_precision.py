"""What ``--dtype auto`` chooses on a CPU, and what leaves nothing to choose."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from bitsandbytes.functional import dequantize_blockwise
from bitsandbytes.nn import Linear4bit, Linear8bitLt
from tests.attribution.tiny_models import GROUPED, RECORD, edit_json, save_tiny_model, save_tiny_tokenizer
from tests.attribution.verdict.judged_rows import save_probed_verdict
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig

from attribeam import Attributor
from attribeam.attribution import models
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.language_models import load_causal_weights
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import with_chosen_dtype
from attribeam.attribution.models import half_precision_instructions, precision
from attribeam.attribution.models.model_directory import read_model_directory
from attribeam.attribution.models.precision import choose_half_precision, keep_weights_as_loaded, quantization_config
from attribeam.attribution.models.weight_loading import held_size, total_size, weight_groups
from attribeam.attribution.options import ModelOptions, Quantization
from attribeam.schemas.errors import ModelLoadError


def stored_in(directory, dtype):
    save_tiny_model(directory, "qwen2")
    edit_json(directory / "config.json", dtype=dtype)
    return ModelOptions(model=str(directory), device="cpu")


def processor_with(monkeypatch, *dtypes, faster=True):
    """Pretend that the processor multiplies in these dtypes; returns the dtypes that are measured."""
    measured = []

    def measure(dtype):
        measured.append(dtype)
        return faster

    monkeypatch.setattr(precision, "half_precision_instructions", lambda: dict.fromkeys(dtypes, ("amx",)))
    monkeypatch.setattr(precision, "is_faster", measure)
    return measured


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_model_stored_in_half_precision_runs_in_it_where_products_are_faster(tmp_path, monkeypatch, dtype):
    measured = processor_with(monkeypatch, dtype)
    choice = choose_half_precision(stored_in(tmp_path, dtype))
    assert choice.dtype == dtype
    assert "amx" in choice.reason
    assert measured == [getattr(torch, dtype)]


def test_dtype_in_the_attribution_config_that_is_named_leaves_nothing_to_choose(tmp_path, monkeypatch):
    processor_with(monkeypatch, "bfloat16")
    options = stored_in(tmp_path / "model", "bfloat16")
    config = tmp_path / "own_config.json"
    config.write_text(json.dumps({"dtype": "float32"}), encoding="utf-8")
    assert choose_half_precision(options) is not None
    assert choose_half_precision(options.replaced(attribution_config=str(config))) is None


@pytest.mark.parametrize(
    ("stored", "faster", "reason"),
    [("float16", True, "no instructions for products in float16"), ("bfloat16", False, "not 1.5 times as fast")],
)
def test_float32_is_chosen_where_half_precision_gains_nothing(stored, faster, reason, tmp_path, monkeypatch):
    measured = processor_with(monkeypatch, "bfloat16", faster=faster)
    choice = choose_half_precision(stored_in(tmp_path, stored))
    assert choice.dtype == "float32"
    assert reason in choice.reason
    assert (measured == []) == (stored == "float16")


@pytest.mark.parametrize("times", [(1.0, 0.5), (1.0, 0.9)])
def test_the_best_times_of_both_are_compared(monkeypatch, times):
    seconds = dict(zip((torch.float32, torch.bfloat16), times, strict=True))
    disturbed = iter([9.0, 9.0])

    def timed(left, right):
        assert left.dtype == right.dtype
        return seconds[left.dtype] + next(disturbed, 0.0)

    monkeypatch.setattr(precision, "_seconds", timed)
    assert precision.is_faster(torch.bfloat16) is (times[1] < times[0] / 1.5)


@pytest.mark.parametrize(("stored", "given"), [
    ("bfloat16", {"dtype": "float32"}), ("bfloat16", {"dtype": "bfloat16"}),
    ("bfloat16", {"quantization": Quantization.NF4}), ("float32", {}),
])  # fmt: skip
def test_nothing_is_chosen_where_the_user_has_or_the_model_is_stored_in_float32(tmp_path, monkeypatch, stored, given):
    processor_with(monkeypatch, "bfloat16", "float16")
    assert choose_half_precision(stored_in(tmp_path, stored).replaced(**given)) is None


@pytest.mark.parametrize(("needs", "chosen"), [
    (frozenset({Need.ATTENTION}), "bfloat16"), (frozenset({Need.HIDDEN_STATES}), "bfloat16"),
    (frozenset({Need.LANGUAGE_MODEL}), "auto"), (frozenset({Need.PARSER}), "auto"),
])  # fmt: skip
def test_only_models_whose_attention_or_states_are_read_leave_float32(tmp_path, monkeypatch, needs, chosen):
    processor_with(monkeypatch, "bfloat16")
    assert with_chosen_dtype(stored_in(tmp_path, "bfloat16"), needs).dtype == chosen


def test_attributor_runs_in_what_is_chosen_and_says_so(tmp_path, monkeypatch):
    options = stored_in(tmp_path, "bfloat16")
    processor_with(monkeypatch)
    assert Attributor.from_pretrained(options.model, device="cpu").model.dtype == torch.float32
    processor_with(monkeypatch, "bfloat16")
    chosen = Attributor.from_pretrained(options.model, device="cpu")
    assert chosen.model.dtype == torch.bfloat16
    assert chosen.model.provenance()["dtype"] == "bfloat16"


def test_attributor_chooses_for_the_decoder_of_a_probe_and_says_so(tmp_path, monkeypatch):
    decoder = stored_in(tmp_path, "bfloat16").model
    verdict = str(save_probed_verdict(tmp_path / "verdict", Path(decoder)))
    given = {"verdict": verdict, "language_model": decoder, "device": "cpu"}
    processor_with(monkeypatch)
    slow = Attributor.from_pretrained(**given).provenance()
    assert (slow["dtype"], slow["language_model_dtype"]) == ("float32", "float32")
    processor_with(monkeypatch, "bfloat16")
    fast = Attributor.from_pretrained(**given).provenance()
    assert (fast["dtype"], fast["language_model_dtype"]) == ("float32", "bfloat16")
    named = Attributor.from_pretrained(**given, language_model_dtype="float32").provenance()
    assert named["language_model_dtype"] == "float32"


XEON = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu sse avx2 avx512f avx512_bf16 amx_bf16 amx_tile\n"
EPYC = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse avx2 fma\nbugs\t\t: avx512_bf16\n"
GRANITE = "flags\t: avx512_fp16 amx_bf16 amx_fp16 amx_tile avx512_bf16\n"
ARM = "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd bf16 asimdhp i8mm\n"


@pytest.mark.parametrize(("description", "expected"), [
    (XEON, {"bfloat16": ("amx_bf16", "avx512_bf16")}),
    (GRANITE, {"bfloat16": ("amx_bf16", "avx512_bf16"), "float16": ("amx_fp16", "avx512_fp16")}), (EPYC, {}), (ARM, {}),
], ids=["amx", "amx with float16", "avx2", "arm"])  # fmt: skip
def test_instructions_are_those_of_the_line_of_flags(tmp_path, monkeypatch, description, expected):
    (tmp_path / "cpuinfo").write_text(description, encoding="utf-8")
    monkeypatch.setattr(models, "_PROCESSOR", tmp_path / "cpuinfo")
    assert half_precision_instructions() == expected


@pytest.mark.parametrize("description", [None, "processor\t: 0\n"], ids=["no file", "no flags"])
def test_torch_is_asked_where_the_system_says_nothing(tmp_path, monkeypatch, description):
    if description is not None:
        (tmp_path / "cpuinfo").write_text(description, encoding="utf-8")
    monkeypatch.setattr(models, "_PROCESSOR", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.delattr(torch.cpu, "_is_amx_fp16_supported")
    assert half_precision_instructions() == {"bfloat16": ("avx512_bf16",)}


LAYER = 3
CONFIG = LlamaConfig(**GROUPED | {"hidden_size": 128, "intermediate_size": 256})


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
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


def load(directory, kind, dtype="float32"):
    options = ModelOptions(model=str(directory), device="cpu", layer=LAYER, dtype=dtype, quantization=kind)
    return AttentionModel.from_pretrained(options)


def masses(model):
    (tokens,) = model.attribute([model.encode(RECORD)], [2])
    return tokens.passage_mass


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("kind", "difference"), [(Quantization.NF4, 0.05), (Quantization.INT8, 0.01)])
def test_attention_is_close_to_that_of_the_unquantised_model(directory, kind, difference, dtype):
    expected, found = masses(load(directory, Quantization.NONE)), masses(load(directory, kind, dtype))
    assert expected.std() > 0.03
    assert 0 < np.abs(found - expected).max() < difference


def test_int8_weights_that_no_pass_reaches_are_released(directory):
    released = load(directory, Quantization.INT8).network.layers[LAYER - 1].mlp.up_proj
    assert isinstance(released, Linear8bitLt)
    assert (released.weight, released.state.CB, released.state.SCB) == (None, None, None)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("kind", Quantization)
def test_memory_of_the_loaded_layers_is_what_was_computed(directory, kind):
    held = held_size(load(directory, kind, "bfloat16").network.layers[0])
    below = [group for group in weight_groups(CONFIG, 2) if group.name == "layers 1 to 1"]
    assert held == pytest.approx(total_size(below, torch.bfloat16, kind), rel=0.001)


def test_provenance_names_the_quantisation_and_its_library(directory):
    provenance = load(directory, Quantization.NF4, "bfloat16").provenance()
    assert provenance["quantization"] == "nf4"
    assert provenance["bitsandbytes_version"] == version("bitsandbytes")
    assert provenance["dtype"] == "bfloat16"
    plain = load(directory, Quantization.NONE).provenance()
    assert plain["quantization"] == "none"
    assert "bitsandbytes_version" not in plain


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("kind", [Quantization.NF4, Quantization.INT8])
def test_provenance_names_the_quantisation_that_the_weights_are_stored_in(directory, tmp_path, kind):
    how = quantization_config(kind, CONFIG, torch.float32)
    model = AutoModelForCausalLM.from_pretrained(directory, quantization_config=how, device_map={"": "cpu"})
    model.save_pretrained(tmp_path)
    save_tiny_tokenizer(tmp_path)
    stored = load(tmp_path, Quantization.NONE)
    assert stored.provenance()["quantization"] == f"stored: bitsandbytes {kind}"
    assert stored.provenance()["bitsandbytes_version"] == version("bitsandbytes")
    np.testing.assert_array_equal(masses(stored), masses(load(directory, kind)))


def test_missing_package_names_the_extra_to_install(directory, monkeypatch):
    monkeypatch.setattr(precision, "find_spec", lambda name: None if name == "bitsandbytes" else object())
    with pytest.raises(ModelLoadError, match=r"needs bitsandbytes, not installed here.*'attribeam\[quantization\]'"):
        load(directory, Quantization.NF4)


@pytest.mark.parametrize(("entries", "name"), [
    ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq 4 bits"),
    ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8"),
    (BitsAndBytesConfig(load_in_4bit=True), "bitsandbytes fp4"), ({}, "method not named"),
], ids=["gptq", "fp8", "as an object", "empty"])  # fmt: skip
def test_model_that_is_quantised_already_is_refused_by_the_name_of_its_method(entries, name):
    config = LlamaConfig()
    config.quantization_config = entries
    with pytest.raises(ModelLoadError, match=f"are stored as {name} .*leave --quantization out"):
        quantization_config(Quantization.INT8, config, torch.float32)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize(("kind", "layer"), [(Quantization.NF4, Linear4bit), (Quantization.INT8, Linear8bitLt)])
def test_language_model_is_quantised_but_for_its_head(directory, kind, layer):
    options = ModelOptions(model=str(directory), device="cpu", quantization=kind)
    model = load_causal_weights(read_model_directory(options))
    assert isinstance(model.model.layers[3].mlp.up_proj, layer)
    assert type(model.lm_head) is torch.nn.Linear
    scores = model(input_ids=torch.arange(9)[None]).logits
    assert scores.isfinite().all()


FOUR_BIT_ROWS = 96


def four_bit(columns, dtype, *, bias=True):
    torch.manual_seed(columns)
    layer = Linear4bit(columns, FOUR_BIT_ROWS, bias=bias, compute_dtype=dtype, quant_type="nf4").to("cpu").eval()
    keep_weights_as_loaded(torch.nn.Sequential(layer))
    return layer.requires_grad_(False)


def weights_of_blocks(layer):
    """float32 [rows, columns], worked out weight by weight: a value of the code times the scale of its block."""
    state, packed = layer.weight.quant_state, layer.weight.data.flatten()
    codes = torch.stack([packed >> 4, packed & 15], dim=1).flatten().long()
    scales = dequantize_blockwise(state.absmax, state.state2) + state.offset
    return (state.code[codes] * scales.repeat_interleave(state.blocksize)[: len(codes)]).view(state.shape)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("columns", [15, 16, 24, 32, 80, 128])
def test_product_is_that_of_the_weights_that_the_layer_holds(columns, dtype):
    layer, states = four_bit(columns, dtype), torch.randn(2, 5, columns)
    weights, bias = weights_of_blocks(layer).to(dtype), layer.bias.to(dtype)
    expected = torch.nn.functional.linear(states.to(dtype), weights, bias)
    torch.testing.assert_close(layer(states.to(dtype)), expected, rtol=0, atol=0)
    torch.testing.assert_close(layer(states), expected.float(), rtol=0, atol=0)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("columns", [80, 128])
def test_layer_without_bias_and_dtype_of_its_own_takes_that_of_its_input(columns):
    layer, states = four_bit(columns, None, bias=False), torch.randn(3, columns, dtype=torch.bfloat16)
    expected = states @ weights_of_blocks(layer).to(torch.bfloat16).T
    torch.testing.assert_close(layer(states), expected, rtol=0, atol=0)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("columns", [80, 128])
def test_gradients_pass_through_four_bits(columns):
    layer, states = four_bit(columns, torch.float32), torch.randn(3, columns, requires_grad=True)
    (found,) = torch.autograd.grad(layer(states).sum(), states)
    torch.testing.assert_close(found, weights_of_blocks(layer).sum(0).expand(3, columns))


def test_layers_that_cannot_be_kept_from_repacking_are_refused():
    layer = four_bit(64, torch.float32)
    assert layer.support_avx512bf16_for_cpu is False
    del layer.support_avx512bf16_for_cpu
    with pytest.raises(ModelLoadError, match=r"may repack 4-bit weights.*'attribeam\[quantization\]'"):
        keep_weights_as_loaded(torch.nn.Sequential(layer))

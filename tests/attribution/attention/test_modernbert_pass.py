"""The fused pass of a small ModernBERT encoder, against the pass of transformers' own modules."""

from dataclasses import replace
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tests.attribution.tiny_models import edit_json, save_tiny_encoder, tiny_model
from transformers import ModernBertConfig

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import RowLayout, shared_lengths
from attribeam.attribution.attention.capture import LayerCapture
from attribeam.attribution.attention.modernbert_pass import fused_capture
from attribeam.attribution.models import CAPTURE_IMPLEMENTATION
from attribeam.attribution.models.model_directory import (
    AttributionConfig,
    ModelDirectory,
    RowEncoder,
    read_model_directory,
)
from attribeam.attribution.options import ModelOptions, Quantization, QueryPosition, SoftmaxOver, TrainedOptions
from attribeam.attribution.rows import EncodedRow
from attribeam.evaluation.model_description import EXAMPLE_RECORD
from attribeam.schemas.errors import ModelLoadError

LOCAL, FULL = "sliding_attention", "full_attention"
SHAPE = {
    "vocab_size": 60, "hidden_size": 24, "intermediate_size": 20, "num_attention_heads": 3, "local_attention": 10,
    "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "cls_token_id": 0, "sep_token_id": 0,
}  # fmt: skip


def row_of_tokens(prompt_length, responses):
    """A row of made-up tokens; the second half of its prompt is the second of two passages."""
    ids = np.random.default_rng(prompt_length).integers(1, 60, prompt_length + responses).astype(np.int32)
    passage = (np.arange(prompt_length) > prompt_length // 2).astype(np.int32)
    chars = np.arange(prompt_length + responses, dtype=np.int32)
    prompt, answer = chars[:prompt_length], chars[:responses]
    return EncodedRow(ids, prompt_length, passage, passage > 1, prompt, prompt + 1, answer, answer + 1)


def tiny_encoder(layer_types, **options):
    shape = {**SHAPE, "num_hidden_layers": len(layer_types), "layer_types": layer_types, **options}
    model = tiny_model(ModernBertConfig(**shape), causal=False).eval()
    model.set_attn_implementation(CAPTURE_IMPLEMENTATION)
    return model


def capture_of(model, **options):
    standard = {"query_position": QueryPosition.SELF, "softmax_over": SoftmaxOver.PROMPT}
    layer = model.config.num_hidden_layers
    return LayerCapture(network=model, layer=layer, bidirectional=True, **{**standard, **options})


def similarities(capture, rows):
    """S of each row, every column of it."""
    found = capture.take([(row, 2) for row in rows], layout=RowLayout.END_TO_END, top_k=10_000)
    return [torch.zeros_like(one.top_scores).scatter_(1, one.top_columns, one.top_scores) for one in found.captured]


def fused_of(capture):
    """The same capture by the fused pass, from the model's files."""
    with TemporaryDirectory() as folder:
        capture.network.save_pretrained(folder)
        options = ModelOptions(model=folder, query_position=capture.query_position)
        defaults = AttributionConfig(trained=TrainedOptions(softmax_over=capture.softmax_over))
        directory = ModelDirectory(folder, capture.network.config, defaults, options)
        return fused_capture(directory, capture.layer, torch.float32)


def assert_same(capture, rows):
    fused = fused_of(capture)
    assert fused is not None
    for found, expected in zip(similarities(fused, rows), similarities(capture, rows), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("softmax_over", list(SoftmaxOver))
@pytest.mark.parametrize("query_position", list(QueryPosition))
@pytest.mark.parametrize("layer_types", [[FULL], [LOCAL, FULL], [FULL, LOCAL, FULL], [LOCAL, LOCAL, FULL]])
def test_fused_pass_gives_the_models_own_attention(layer_types, query_position, softmax_over):
    capture = capture_of(tiny_encoder(layer_types), query_position=query_position, softmax_over=softmax_over)
    assert_same(capture, [row_of_tokens(7, 3), row_of_tokens(70, 9), row_of_tokens(33, 1)])


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.tuples(st.integers(2, 90), st.integers(1, 12)), min_size=1, max_size=4))
def test_rows_of_any_lengths_lie_side_by_side(lengths):
    assert_same(capture_of(tiny_encoder([LOCAL, FULL])), [row_of_tokens(*one) for one in lengths])


@pytest.mark.parametrize(("below", "reused"), [([LOCAL], 60 - 10), ([LOCAL, LOCAL], 60 - 20), ([LOCAL, FULL], None)])
def test_prompt_that_rows_share_is_run_once_below_a_first_full_layer(below, reused):
    answers = ([5] * 9, [6] * 7, [6] * 7, [7, 5])
    prompt = row_of_tokens(60, 1).token_ids[:60]
    rows = [
        replace(row_of_tokens(60, len(answer)), token_ids=np.array([*prompt, *answer], np.int32)) for answer in answers
    ]
    capture = capture_of(tiny_encoder([*below, FULL]))
    assert_same(capture, rows)
    fused = fused_of(capture)
    assert fused.shares == (reused is not None)
    if reused is not None:
        assert shared_lengths([one.token_ids for one in rows], fused.context) == [0, *[reused] * 3]


def rope_of(kind, **options):
    """Rotary embeddings of ``kind`` in layers that see all of a row, plain ones in the others."""
    plain = {"rope_type": "default", "rope_theta": 1e4}
    return {FULL: {**plain, "rope_type": kind, **options}, LOCAL: plain}


LONGROPE = rope_of(
    "longrope", short_factor=[1.0] * 4, long_factor=[4.0] * 4, factor=2.0, original_max_position_embeddings=64
)


@pytest.mark.parametrize(("options", "tokens"), [
    ({"hidden_activation": "gelu"}, 150), ({"local_attention": 70}, 150), ({"local_attention": 2}, 150),
    ({"rope_parameters": rope_of("linear", factor=4.0)}, 100), ({}, 2100),
], ids=["gelu", "wide", "narrow", "scaled rope", "longer than the rotations at hand"])  # fmt: skip
def test_other_activations_windows_rotations_and_lengths_are_as_exact(options, tokens):
    assert_same(capture_of(tiny_encoder([LOCAL, LOCAL, FULL], **options)), [row_of_tokens(tokens, 20)])


@pytest.mark.parametrize("model", [
    tiny_encoder([LOCAL, FULL], attention_bias=True), tiny_encoder([LOCAL, FULL], mlp_bias=True),
    tiny_encoder([LOCAL, FULL], norm_bias=True), tiny_encoder([LOCAL, LOCAL]),
    tiny_encoder([LOCAL, FULL], hidden_size=1536, intermediate_size=1024, num_attention_heads=4),
    tiny_encoder([LOCAL, FULL], rope_parameters=LONGROPE, max_position_embeddings=128),
    tiny_encoder([LOCAL, FULL], rope_parameters=rope_of("dynamic", factor=4.0), max_position_embeddings=64),
], ids=["attention bias", "mlp bias", "norm bias", "local layer captured", "large", "longrope",
    "dynamic rope"])  # fmt: skip
def test_other_models_have_no_fused_pass(model):
    assert fused_of(capture_of(model)) is None


@pytest.mark.parametrize("damaged", [
    {"layers.0.mlp_norm.weight": None}, {"layers.1.attn.Wqkv.weight": torch.zeros(72, 25)},
    {"embeddings.norm.weight": torch.full((24,), torch.nan)},
], ids=["missing", "another shape", "not finite"])  # fmt: skip
def test_files_that_do_not_fit_are_left_to_transformers(tmp_path, damaged):
    directory = save_tiny_encoder(tmp_path, layer_types=[LOCAL, FULL])
    options = ModelOptions(model=str(directory), device="cpu")
    assert fused_capture(read_model_directory(options), 2, torch.float32) is not None
    file = directory / "model.safetensors"
    weights = {name: one for name, one in {**load_file(file), **damaged}.items() if one is not None}
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ModelLoadError):
        AttentionModel.from_pretrained(options, fused=True)


def test_heads_that_do_not_divide_the_states_are_left_to_transformers(tmp_path):
    file = save_tiny_encoder(tmp_path, layer_types=[FULL]) / "config.json"
    edit_json(file, num_attention_heads=3)
    with pytest.raises(ModelLoadError, match="not a multiple of the number of attention heads"):
        AttentionModel.from_pretrained(ModelOptions(model=str(tmp_path), device="cpu"), fused=True)


def test_only_a_model_loaded_for_the_fused_pass_has_no_network(tmp_path):
    options = ModelOptions(model=str(save_tiny_encoder(tmp_path, layer_types=[LOCAL, FULL])), device="cpu")
    fused, plain = (AttentionModel.from_pretrained(options, fused=one) for one in (True, False))
    assert fused.provenance() == {**plain.provenance(), "forward_pass": "fused"}
    assert plain.network.config.num_hidden_layers == 2
    with pytest.raises(RuntimeError, match="loaded for the fused pass"):
        _ = fused.network


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.01)])
def test_bundled_encoder_gives_without_transformers_what_it_gives_with_it(dtype, tolerance):
    options = ModelOptions(device="cpu", dtype="float32")
    fused = AttentionModel.from_pretrained(options.replaced(dtype=dtype), fused=True)
    plain = AttentionModel.from_pretrained(options)
    directory = read_model_directory(options)
    rows = [model.encode(EXAMPLE_RECORD) for model in (fused, RowEncoder(directory))]
    assert rows[0].token_ids.tolist() == rows[1].token_ids.tolist()
    found, expected = (model.attribute(rows[:1], [len(EXAMPLE_RECORD.passages)])[0] for model in (fused, plain))
    np.testing.assert_allclose(found.passage_mass, expected.passage_mass, atol=tolerance)
    np.testing.assert_allclose(found.top_scores, expected.top_scores, atol=tolerance)
    assert fused.provenance() == {**plain.provenance(), "forward_pass": "fused", "dtype": dtype}


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("quantization", [Quantization.NF4, Quantization.INT8])
def test_quantised_encoder_is_loaded_with_its_own_pass(tmp_path, quantization):
    directory = save_tiny_encoder(tmp_path, layer_types=[LOCAL, FULL])
    options = ModelOptions(model=str(directory), device="cpu", dtype="float32", quantization=quantization)
    assert AttentionModel.from_pretrained(options, fused=True).provenance()["forward_pass"] == "of the model"

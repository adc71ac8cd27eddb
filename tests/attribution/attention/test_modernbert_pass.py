"""The fused pass of a small ModernBERT encoder, against the pass of transformers' own modules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attribution.tiny_models import save_tiny_encoder, save_tiny_model, tiny_model
from transformers import ModernBertConfig, ModernBertModel

from attribeam.attribution.attention import model_setup
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import RowLayout
from attribeam.attribution.attention.capture import Capture, observing
from attribeam.attribution.attention.forward_pass import LayerCapture
from attribeam.attribution.attention.modernbert_pass import encoder_weights
from attribeam.attribution.models.layer_choice import CAPTURE_IMPLEMENTATION
from attribeam.attribution.options import ModelOptions, Quantization, QueryPosition, SoftmaxOver
from attribeam.attribution.token_attribution import EncodedRow

LOCAL, FULL = "sliding_attention", "full_attention"
SHAPE = {
    "vocab_size": 60, "hidden_size": 24, "intermediate_size": 20, "num_attention_heads": 3, "local_attention": 10,
    "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "cls_token_id": 0, "sep_token_id": 0,
}  # fmt: skip


def row_of_tokens(prompt_length: int, responses: int) -> EncodedRow:
    """A row of made-up tokens; the second half of its prompt is the second of two passages."""
    ids = np.random.default_rng(prompt_length).integers(1, 60, prompt_length + responses).astype(np.int32)
    passage = (np.arange(prompt_length) > prompt_length // 2).astype(np.int32)
    chars = np.arange(prompt_length + responses, dtype=np.int32)
    prompt, answer = chars[:prompt_length], chars[:responses]
    return EncodedRow(ids, prompt_length, passage, passage > 1, prompt, prompt + 1, answer, answer + 1)


def tiny_encoder(layer_types: list[str], **options: object) -> ModernBertModel:
    shape = {**SHAPE, "num_hidden_layers": len(layer_types), "layer_types": layer_types, **options}
    model = tiny_model(ModernBertConfig(**shape), causal=False).eval()
    model.set_attn_implementation(CAPTURE_IMPLEMENTATION)
    return model


def capture_of(model: ModernBertModel, **options: object) -> LayerCapture:
    standard = {"query_position": QueryPosition.SELF, "softmax_over": SoftmaxOver.PROMPT}
    layer = model.config.num_hidden_layers
    return LayerCapture(network=model, layer=layer, bidirectional=True, **{**standard, **options})


def similarities(capture: LayerCapture, rows: list[EncodedRow]) -> list[torch.Tensor]:
    """S of each row, every column of it."""
    found = capture.take([(row, 2) for row in rows], layout=RowLayout.END_TO_END, top_k=10_000)
    return [torch.zeros_like(one.top_scores).scatter_(1, one.top_columns, one.top_scores) for one in found.captured]


def shortened(capture: LayerCapture) -> LayerCapture:
    weights = encoder_weights(capture.network, capture.layer)
    assert weights is not None
    return replace(capture, fused_weights=weights)


def assert_same(capture: LayerCapture, rows: list[EncodedRow]) -> None:
    pairs = zip(similarities(shortened(capture), rows), similarities(capture, rows), strict=True)
    for found, expected in pairs:
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("softmax_over", list(SoftmaxOver))
@pytest.mark.parametrize("query_position", list(QueryPosition))
@pytest.mark.parametrize("layer_types", [[FULL], [LOCAL, FULL], [FULL, LOCAL, FULL], [LOCAL, LOCAL, FULL]])
def test_fused_pass_gives_the_models_own_attention(
    layer_types: list[str], query_position: QueryPosition, softmax_over: SoftmaxOver
) -> None:
    capture = capture_of(tiny_encoder(layer_types), query_position=query_position, softmax_over=softmax_over)
    assert_same(capture, [row_of_tokens(7, 3), row_of_tokens(70, 9), row_of_tokens(33, 1)])


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.tuples(st.integers(2, 90), st.integers(1, 12)), min_size=1, max_size=4))
def test_rows_of_any_lengths_lie_side_by_side(lengths: list[tuple[int, int]]) -> None:
    assert_same(capture_of(tiny_encoder([LOCAL, FULL])), [row_of_tokens(*one) for one in lengths])


@pytest.mark.parametrize("options", [{"hidden_activation": "gelu"}, {"local_attention": 70}, {"local_attention": 2}])
def test_other_activations_and_windows_are_as_exact(options: dict[str, object]) -> None:
    assert_same(capture_of(tiny_encoder([LOCAL, LOCAL, FULL], **options)), [row_of_tokens(150, 20)])


def test_rows_longer_than_the_rotations_at_hand_are_as_exact() -> None:
    assert_same(capture_of(tiny_encoder([LOCAL, FULL])), [row_of_tokens(2100, 5)])


def rope_of(kind: str, **options: object) -> dict[str, object]:
    """Rotary embeddings of ``kind`` in layers that see all of a row, plain ones in the others."""
    plain = {"rope_type": "default", "rope_theta": 1e4}
    return {FULL: {**plain, "rope_type": kind, **options}, LOCAL: plain}


LONGROPE = rope_of(
    "longrope", short_factor=[1.0] * 4, long_factor=[4.0] * 4, factor=2.0, original_max_position_embeddings=64
)


@pytest.mark.parametrize(
    "model",
    [
        tiny_encoder([LOCAL, FULL], attention_bias=True),
        tiny_encoder([LOCAL, FULL], mlp_bias=True),
        tiny_encoder([LOCAL, FULL], norm_bias=True),
        tiny_encoder([LOCAL, LOCAL]),
        tiny_encoder([LOCAL, FULL]).to(torch.float64),
        tiny_encoder([LOCAL, FULL], hidden_size=1536, intermediate_size=1024, num_attention_heads=4),
        tiny_encoder([LOCAL, FULL], rope_parameters=LONGROPE, max_position_embeddings=128),
        tiny_encoder([LOCAL, FULL], rope_parameters=rope_of("dynamic", factor=4.0), max_position_embeddings=64),
    ],
    ids=[
        "attention bias",
        "mlp bias",
        "norm bias",
        "local layer captured",
        "float64",
        "large",
        "longrope",
        "dynamic rope",
    ],
)
def test_other_models_have_no_fused_pass(model: ModernBertModel) -> None:
    assert encoder_weights(model, 2) is None


def test_encoder_is_loaded_with_the_fused_pass(tmp_path: Path) -> None:
    directory = save_tiny_encoder(tmp_path, layer_types=[LOCAL, FULL])
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    assert model.provenance()["forward_pass"] == "fused"


def test_other_models_are_loaded_with_their_own_pass(tmp_path: Path) -> None:
    model = AttentionModel.from_pretrained(ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu"))
    assert model.provenance()["forward_pass"] == "of the model"


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("quantization", [Quantization.NF4, Quantization.INT8])
def test_quantised_encoder_is_loaded_with_its_own_pass(tmp_path: Path, quantization: Quantization) -> None:
    directory = save_tiny_encoder(tmp_path, layer_types=[LOCAL, FULL])
    options = ModelOptions(model=str(directory), device="cpu", dtype="float32", quantization=quantization)
    assert AttentionModel.from_pretrained(options).provenance()["forward_pass"] == "of the model"


def test_scaled_rope_is_as_exact() -> None:
    model = tiny_encoder([LOCAL, FULL], rope_parameters=rope_of("linear", factor=4.0))
    assert_same(capture_of(model), [row_of_tokens(100, 5)])


def test_pass_that_disagrees_with_the_model_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(network: ModernBertModel, layer: int) -> object:
        weights = encoder_weights(network, layer)
        assert weights is not None
        return replace(weights, key=weights.query, query=weights.key + 1)

    monkeypatch.setattr(model_setup, "encoder_weights", wrong)
    directory = save_tiny_encoder(tmp_path, layer_types=[LOCAL, FULL])
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    assert model.provenance()["forward_pass"] == "of the model"


def test_hooks_on_the_model_see_its_own_pass() -> None:
    model, ran = tiny_encoder([LOCAL, FULL]), []
    capture = shortened(capture_of(model))
    with model.layers[0].register_forward_hook(lambda *_: ran.append("layer")):
        similarities(capture, [row_of_tokens(9, 2)])
    similarities(capture, [row_of_tokens(9, 2)])
    assert ran == ["layer"]


def test_observers_are_shown_the_models_own_pass() -> None:
    capture, seen = shortened(capture_of(tiny_encoder([LOCAL, FULL]))), []
    with observing(lambda _, attention: seen.append(attention.query.shape[1])):
        found: Capture = capture.take([(row_of_tokens(20, 4), 2)], layout=RowLayout.END_TO_END, top_k=1)
    assert seen[-1] == 24
    assert len(found.captured) == 1


def test_model_whose_private_parts_have_changed_keeps_its_own_pass() -> None:
    model = tiny_encoder([LOCAL, FULL])
    for layer in model.layers:
        del layer.mlp.Wi
    assert encoder_weights(model, 2) is None

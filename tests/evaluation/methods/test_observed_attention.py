"""Other readings of a model's attention: several layers in one pass, the response itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.attribution.tiny_models import save_tiny_encoder, save_tiny_model
from transformers import AutoModel

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.capture import LayerCapture, observing
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.evaluation.measures.layer_sweep import attribute_layers
from attribeam.evaluation.methods.unions import attributed_tokens, response_similarity
from attribeam.schemas import Passage, QARecord, RowSource

PASSAGES = tuple(Passage(text=f"Keeper {number} lived in the tower.") for number in range(3))
RECORD = QARecord("r", "Who?", PASSAGES, "Ada lived there.", RowSource("f", 0))
ONE_EACH = [QARecord("r", "Who?", (one,), "Ada lived there.", RowSource("f", 0)) for one in PASSAGES]


@pytest.fixture(scope="module", params=["llama", "gemma2", "bert", "distilbert", "modernbert"])
def directory(request, tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)


def load(directory, **options):
    return AttentionModel.from_pretrained(
        ModelOptions(model=str(directory), device="cpu", **options), method=MethodOptions(top_k=7)
    )


def test_one_pass_gives_each_layer_what_a_model_of_that_layer_gives(directory):
    model = load(directory, loaded_layers=4)
    row = model.encode(RECORD)
    passes = []
    handle = model.network.register_forward_pre_hook(lambda *_: passes.append(1))
    found = attribute_layers(model, row, 3, layers=[1, 2, 4], top_k=7)
    handle.remove()
    assert passes == [1]
    for layer, tokens in found.items():
        (expected,) = load(directory, layer=layer).attribute([row], [3])
        np.testing.assert_allclose(tokens.top_scores, expected.top_scores, atol=2e-5)
        np.testing.assert_allclose(tokens.passage_mass, expected.passage_mass, atol=2e-5)
        np.testing.assert_allclose(tokens.sink_mass, expected.sink_mass, atol=2e-5)
    assert sorted(found) == [1, 2, 4]


def test_softmax_over_the_prompt_holds_in_the_models_own_layer_alone(tmp_path):
    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    model = load(save_tiny_encoder(tmp_path, layer_types=kinds, softmax_over="prompt"))
    far = QARecord("r", "Who?", PASSAGES, "Ada lived there. " * 12, RowSource("f", 0))
    row = model.encode(far)
    found = attribute_layers(model, row, 3, layers=[1, 3], top_k=row.prompt_length)
    np.testing.assert_allclose(found[3].top_scores.sum(1), 1, atol=1e-4)
    # the last tokens of the answer see nothing of the prompt through the first layer's window
    assert found[1].top_scores[-1].sum() == 0
    assert 0 < found[1].top_scores[0].sum() < 1


def test_long_row_is_put_together_from_its_windows(tmp_path):
    directory = save_tiny_model(tmp_path)
    length = len(load(directory).encode(RECORD).token_ids)
    model = load(directory, max_tokens=length - 8)
    row = model.encode(RECORD)
    assert len(row.windows) > 1
    (expected,) = model.attribute([row], [3])
    found = attribute_layers(model, row, 3, layers=[model.layer], top_k=7)[model.layer]
    np.testing.assert_allclose(found.top_scores, expected.top_scores, atol=2e-5)


@pytest.mark.parametrize(("budget", "rows_a_pass"), [(1, [1, 1, 1]), (10_000, [3])])
def test_windows_go_through_the_model_by_the_token_budget(tmp_path, monkeypatch, budget, rows_a_pass):
    model, row = model_and_long_row(tmp_path, token_budget=budget)
    passes = spy_on_passes(monkeypatch)
    attribute_layers(model, row, 3, layers=[1, 3], top_k=7)
    assert passes == rows_a_pass


@pytest.mark.parametrize("fitting", [1, 2])
def test_windows_that_do_not_fit_into_memory_together_are_halved(tmp_path, monkeypatch, fitting):
    model, row = model_and_long_row(tmp_path)
    expected = attribute_layers(model, row, 3, layers=[1, 3], top_k=7)
    spy_on_passes(monkeypatch, fitting=fitting)
    found = attribute_layers(model, row, 3, layers=[1, 3], top_k=7)
    for layer, tokens in found.items():
        np.testing.assert_allclose(tokens.top_scores, expected[layer].top_scores, atol=2e-5)


def model_and_long_row(directory, **options):
    """A model whose windows take one passage each, and a row of three windows."""
    longest = max(len(load(save_tiny_model(directory)).encode(one).token_ids) for one in ONE_EACH)
    model = load(directory, max_tokens=longest + 1, **options)
    row = model.encode(RECORD)
    assert len(row.windows) == 3
    return model, row


def spy_on_passes(monkeypatch, *, fitting=1000):
    """The number of rows of every pass; more than ``fitting`` rows are too many for the memory."""
    passes = []
    take = LayerCapture.take

    def spied(self, jobs, **named):
        passes.append(len(jobs))
        if len(jobs) > fitting:
            raise MemoryError
        return take(self, jobs, **named)

    monkeypatch.setattr(LayerCapture, "take", spied)
    return passes


def test_layer_without_attention_is_refused(tmp_path):
    model = load(save_tiny_model(tmp_path, "qwen3_next"))
    with pytest.raises(ValueError, match=r"these have none: \[1\]"):
        attribute_layers(model, model.encode(RECORD), 3, layers=[1, 4], top_k=2)


def loaded(directory, **options) -> AttentionModel:
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", **options))


# the fourth token attends to the second most, then equally to the first and third
SIMILARITY = torch.tensor([[0.0, 0, 0, 0], [0.3, 0, 0, 0], [0.1, 0.2, 0, 0], [0.1, 0.4, 0.1, 0]])


def test_token_is_attributed_to_its_top_k_earlier_tokens():
    assert attributed_tokens([SIMILARITY], top_k=1).tolist() == [
        [False, False, False, False],
        [True, False, False, False],
        [False, True, False, False],
        [False, True, False, False],
    ]


@pytest.mark.parametrize(("kind", "shift"), [("llama", 1), ("bert", 0)])
def test_similarity_is_that_of_eager_attention_below_the_diagonal(tmp_path, kind, shift):
    directory = save_tiny_model(tmp_path, kind)
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    row = model.encode(QARecord("r", "Who?", (Passage(text="Ada."),), "Ada lit the lamp.", RowSource("f", 0)))
    found = []

    def observe(layer_index, attention):
        if layer_index == model.layer - 1:
            positions = model.request(row, 1).query_positions
            found.append(response_similarity(attention, query_positions=positions, prompt_length=row.prompt_length))

    with observing(observe):
        model.attribute([row], [1])
    reference = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
        attention = reference(ids, output_attentions=True).attentions[model.layer - 1][0].mean(0).numpy()
    expected = attention[row.prompt_length - shift : len(row.token_ids) - shift, row.prompt_length :]
    (similarity,) = found
    np.testing.assert_allclose(similarity.numpy(), np.tril(expected, -1), atol=1e-5)
    assert similarity.count_nonzero() == len(expected) * (len(expected) - 1) // 2

"""Hidden states against those that transformers gives, and their similarities against the written-out ones."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attribution.made_rows import made_row, record
from tests.attribution.tiny_models import GROUPED, MIXED, save_model_of, save_tiny_model
from tests.evaluation.methods.naive_paper import hidden_similarity, hss_avg, top_k
from transformers import AutoModel, Gemma3nTextConfig

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.hidden_states import (
    HiddenSimilarity,
    hidden_states,
    keeping_hidden_states,
    layer_modules,
)
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import ModelChoice, load_models
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.rows import PassageWindow, TokenAttribution
from attribeam.schemas import Reason, RowFault
from attribeam.schemas.errors import ModelLoadError

RECORD = record(["Ada kept the lamp.", "No."], "Ada did.")


@pytest.fixture(scope="module", params=["llama", "gpt2", "gemma2", "modernbert", "bert", "distilbert"])
def loaded(request, tmp_path_factory):
    directory = save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", loaded_layers=4))
    row = model.encode(RECORD)
    reference = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
        expected = reference(ids, output_hidden_states=True).hidden_states
    return model, row, expected


@pytest.mark.parametrize("layer", [0, 1, 3])
def test_states_are_those_that_transformers_gives(loaded, layer):
    model, row, expected = loaded
    states = hidden_states(model.network, row.token_ids, layer=layer)
    np.testing.assert_allclose(states.numpy(), expected[layer][0].numpy(), atol=2e-5, rtol=1e-4)


def test_states_come_from_the_pass_that_gives_the_attention(loaded):
    model, row, expected = loaded
    kept = []
    layer = model.layer - 1
    with keeping_hidden_states(model.network, kept, layer=layer):
        (tokens,) = model.attribute([row], [2])
    assert isinstance(tokens, TokenAttribution)
    assert len(kept) == 1
    np.testing.assert_allclose(kept[0].numpy(), expected[layer][0].numpy(), atol=2e-5, rtol=1e-4)


def test_states_of_another_threads_pass_are_not_taken(loaded):
    model, row, expected = loaded
    kept = []
    with keeping_hidden_states(model.network, kept, layer=1), ThreadPoolExecutor(1) as other_thread:
        states = other_thread.submit(hidden_states, model.network, row.token_ids, layer=2).result()
    assert kept == []
    np.testing.assert_allclose(states.numpy(), expected[2][0].numpy(), atol=2e-5, rtol=1e-4)


def test_no_hook_stays_behind(loaded):
    model, row, _ = loaded
    hidden_states(model.network, row.token_ids, layer=1)
    with keeping_hidden_states(model.network, [], layer=0):
        pass
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in layer_modules(model.network))


def test_layer_that_was_not_loaded_is_refused(loaded):
    model, row, _ = loaded
    with pytest.raises(ValueError, match=r"should be from 0 to 4, was: 5"):
        hidden_states(model.network, row.token_ids, layer=5)


def test_model_without_a_list_of_its_layers_is_refused(tmp_path):
    model = AutoModel.from_pretrained(save_tiny_model(tmp_path, "albert"))
    with pytest.raises(ValueError, match="should hold its 4 layers in one list, but AlbertModel does not"):
        layer_modules(model)


def test_model_with_several_states_for_a_token_is_refused(tmp_path):
    more = {"head_dim": 8, "hidden_size_per_layer_input": 8, "laurel_rank": 4, "num_kv_shared_layers": 0}
    sizes = {"vocab_size_per_layer_input": 400, "altup_num_inputs": 2, "activation_sparsity_pattern": [0.0] * 4}
    save_model_of(tmp_path, Gemma3nTextConfig(**GROUPED, **MIXED, **more, **sizes), causal=False)
    choice = ModelChoice(model=ModelOptions(model=str(tmp_path), device="cpu"))
    with pytest.raises(ModelLoadError, match="with one for each token, but there are 2; choose another model"):
        load_models(choice, frozenset({Need.HIDDEN_STATES}))


def similarity(states, column_passage, passages):
    row = made_row(column_passage, responses=len(states) - len(column_passage))
    return HiddenSimilarity([torch.tensor(states)], encoded=row, passage_count=passages)


def test_states_that_are_no_numbers_are_a_fault_of_the_row():
    with pytest.raises(RowFault) as fault:
        similarity([[1.0], [float("nan")]], [0], 1)
    assert fault.value.reason is Reason.NON_FINITE_ATTENTION


numbers = st.integers(-12, 12).map(lambda quarters: quarters / 4)


@st.composite
def rows(draw):
    passages = draw(st.integers(1, 3))
    column_passage = draw(st.lists(st.integers(-1, passages - 1), min_size=1, max_size=9).map(sorted))
    responses = draw(st.integers(1, 4))
    state = st.lists(numbers, min_size=3, max_size=3).filter(lambda one: float(np.dot(one, one)) > 0.01)
    count = len(column_passage) + responses
    return column_passage, passages, draw(st.lists(state, min_size=count, max_size=count))


@settings(max_examples=30, deadline=None)
@given(rows(), st.integers(1, 4))
def test_top_columns_are_those_of_the_written_out_similarity(row, k):
    column_passage, passages, states = row
    found = similarity(states, column_passage, passages).top_columns(k)
    expected = np.maximum(hidden_similarity(np.array(states), len(column_passage)), 0)
    for columns, scores, of_token in zip(found.top_columns, found.top_scores, expected, strict=True):
        np.testing.assert_allclose(scores, of_token[top_k(of_token.tolist(), k)], atol=1e-6)
        np.testing.assert_allclose(scores, of_token[columns], atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(rows(), st.integers(1, 4))
def test_best_windows_are_those_of_the_written_out_average(row, window):
    column_passage, passages, states = row
    responses = len(states) - len(column_passage)
    targets = [{0}, set(range(responses))]
    mask = np.array([[i in target for i in range(responses)] for target in targets])
    found = similarity(states, column_passage, passages).best_windows(mask, window=window)
    for cosines, target in zip(found.cosines, targets, strict=True):
        expected = hss_avg(
            np.array(states), target, made_row(column_passage, responses=responses), passages, window=window
        )
        np.testing.assert_allclose(np.maximum(cosines, 0), expected, atol=1e-6)


def test_row_of_two_windows_is_compared_within_each():
    # BOS is in both windows; passage 0 is in the first, passage 1 in the second; one response token
    first, second = made_row([-1, 0], responses=1), made_row([-1, 1], responses=1)
    whole = replace(
        made_row([-1, 0, 1], responses=1),
        windows=(PassageWindow(first, np.array([0, 1], np.int32)), PassageWindow(second, np.array([0, 2], np.int32))),
    )
    states = [torch.tensor([[1.0, 0.0], [4.0, 3.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 1.0]])]
    found = HiddenSimilarity(states, encoded=whole, passage_count=2)
    tokens = found.top_columns(3)
    assert tokens.top_columns.tolist() == [[0, 1, 2]]
    np.testing.assert_allclose(tokens.top_scores, [[1.0, 0.8, 0.8]], rtol=1e-6)
    windows = found.best_windows(np.array([[True]]), window=8)
    np.testing.assert_allclose(windows.cosines, [[0.8, 0.8]], rtol=1e-6)
    assert [columns.tolist() for columns in windows.columns[0]] == [[1], [2]]

import numpy as np
import pytest
import torch
from transformers import AutoModel

from attribution.attention.attention_model import AttentionModel
from attribution.attention.hidden_states import hidden_states, keeping_hidden_states, layer_modules
from attribution.models.model_options import ModelOptions
from attribution.token_attribution import TokenAttribution
from schemas import Passage, QARecord, RowSource
from tests.attribution.tiny_models import save_tiny_model

RECORD = QARecord(
    "r", "Who kept it?", (Passage(text="Ada kept the lamp."), Passage(text="No.")), "Ada did.", RowSource("f", 0)
)


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
    kept: list[torch.Tensor] = []
    layer = model.layer - 1
    with keeping_hidden_states(model.network, kept, layer=layer):
        (tokens,) = model.attribute([row], [2])
    assert isinstance(tokens, TokenAttribution)
    assert len(kept) == 1
    np.testing.assert_allclose(kept[0].numpy(), expected[layer][0].numpy(), atol=2e-5, rtol=1e-4)


def test_pass_ends_behind_the_layer(loaded):
    model, row, _ = loaded
    ran = []
    handles = [one.register_forward_pre_hook(lambda *_, n=n: ran.append(n)) for n, one in enumerate(layers_of(model))]
    hidden_states(model.network, row.token_ids, layer=2)
    for handle in handles:
        handle.remove()
    assert ran == [0, 1]


def test_no_hook_stays_behind(loaded):
    model, row, _ = loaded
    hidden_states(model.network, row.token_ids, layer=1)
    with keeping_hidden_states(model.network, [], layer=0):
        pass
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in layers_of(model))


def test_layer_that_was_not_loaded_is_refused(loaded):
    model, row, _ = loaded
    with pytest.raises(ValueError, match=r"should be from 0 to 4, was: 5"):
        hidden_states(model.network, row.token_ids, layer=5)


def test_model_without_a_list_of_its_layers_is_refused(tmp_path):
    model = AutoModel.from_pretrained(save_tiny_model(tmp_path, "albert"))
    with pytest.raises(ValueError, match="should hold its 4 layers in one list, AlbertModel does not"):
        layer_modules(model)


def layers_of(model):
    return layer_modules(model.network)

import numpy as np
import pytest
import torch
from transformers import AutoModel

from attribution.attention.attention_model import AttentionModel
from attribution.attention.capture_pass import observing
from attribution.attention.response_attention import attributed_tokens, response_similarity
from attribution.models.model_options import ModelOptions
from schemas import Passage, QARecord, RowSource
from tests.attribution.tiny_models import save_tiny_model

# the fourth token attends to the second most, then equally to the first and third
SIMILARITY = torch.tensor([[0.0, 0, 0, 0], [0.3, 0, 0, 0], [0.1, 0.2, 0, 0], [0.1, 0.4, 0.1, 0]])


def test_token_is_attributed_to_its_top_k_earlier_tokens():
    assert attributed_tokens([SIMILARITY], top_k=1).tolist() == [
        [False, False, False, False],
        [True, False, False, False],
        [False, True, False, False],
        [False, True, False, False],
    ]


def test_equal_similarities_go_to_the_earlier_token():
    assert attributed_tokens([SIMILARITY], top_k=2)[3].tolist() == [True, True, False, False]


def test_first_token_is_attributed_to_none():
    assert not attributed_tokens([SIMILARITY], top_k=9)[0].any()
    assert not attributed_tokens([SIMILARITY], top_k=9).diagonal().any()


def test_pair_of_tokens_counts_as_its_largest_value_of_all_windows():
    other = torch.zeros(4, 4)
    other[3, 2] = 0.5
    assert attributed_tokens([SIMILARITY, other], top_k=1)[3].tolist() == [False, False, True, False]


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

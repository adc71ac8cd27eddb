import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from attribution.attention.attention_model import AttentionModel
from attribution.attention.head_masses import head_masses
from attribution.models.model_options import ModelOptions
from schemas import Passage, QARecord, Reason, RowFault, RowSource
from tests.attribution.tiny_models import SENTENCES, save_tiny_encoder, save_tiny_model

RECORD = QARecord(
    "r",
    "Who built the lighthouse?",
    (Passage(text=SENTENCES[0], title="Brigg Point"), Passage(text=SENTENCES[1])),
    "Ada Thorne built it in 1874.",
    RowSource("f", 0),
)


def loaded(directory, **options) -> AttentionModel:
    return AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", **options))


def test_masses_are_eager_attention_summed_over_each_passage(tmp_path):
    directory = save_tiny_model(tmp_path)
    model = loaded(directory)
    row = model.encode(RECORD)
    found = head_masses(model, row, 2)
    eager = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager")
    with torch.no_grad():
        ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
        attention = eager(input_ids=ids, output_attentions=True).attentions[model.layer - 1][0]
    assert found.shape == (4, len(row.token_ids) - row.prompt_length, 2)
    for attention_head in range(4):
        for response in range(found.shape[1]):
            weights = attention[attention_head, row.prompt_length - 1 + response, : row.prompt_length]
            expected = [weights[torch.from_numpy(row.column_passage == passage)].sum() for passage in range(2)]
            np.testing.assert_allclose(found[attention_head, response], expected, atol=1e-5)


@pytest.mark.parametrize("softmax_over", ["visible", "prompt"])
def test_mean_of_an_encoders_attention_heads_is_its_passage_mass(tmp_path, softmax_over):
    layers = ["sliding_attention", "full_attention"]
    model = loaded(save_tiny_encoder(tmp_path, layer_types=layers, softmax_over=softmax_over))
    row = model.encode(RECORD)
    (tokens,) = model.attribute([row], [2])
    np.testing.assert_allclose(head_masses(model, row, 2).mean(0), tokens.passage_mass, atol=1e-6)


def test_slices_of_response_rows_change_nothing(tmp_path, monkeypatch):
    model = loaded(save_tiny_model(tmp_path))
    row = model.encode(RECORD)
    whole = head_masses(model, row, 2)
    monkeypatch.setattr("attribution.attention.head_masses.MAX_WEIGHTS", 3 * 4 * len(row.token_ids))
    np.testing.assert_allclose(head_masses(model, row, 2), whole, atol=1e-6)


def test_row_that_is_cut_into_windows_is_refused(tmp_path):
    whole = loaded(save_tiny_model(tmp_path)).encode(RECORD)
    model = loaded(tmp_path, max_tokens=len(whole.token_ids) - 10)
    row = model.encode(RECORD)
    assert row.windows
    with pytest.raises(RowFault) as fault:
        head_masses(model, row, 2)
    assert fault.value.reason is Reason.TOO_MANY_TOKENS

import numpy as np
import pytest
import torch
from transformers import AutoModel

from attribution.attention.attention_model import AttentionModel
from attribution.attention.head_weights import HeadWeights
from attribution.models.model_directory import ModelLoadError
from attribution.models.model_options import MethodOptions, ModelOptions
from schemas import Passage, QARecord, RowSource
from tests.attribution.tiny_models import save_tiny_model

RECORD = QARecord("r", "Who lit it?", (Passage(text="Ada lit the lamp."),), "Ada did.", RowSource("f", 0))


@pytest.fixture(scope="module", params=["llama", "bert"])
def directory(request, tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)


def load(directory, **options):
    return AttentionModel.from_pretrained(
        ModelOptions(model=str(directory), device="cpu", **options), method=MethodOptions(top_k=1000)
    )


def weights_file(directory, tmp_path, weights, *, layer=3):
    revision = load(directory).provenance()["model_revision"]
    HeadWeights(str(directory), revision, layer, weights).write(tmp_path / "weights.json")
    return str(tmp_path / "weights.json")


def similarity(model):
    row = model.encode(RECORD)
    (tokens,) = model.attribute([row], [1])
    found = np.zeros_like(tokens.top_scores)
    np.put_along_axis(found, tokens.top_columns.astype(np.int64), tokens.top_scores, axis=1)
    return found


def eager_heads(directory, model):
    """[attention heads, responses, prompt_length] of layer 3."""
    row = model.encode(RECORD)
    reference = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
        attention = reference(ids, output_attentions=True).attentions[2][0].numpy()
    shift = 1 if model.query_position == "predicting" else 0
    return attention[:, row.prompt_length - shift : len(row.token_ids) - shift, : row.prompt_length]


def test_similarity_is_the_weighted_mean_over_attention_heads(directory, tmp_path):
    weights = (0.5, 0.0, 0.125, 0.375)
    model = load(directory, head_weights=weights_file(directory, tmp_path, weights))
    expected = np.einsum("h,hrc->rc", np.array(weights), eager_heads(directory, model))
    np.testing.assert_allclose(similarity(model), expected, atol=2e-5)


def test_equal_weights_are_the_mean(directory, tmp_path):
    model = load(directory, head_weights=weights_file(directory, tmp_path, (0.25,) * 4))
    np.testing.assert_allclose(similarity(model), similarity(load(directory)), atol=1e-6)


def test_run_says_which_weights_it_had(directory, tmp_path):
    assert load(directory).provenance()["head_weights"] == "equal"
    model = load(directory, head_weights=weights_file(directory, tmp_path, (0.5, 0.25, 0.25, 0.0)))
    assert model.provenance()["head_weights"] == "0.5 0.25 0.25 0"


def test_weights_of_another_layer_are_refused(directory, tmp_path):
    path = weights_file(directory, tmp_path, (0.25,) * 4, layer=2)
    with pytest.raises(ModelLoadError, match=r"layer 2, the model in use has 3.*see --head-weights"):
        load(directory, head_weights=path)


def test_missing_file_of_weights_is_an_error_of_loading(directory, tmp_path):
    with pytest.raises(ModelLoadError, match=r"none\.json should be a readable JSON file.*see --head-weights"):
        load(directory, head_weights=str(tmp_path / "none.json"))

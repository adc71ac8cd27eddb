"""Learned weights of attention heads: their file, and the similarity under them."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from tests.attribution.tiny_models import save_tiny_model
from transformers import AutoModel

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.head_weights import HeadWeights
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.errors import ModelLoadError

WEIGHTS = HeadWeights(model="m", revision="sha256:a", layer=2, weights=(0.75, 0.25, 0.0))


def written(path, **changes):
    path.write_text(json.dumps(asdict(WEIGHTS) | changes))
    return path


def test_file_gives_back_what_was_written(tmp_path):
    WEIGHTS.write(tmp_path / "w.json")
    assert HeadWeights.from_file(tmp_path / "w.json") == WEIGHTS
    assert [path.name for path in tmp_path.iterdir()] == ["w.json"]


def test_file_is_the_agreed_object(tmp_path):
    WEIGHTS.write(tmp_path / "w.json")
    expected = {"model": "m", "revision": "sha256:a", "layer": 2, "weights": [0.75, 0.25, 0.0]}
    assert json.loads((tmp_path / "w.json").read_text()) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": [0.5, 0.4]}, "weights should sum to 1, but sum to: 0.9"),
        ({"weights": [1.5, -0.5]}, "weights.0 should be less than or equal to 1, was: 1.5"),
        ({"weights": []}, "weights should have at least 1 item"),
        ({"weights": [float("nan")]}, "weights.0 should be a finite number, was: nan"),
        ({"weights": ["1"]}, "weights.0 should be a valid number, was: '1'"),
        ({"weights": [True]}, "weights.0 should be a valid number, was: True"),
        ({"layer": 0}, "layer should be greater than or equal to 1, was: 0"),
        ({"layer": 1.5}, "layer should be a valid integer, was: 1.5"),
        ({"heads": 3}, "heads is unknown here"),
    ],
)
def test_file_that_holds_no_weights_is_refused_by_name(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message) as error:
        HeadWeights.from_file(written(tmp_path / "w.json", **changes))
    assert "w.json" in str(error.value)


@pytest.mark.parametrize("text", ["[1.0]", "no json", None])
def test_file_that_is_no_object_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / "w.json").write_text(text)
    with pytest.raises(ValueError, match=r"w\.json.* should"):
        HeadWeights.from_file(tmp_path / "w.json")


def test_weights_fit_the_model_that_they_were_fitted_for():
    WEIGHTS.check_fits(revision="sha256:a", layer=2, attention_heads=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"revision": "sha256:b"}, "the revision sha256:a, but the model has sha256:b"),
        ({"layer": 3}, "the layer 2, but the model has 3; give --layer 2, or refit them"),
        ({"layer": 3, "revision": "sha256:b"}, "the layer 2, but the model has 3; give --layer 2, or refit them"),
        ({"attention_heads": 4}, "the number of attention heads 3, but the model has 4"),
    ],
)
def test_weights_of_another_model_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        WEIGHTS.check_fits(**({"revision": "sha256:a", "layer": 2, "attention_heads": 3} | change))


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
    with pytest.raises(ModelLoadError, match=r"layer 2, but the model has 3.*see --head-weights"):
        load(directory, head_weights=path)


def test_missing_file_of_weights_is_an_error_of_loading(directory, tmp_path):
    with pytest.raises(ModelLoadError, match=r"none\.json should be a readable file.*see --head-weights"):
        load(directory, head_weights=str(tmp_path / "none.json"))

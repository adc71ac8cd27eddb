import json
from dataclasses import asdict

import pytest

from attribution.attention.head_weights import HeadWeights

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
        ({"weights": [0.5, 0.4]}, "'weights' should sum to 1, sum to: 0.9"),
        ({"weights": [1.5, -0.5]}, "numbers of at least 0"),
        ({"weights": []}, "numbers of at least 0"),
        ({"weights": [float("nan")]}, "numbers of at least 0"),
        ({"weights": ["1"]}, "a list of numbers"),
        ({"weights": [True]}, "a list of numbers"),
        ({"layer": 0}, "'layer' should be at least 1, was: 0"),
        ({"layer": 1.5}, "a whole number"),
        ({"heads": 3}, "an object with the keys"),
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
    with pytest.raises(ValueError, match=r"w\.json should"):
        HeadWeights.from_file(tmp_path / "w.json")


def test_weights_fit_the_model_that_they_were_fitted_for():
    WEIGHTS.check_fits(revision="sha256:a", layer=2, attention_heads=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"revision": "sha256:b"}, "the revision sha256:a, the model in use has sha256:b"),
        ({"layer": 3}, "the layer 2, the model in use has 3"),
        ({"attention_heads": 4}, "the number of attention heads 3, the model in use has 4"),
    ],
)
def test_weights_of_another_model_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        WEIGHTS.check_fits(**({"revision": "sha256:a", "layer": 2, "attention_heads": 3} | change))

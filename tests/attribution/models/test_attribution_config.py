"""Who overrides whom, and clear errors for a bad file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tests.attribution.tiny_models import save_tiny_model

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.models.model_directory import AttributionConfig
from attribeam.attribution.option_declaration import declared
from attribeam.attribution.options import MethodOptions, ModelOptions, QueryPosition, SoftmaxOver, TrainedOptions
from attribeam.attribution.prompts.prompt_template import PromptTemplate


def written(tmp_path: Path, values: object) -> Path:
    path = tmp_path / "attribution_config.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def test_file_gives_every_field(tmp_path: Path) -> None:
    values = {
        "layer": 3,
        "query_position": "self",
        "softmax_over": "prompt",
        "own_token_weight": 3,
        "top_k": 4,
        "isolation_tau": "inf",
        "prompt_template": {"preamble": "Read. "},
        "supported_threshold": 0.6,
        "weak_threshold": 0.1,
        "dtype": "float32",
    }
    assert AttributionConfig.from_file(written(tmp_path, values)) == AttributionConfig(
        model=ModelOptions(layer=3, query_position=QueryPosition.SELF, dtype="float32"),
        method=MethodOptions(
            own_token_weight=3, top_k=4, isolation_tau=math.inf, supported_threshold=0.6, weak_threshold=0.1
        ),
        trained=TrainedOptions(softmax_over=SoftmaxOver.PROMPT),
        prompt_template=PromptTemplate(preamble="Read. "),
    )


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([], "should hold a JSON object, holds: \\[\\]"),
        ({"layers": 3}, "layers"),
        ({"layer": "3"}, "layer should be a whole number from 1, was: '3'"),
        ({"top_k": True}, "top_k should be a whole number from 1, was: True"),
        ({"top_k": 0}, "top_k should be a whole number from 1, was: 0"),
        ({"supported_threshold": 0.2, "weak_threshold": 0.3}, "weak_threshold <= supported_threshold"),
        ({"isolation_tau": "two"}, "isolation_tau should be a whole number of tokens from 0, or inf"),
        ({"query_position": "next"}, "'predicting', 'self'"),
        ({"softmax_over": "all"}, "'visible', 'prompt'"),
        ({"prompt_template": "plain"}, "prompt_template should be an object"),
        ({"prompt_template": {"passage": ""}}, "'passage' should have the fields"),
        ({"dtype": 32}, "dtype should be one of 'auto', 'float32', 'bfloat16', 'float16', was: 32"),
    ],
)
def test_bad_file_is_an_error_with_its_name_and_key(tmp_path: Path, values: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        AttributionConfig.from_file(written(tmp_path, values))
    assert "attribution_config.json" in str(caught.value)


def test_nothing_that_a_model_directory_may_decide_is_left_open_with_a_model() -> None:
    own = MethodOptions(supported_threshold=0.4, weak_threshold=0.2)
    given = MethodOptions().with_model(own).given()
    decided = [one.name for one in declared(MethodOptions).values() if one.in_directory]
    assert "top_k" in decided
    assert [name for name in decided if given.get(name) is None] == []
    without = MethodOptions().with_model(MethodOptions())
    assert set(decided) - without.model_fields_set == {"supported_threshold", "weak_threshold"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (MethodOptions(supported_threshold=0.1), (0.1, 0.1)),
        (MethodOptions(supported_threshold=0.4), (0.4, 0.2)),
        (MethodOptions(weak_threshold=0.5), (0.5, 0.5)),
    ],
)
def test_threshold_given_alone_moves_the_one_it_would_cross(
    given: MethodOptions, expected: tuple[float, float]
) -> None:
    settings = given.with_model(MethodOptions(supported_threshold=0.3, weak_threshold=0.2))
    assert (settings.supported_threshold, settings.weak_threshold) == expected


def test_settings_of_a_file_take_the_place_of_the_directorys_own(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "model")
    (model / "attribution_config.json").write_text('{"layer": 2, "top_k": 5}', encoding="utf-8")
    own = tmp_path / "own.json"
    own.write_text('{"layer": 1, "isolation_tau": 3}', encoding="utf-8")
    loaded = AttentionModel.from_pretrained(
        ModelOptions(model=str(model), device="cpu", attribution_config=str(own)), method=MethodOptions()
    )
    assert (loaded.layer, loaded.settings.top_k, loaded.settings.isolation_tau) == (1, 2, 3)

"""Who overrides whom, and clear errors for a bad file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from attribeam.attribution.models.attribution_config import AttributionConfig, merge_settings
from attribeam.attribution.models.model_options import MethodOptions
from attribeam.attribution.prompts.prompt_template import PromptTemplate
from attribeam.attribution.settings import Method, QueryPosition, SoftmaxOver, UnionSettings


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
        layer=3,
        query_position=QueryPosition.SELF,
        softmax_over=SoftmaxOver.PROMPT,
        own_token_weight=3,
        top_k=4,
        isolation_tau=math.inf,
        prompt_template=PromptTemplate(preamble="Read. "),
        supported_threshold=0.6,
        weak_threshold=0.1,
        dtype="float32",
    )


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([], "list"),
        ({"layers": 3}, "layers"),
        ({"layer": "3"}, "'layer' should be a whole number, was: '3'"),
        ({"top_k": True}, "'top_k' should be a whole number"),
        ({"isolation_tau": "two"}, "'isolation_tau' should be a number"),
        ({"query_position": "next"}, "'predicting', 'self'"),
        ({"softmax_over": "all"}, "'visible', 'prompt'"),
        ({"prompt_template": "plain"}, "'prompt_template' should be an object"),
        ({"prompt_template": {"passage": ""}}, "'passage' should have the fields"),
        ({"dtype": 32}, "'dtype' should be a string"),
    ],
)
def test_bad_file_is_an_error_with_its_name_and_key(tmp_path: Path, values: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        AttributionConfig.from_file(written(tmp_path, values))
    assert "attribution_config.json" in str(caught.value)


def test_user_overrides_the_directory_and_the_directory_the_paper() -> None:
    defaults = AttributionConfig(top_k=5, isolation_tau=3)
    settings = merge_settings(MethodOptions(method=Method.ATTN_UNION, top_k=1), defaults)
    assert settings == UnionSettings(method=Method.ATTN_UNION, top_k=1, isolation_tau=3)


def test_zero_is_a_choice_and_not_an_absence() -> None:
    settings = merge_settings(MethodOptions(isolation_tau=0, weak_threshold=0.0), AttributionConfig(isolation_tau=3))
    assert (settings.isolation_tau, settings.weak_threshold) == (0, 0)


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
    settings = merge_settings(given, AttributionConfig(supported_threshold=0.3, weak_threshold=0.2))
    assert (settings.supported_threshold, settings.weak_threshold) == expected

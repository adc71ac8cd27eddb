"""How a language model of its own is loaded beside the attention model."""

from __future__ import annotations

import pytest

from attribeam.attribution.methods.models import ModelChoice
from attribeam.attribution.options import MethodOptions, ModelOptions


@pytest.mark.parametrize(
    ("of_both", "own", "expected"),
    [
        ({}, {}, ("auto", "none")),
        ({"quantization": "int8"}, {}, ("auto", "int8")),
        ({}, {"language_model_quantization": "int8"}, ("auto", "int8")),
        ({"quantization": "int8"}, {"language_model_quantization": "none"}, ("auto", "none")),
        ({"dtype": "float32"}, {"language_model_quantization": "nf4"}, ("float32", "nf4")),
        (
            {"dtype": "float32", "quantization": "nf4"},
            {"language_model_dtype": "bfloat16", "language_model_quantization": "int8"},
            ("bfloat16", "int8"),
        ),
    ],
)
def test_language_model_is_stored_like_the_model_unless_it_has_options_of_its_own(
    of_both: dict[str, str], own: dict[str, str], expected: tuple[str, str]
) -> None:
    model = ModelOptions(model="ours", **of_both)
    choice = ModelChoice(model=model, method=MethodOptions(language_model="theirs", **own))
    assert choice.model == model
    assert choice.language.model == "theirs"
    assert (choice.language.dtype, choice.language.quantization) == expected


def test_language_model_in_no_known_number_of_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="language_model_quantization"):
        MethodOptions(language_model_quantization="int3")

"""Long rows: what a forward pass allocates grows with the tokens of a row, not with their square."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.attribution.tiny_models import VOCABULARY_SIZE, save_tiny_model
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModel

from attribeam.attribution.attention import reduction
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import RowLayout
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.token_attribution import TokenAttribution
from lab.benchmarks.attribution_memory import random_row
from lab.benchmarks.latency_methods import TwoStage

PASSAGES, RESPONSES = 8, 100
SHORT, LONG = 1024, 4096


class LargestTensor(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(
        self, operation: Any, types: Sequence[type], arguments: Any = (), options: Any = None
    ) -> object:
        made = operation(*arguments, **(options or {}))
        for one in made if isinstance(made, tuple | list) else (made,):
            if torch.is_tensor(one):
                self.elements = max(self.elements, one.untyped_storage().nbytes() // one.element_size())
        return made


def largest_tensor(model: AttentionModel, tokens: int) -> int:
    with LargestTensor() as largest:
        (found,) = model.attribute([random_row(tokens, VOCABULARY_SIZE)], [PASSAGES])
    assert isinstance(found, TokenAttribution)
    assert len(found.top_columns) == RESPONSES
    return largest.elements


@pytest.mark.parametrize("kind", ["qwen2", "mistral", "modernbert"])
def test_largest_tensor_of_a_pass_grows_with_the_tokens_of_the_row(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = AttentionModel.from_pretrained(ModelOptions(model=str(save_tiny_model(tmp_path, kind)), device="cpu"))
    assert model.layout is RowLayout.END_TO_END
    monkeypatch.setattr(reduction, "MAX_WEIGHTS", 1)  # slices have a fixed size, which would hide what grows
    short, long = largest_tensor(model, SHORT), largest_tensor(model, LONG)
    assert long <= 1.1 * LONG / SHORT * short
    assert long < LONG**2 / 16


def test_long_row_has_the_attention_that_eager_gives_it(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path, "qwen2")
    model = AttentionModel.from_pretrained(ModelOptions(model=str(folder), device="cpu"))
    row = random_row(SHORT, VOCABULARY_SIZE)
    (found,) = model.attribute([row], [PASSAGES])
    eager = TwoStage(AutoModel.from_pretrained(folder).eval(), layer=model.layer)
    (expected,) = eager.attribute([row], [PASSAGES], top_k=model.settings.top_k)
    assert isinstance(found, TokenAttribution)
    np.testing.assert_array_equal(found.top_columns, expected.top_columns)
    np.testing.assert_allclose(found.top_scores, expected.top_scores, atol=1e-6)
    np.testing.assert_allclose(found.passage_mass, expected.passage_mass, atol=1e-5)

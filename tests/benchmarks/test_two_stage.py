"""The two-stage implementation that ours is measured against computes the same attention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModel, AutoModelForCausalLM

from attribution.attention.attention_model import AttentionModel
from attribution.models.model_options import MethodOptions, ModelOptions
from attribution.token_attribution import TokenAttribution
from benchmarks.two_stage import TwoStage
from schemas import Passage, QARecord, RowSource
from tests.attribution.tiny_models import save_tiny_model

RECORDS = [
    QARecord("r", "Who kept the lamp?", tuple(map(Passage, passages)), answer, RowSource("log.parquet", 0))
    for passages, answer in [
        (["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."], "Ada Thorne lit the lamp."),
        (["A short one."], "Yes."),
        (["The lamp was seen from twelve miles away."] * 3, "Twelve miles away, in the tower."),
    ]
]


@pytest.mark.parametrize("kind", [AutoModel, AutoModelForCausalLM], ids=["without a head", "with a head"])
@pytest.mark.parametrize("together", [False, True], ids=["single", "batch"])
def test_both_implementations_give_the_same_attributions(tmp_path: Path, kind: type[AutoModel], together: bool) -> None:
    directory = save_tiny_model(tmp_path, "qwen2")
    ours = AttentionModel.from_pretrained(
        ModelOptions(model=str(directory), device="cpu"), method=MethodOptions(top_k=2)
    )
    theirs = TwoStage(kind.from_pretrained(directory).eval(), layer=ours.layer)
    rows, counts = [ours.encode(one) for one in RECORDS], [len(one.passages) for one in RECORDS]
    expected = ours.attribute(rows, counts)
    if together:
        found = theirs.attribute(rows, counts, top_k=2)
    else:
        found = [theirs.attribute([row], [count], top_k=2)[0] for row, count in zip(rows, counts, strict=True)]
    for one, other in zip(found, expected, strict=True):
        assert isinstance(other, TokenAttribution)
        np.testing.assert_array_equal(one.top_columns, other.top_columns)
        np.testing.assert_allclose(one.top_scores, other.top_scores, atol=1e-5)
        np.testing.assert_allclose(one.passage_mass, other.passage_mass, atol=1e-5)
        np.testing.assert_allclose(one.sink_mass, other.sink_mass, atol=1e-5)

"""Both layouts of a batch give the same attention, and prompts in common are computed once."""

from __future__ import annotations

from copy import copy
from functools import cache
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.attribution.tiny_models import CONFIGS, save_tiny_model
from transformers import masking_utils

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import RowLayout, choose_layout
from attribeam.attribution.attention.reduction import Capture
from attribeam.attribution.options import MethodOptions, ModelOptions
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import Passage, QARecord, RowSource

TOLERANCE = 1e-5
EVERYTHING = 10_000
PADDED_ONLY = {"llama4", "qwen3_next", "falcon_h1", "roberta"}
SHARING = ["llama", "mistral", "gemma2", "gemma3", "gpt_oss", "gpt2", "cohere2", "phi3", "bert"]


def record(passages: list[str], answer: str) -> QARecord:
    parts = tuple(Passage(text=text) for text in passages)
    return QARecord("r", "Who kept the lamp?", parts, answer, RowSource("log.parquet", 0))


ONE = ["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."]
OTHER = ["The lamp was seen from twelve miles away."]
RECORDS = [
    record(ONE, "Ada Thorne lit the lamp."),
    record(OTHER, "It was seen from afar."),
    record(ONE, "In 1874 the lighthouse was built by Ada Thorne, and the keeper of its lamp lived in the tower."),
    record(OTHER, "Twelve miles."),
    record(ONE, "Nobody says."),
]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: save_tiny_model(tmp_path_factory.mktemp(kind), kind) for kind in CONFIGS}


@cache
def load(directory: Path) -> AttentionModel:
    options = ModelOptions(model=str(directory), device="cpu", token_budget=EVERYTHING)
    return AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING))


def similarities(model: AttentionModel, rows: list[EncodedRow]) -> list[np.ndarray]:
    found = []
    for tokens in model.attribute(rows, [2] * len(rows)):
        assert isinstance(tokens, TokenAttribution)
        similarity = np.zeros(tokens.top_scores.shape, dtype=np.float32)
        np.put_along_axis(similarity, tokens.top_columns.astype(np.int64), tokens.top_scores, axis=1)
        found.append(similarity)
    return found


def assert_close(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", CONFIGS)
def test_padded_rows_have_the_attention_of_the_chosen_layout(directories: dict[str, Path], kind: str) -> None:
    model = load(directories[kind])
    assert model.layout is (RowLayout.PADDED if kind in PADDED_ONLY else RowLayout.END_TO_END)
    padded = copy(model)
    padded.layout = RowLayout.PADDED
    rows = [model.encode(one) for one in RECORDS]
    assert_close(similarities(model, rows), similarities(padded, rows))


@pytest.mark.parametrize("kind", SHARING)
def test_rows_of_one_prompt_have_the_attention_that_they_have_alone(directories: dict[str, Path], kind: str) -> None:
    model = load(directories[kind])
    rows = [model.encode(one) for one in RECORDS]
    alone = [similarity for row in rows for similarity in similarities(model, [row])]
    assert_close(similarities(model, rows), alone)


def test_prompt_in_common_is_computed_once(directories: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(directories["llama"])
    rows = [model.encode(one) for one in RECORDS]
    forward = model.network.forward
    sizes: list[int] = []

    def counted(*, input_ids: torch.Tensor, **options: object) -> object:
        sizes.append(input_ids.numel())
        return forward(input_ids=input_ids, **options)

    monkeypatch.setattr(model.network, "forward", counted)
    model.attribute(rows, [2] * len(rows))
    own = [len(row.token_ids) for row in rows]
    saved = [in_common(rows[0], row) for row in (rows[2], rows[4])] + [in_common(rows[1], rows[3])]
    assert all(2 * one > row.prompt_length for one, row in zip(saved, [rows[2], rows[4], rows[3]], strict=True))
    assert sizes == [sum(own) - sum(saved)]


def in_common(first: EncodedRow, second: EncodedRow) -> int:
    pairs = zip(first.token_ids, second.token_ids, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


@pytest.mark.parametrize("error", [AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError])
def test_model_whose_code_fails_on_rows_end_to_end_gets_padded_rows(
    directories: dict[str, Path], error: type[Exception]
) -> None:
    def fails() -> Capture:
        raise error("its code wants one row below the other")

    network = load(directories["llama"]).network
    layout = choose_layout(network, ["full_attention"], padded=fails, end_to_end=fails)
    assert layout is RowLayout.PADDED


def test_memory_that_runs_out_end_to_end_is_no_reason_to_pad(directories: dict[str, Path]) -> None:
    def fails() -> Capture:
        raise torch.OutOfMemoryError("out of memory")

    network = load(directories["llama"]).network
    with pytest.raises(torch.OutOfMemoryError):
        choose_layout(network, ["full_attention"], padded=fails, end_to_end=fails)


@pytest.mark.parametrize("kind", ["llama", "gemma3", "bert", "modernbert"])
def test_transformers_does_not_look_for_rows_in_the_positions(
    directories: dict[str, Path], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Looking means that the host waits for a GPU before it launches a pass."""

    def fail(_: torch.Tensor) -> None:
        pytest.fail("the positions were looked into")

    model = load(directories[kind])
    assert model.layout is RowLayout.END_TO_END
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", fail)
    similarities(model, [model.encode(one) for one in RECORDS])

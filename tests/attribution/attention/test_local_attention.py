"""Rows laid end to end through an encoder's local layers, against the same rows on their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.attribution.tiny_models import save_tiny_encoder
from transformers import AutoModel

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.end_to_end_attention import local_attention
from attribeam.attribution.attention.end_to_end_rows import EndToEndRows, current_rows, rows_end_to_end
from attribeam.attribution.options import MethodOptions, ModelOptions, SoftmaxOver
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import Passage, QARecord, Reason, RowFault, RowSource

LOCAL, FULL = "sliding_attention", "full_attention"
CPU = torch.device("cpu")
RECORDS = [
    QARecord("r", "Who?", tuple(map(Passage, passages)), answer, RowSource("log.parquet", 0))
    for passages, answer in [
        (
            ["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."] * 3,
            "Ada Thorne lit the lamp.",
        ),
        (["A short one."], "Yes."),
        (["The lamp was seen from twelve miles away."] * 2, "Twelve miles away, in the tower at Brigg Point."),
    ]
]


def attend_with_a_mask(states: list[torch.Tensor], row_of: torch.Tensor, window: int, scaling: float) -> torch.Tensor:
    """The same by all pairs of tokens: [1, tokens, heads, size]."""
    query, key, value = states
    places = torch.arange(len(row_of))
    seen = (row_of[:, None] == row_of) & ((places[:, None] - places).abs() <= window)
    weights = (query @ key.transpose(2, 3) * scaling).masked_fill(~seen, float("-inf")).softmax(-1)
    return (weights @ value).transpose(1, 2)


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(1, 25), min_size=1, max_size=5), window=st.integers(1, 9), seed=st.integers(0, 99))
def test_local_attention_is_attention_under_the_band_of_its_row(lengths: list[int], window: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    states = [torch.randn(1, 2, sum(lengths), 4, generator=generator) for _ in range(3)]
    rows = EndToEndRows.of_lengths(lengths, CPU)
    found = local_attention(*states, rows=rows, window=window, scaling=0.7)
    torch.testing.assert_close(found, attend_with_a_mask(states, rows.row_of, window, 0.7), atol=1e-5, rtol=1e-4)


def test_positions_begin_anew_with_each_row() -> None:
    rows = EndToEndRows.of_lengths([2, 3], CPU)
    assert rows.positions.tolist() == [0, 1, 0, 1, 2]
    assert rows.starts == (0, 2, 5)


def test_rows_are_known_inside_the_block_only() -> None:
    rows = EndToEndRows.of_lengths([1], CPU)
    with rows_end_to_end(rows):
        assert current_rows() is rows
    assert current_rows() is None


@pytest.fixture(scope="module", params=[SoftmaxOver.VISIBLE, SoftmaxOver.PROMPT])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(
        tmp_path_factory.mktemp("encoder"), layer_types=[LOCAL, LOCAL, FULL], softmax_over=request.param
    )


def load(directory: Path, token_budget: int = 2048) -> AttentionModel:
    options = ModelOptions(model=str(directory), token_budget=token_budget, device="cpu")
    return AttentionModel.from_pretrained(options, method=MethodOptions(top_k=10_000))


def eager_similarity(directory: Path, row: EncodedRow, softmax_over: SoftmaxOver) -> np.ndarray:
    """S by transformers' own eager attention: [responses, prompt_length]."""
    reference = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    with torch.no_grad():
        outputs = reference(torch.from_numpy(row.token_ids.astype(np.int64))[None], output_attentions=True)
    attention = outputs.attentions[2][0, :, row.prompt_length :, : row.prompt_length]
    if softmax_over is SoftmaxOver.PROMPT:
        attention = attention / attention.sum(-1, keepdim=True)
    return attention.mean(0).numpy()


def spread(found: TokenAttribution) -> np.ndarray:
    """S again, from all of its columns."""
    similarity = np.zeros_like(found.top_scores)
    np.put_along_axis(similarity, found.top_columns.astype(np.int64), found.top_scores, axis=1)
    return similarity


@pytest.mark.parametrize("token_budget", [1, 100_000])
def test_rows_end_to_end_have_the_attention_that_transformers_computes(directory: Path, token_budget: int) -> None:
    model = load(directory, token_budget)
    rows = [model.encode(one) for one in RECORDS]
    found = model.attribute(rows, [len(one.passages) for one in RECORDS])
    for row, one in zip(rows, found, strict=True):
        assert isinstance(one, TokenAttribution)
        expected = eager_similarity(directory, row, model.softmax_over)
        np.testing.assert_allclose(spread(one), expected, atol=1e-5)


def test_softmax_over_the_prompt_sums_to_one_on_its_columns(directory: Path) -> None:
    model = load(directory)
    (found,) = model.attribute([model.encode(RECORDS[0])], [6])
    assert isinstance(found, TokenAttribution)
    sums = found.top_scores.sum(1)
    if model.softmax_over is SoftmaxOver.PROMPT:
        np.testing.assert_allclose(sums, 1, atol=1e-5)
    else:
        assert (sums < 0.999).all()


def test_row_with_nan_leaves_its_neighbours_within_the_window_as_they_are(tmp_path: Path) -> None:
    model = load(save_tiny_encoder(tmp_path, layer_types=[LOCAL, LOCAL, FULL]))
    poison, good = model.encode(RECORDS[1]), model.encode(RECORDS[2])
    unused = next(token for token in range(399, 0, -1) if token not in poison.token_ids and token not in good.token_ids)
    poison.token_ids[-1] = unused
    (expected,) = model.attribute([good], [2])
    with torch.no_grad():
        model.network.get_input_embeddings().weight[unused] = float("nan")
    fault, found = model.attribute([poison, good], [1, 2])
    assert isinstance(fault, RowFault)
    assert fault.reason is Reason.NON_FINITE_ATTENTION
    assert isinstance(found, TokenAttribution)
    assert isinstance(expected, TokenAttribution)
    np.testing.assert_allclose(spread(found), spread(expected), atol=1e-6)


def test_encoder_with_full_attention_below_is_as_exact(tmp_path: Path) -> None:
    directory = save_tiny_encoder(tmp_path, layer_types=[FULL, LOCAL, FULL])
    model = load(directory)
    rows = [model.encode(one) for one in RECORDS]
    for row, one in zip(rows, model.attribute(rows, [6, 1, 2]), strict=True):
        assert isinstance(one, TokenAttribution)
        np.testing.assert_allclose(spread(one), eager_similarity(directory, row, model.softmax_over), atol=1e-5)


def test_provenance_says_what_the_softmax_runs_over(directory: Path) -> None:
    model = load(directory)
    settings_file = json.loads((directory / "attribution_config.json").read_text(encoding="utf-8"))
    assert model.provenance()["softmax_over"] == settings_file["softmax_over"]

"""Our capture against transformers' own eager attention: every architecture of one table, every kind of its layers.

Whatever the model's precision, the captured softmax is that of float32. A bias that the model computes from
positions counts in the captured layer and in those below.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests.attribution.tiny_models import CONFIGS, DECODERS, ENCODERS, save_tiny_model
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.capture import capture_attention, capturing, observing
from attribeam.attribution.attention.end_to_end_rows import EndToEndRows, rows_end_to_end
from attribeam.attribution.attention.reduction import Capture, RowAttention, RowRequest
from attribeam.attribution.models.layer_choice import choose_layer, layer_types
from attribeam.attribution.options import MethodOptions, ModelOptions, QueryPosition
from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution
from attribeam.schemas import Passage, QARecord, RowSource

TOLERANCE = 1e-5
EVERYTHING = 10_000


def record(passages: list[str], answer: str) -> QARecord:
    parts = tuple(Passage(text=text, title=f"Part {index}") for index, text in enumerate(passages))
    return QARecord("r", "Who kept the lamp?", parts, answer, RowSource("log.parquet", 0))


RECORDS = [
    record(["The keeper lived in the tower.", "Ada Thorne built the lighthouse in 1874."], "Ada Thorne lit the lamp."),
    record(["A short one."], "Yes."),
    record(["The lamp was seen from twelve miles away."] * 3, "Twelve miles away, in the tower at Brigg Point."),
]
ANSWERS = ["It was Ada Thorne.", "Ada Thorne lit the lamp.", "A keeper in the tower."]
BATCHES = {
    "single": (RECORDS, 1),
    "padded": (RECORDS, EVERYTHING),
    "of equal length": (RECORDS[:1] * 2, EVERYTHING),
    "of one prompt": ([replace(RECORDS[2], answer=answer) for answer in ANSWERS], EVERYTHING),
}


@dataclass(frozen=True)
class Case:
    """One layer of one model, looked at from one position."""

    kind: str
    layer: int | None
    position: QueryPosition

    def __str__(self) -> str:
        return f"{self.kind}-{self.layer or 'default'}-{self.position}"


def windowed_layer(kind: str) -> int | None:
    """The last layer with a window, sliding or not, in a model that has full ones as well."""
    kinds = layer_types(CONFIGS[kind])
    windows = [index + 1 for index, one in enumerate(kinds) if one in ("sliding_attention", "chunked_attention")]
    return windows[-1] if windows and len(windows) < len(kinds) else None


CASES = [
    Case(kind, layer, position)
    for kind in CONFIGS
    for layer in dict.fromkeys([None, windowed_layer(kind)])
    for position in (QueryPosition if kind in DECODERS else [QueryPosition.SELF])
]
OWN_POSITION = [case for case in CASES if case.position is QueryPosition.PREDICTING or case.kind in ENCODERS]
TRIALS = [(case, "single") for case in CASES] + [(case, batch) for case in OWN_POSITION for batch in [*BATCHES][1:]]


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: save_tiny_model(tmp_path_factory.mktemp(kind), kind) for kind in CONFIGS}


@cache
def load(directory: Path, case: Case) -> AttentionModel:
    options = ModelOptions(model=str(directory), layer=case.layer, query_position=case.position, device="cpu")
    return AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING))


@cache
def eager_model(directory: Path) -> PreTrainedModel:
    return AutoModel.from_pretrained(directory, attn_implementation="eager").eval()


def eager_similarity(directory: Path, model: AttentionModel, row: EncodedRow) -> npt.NDArray[np.float32]:
    """S by transformers' own means, over the whole model: [responses, prompt_length]."""
    reference = eager_model(directory)
    with torch.no_grad():
        outputs = reference(torch.from_numpy(row.token_ids.astype(np.int64))[None], output_attentions=True)
    without_attention = layer_types(reference.config)[: model.layer].count("linear_attention")
    attention = outputs.attentions[model.layer - 1 - without_attention][0].mean(0).numpy()
    shift = 1 if model.query_position is QueryPosition.PREDICTING else 0
    similarity: npt.NDArray[np.float32] = attention[row.prompt_length - shift : len(row.token_ids) - shift]
    return similarity[:, : row.prompt_length]


def full_similarity(tokens: TokenAttribution) -> npt.NDArray[np.float32]:
    """S put together again from a top-k that kept every column."""
    similarity = np.zeros(tokens.top_scores.shape, dtype=np.float32)
    np.put_along_axis(similarity, tokens.top_columns.astype(np.int64), tokens.top_scores, axis=1)
    return similarity


@pytest.mark.parametrize(("case", "batch"), TRIALS, ids=str)
def test_similarity_is_that_of_eager_attention(directories: dict[str, Path], case: Case, batch: str) -> None:
    records, token_budget = BATCHES[batch]
    directory = directories[case.kind]
    model = copy(load(directory, case))
    model.token_budget = token_budget
    rows = [model.encode(one) for one in records]
    found = model.attribute(rows, [len(one.passages) for one in records])
    for row, tokens in zip(rows, found, strict=True):
        expected = eager_similarity(directory, model, row)
        assert isinstance(tokens, TokenAttribution)
        np.testing.assert_allclose(full_similarity(tokens), expected, atol=TOLERANCE, rtol=0)
        for passage in range(tokens.passage_mass.shape[1]):
            mass = expected[:, row.column_passage == passage].sum(1)
            np.testing.assert_allclose(tokens.passage_mass[:, passage], mass, atol=TOLERANCE, rtol=0)
        outside = expected[:, row.column_passage < 0].sum(1)
        np.testing.assert_allclose(tokens.sink_mass, outside, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", CONFIGS)
def test_decoders_look_from_the_predicting_position_and_encoders_from_their_own(
    directories: dict[str, Path], kind: str
) -> None:
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directories[kind]), device="cpu"))
    assert model.query_position is (QueryPosition.SELF if kind in ENCODERS else QueryPosition.PREDICTING)
    assert model.layer == choose_layer(CONFIGS[kind], None).layer


RECORDING = "recording_of_queries_and_keys"
KINDS = ["llama", "gemma3", "gpt2", "gpt_neox", "phi3", "bert"]
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
ROUGHEST = {"bfloat16": 1e-4, "float16": 1e-5}
ROUNDING = {"bfloat16": 2e-2, "float16": 2e-3}

recorded: list[tuple[torch.Tensor, torch.Tensor, float]] = []


def record_and_attend(
    module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, *rest: Any, scaling: float, **options: Any
) -> tuple[torch.Tensor, None]:
    recorded.append((query[0], key[0], scaling))
    return sdpa_attention_forward(module, query, key, *rest, scaling=scaling, **options)


ALL_ATTENTION_FUNCTIONS.register(RECORDING, record_and_attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(RECORDING, sdpa_mask)


@pytest.fixture(scope="module", params=KINDS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)


def queries_and_keys(directory: Path, row: EncodedRow, layer: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """What the model itself, in its own precision, brings to the softmax of a layer: [heads, tokens, size], scaling."""
    model = AutoModel.from_pretrained(directory, dtype=dtype, attn_implementation=RECORDING).eval()
    recorded.clear()
    with torch.inference_mode():
        model(torch.from_numpy(row.token_ids.astype(np.int64))[None])
    query, key, scaling = recorded[layer - 1]
    assert query.dtype == key.dtype == dtype
    return query, key.repeat_interleave(len(query) // len(key), dim=0), torch.tensor(scaling)


def observed_queries_and_keys(model: AttentionModel, row: EncodedRow) -> tuple[torch.Tensor, ...]:
    """What our own pass brings to the softmax of layer L*: [heads, tokens, size], scaling."""
    seen: list[RowAttention] = []
    with observing(lambda layer, attention: seen.append(attention) if layer == model.layer - 1 else None):
        model.attribute([row], [3])
    (attention,) = seen
    query, key = attention.query, attention.key
    return query, key.repeat_interleave(len(query) // len(key), dim=0), torch.tensor(attention.rule.scaling)


def softmax_in(dtype: torch.dtype, parts: tuple[torch.Tensor, ...], *, causal: bool) -> torch.Tensor:
    """The attention of one row with everything computed in ``dtype``, mean over attention heads: [tokens, tokens]."""
    query, key, scaling = (part.to(dtype) for part in parts)
    logits = query @ key.transpose(1, 2) * scaling
    if causal:
        logits = logits.masked_fill(torch.ones_like(logits).triu(1).bool(), float("-inf"))
    return logits.softmax(-1).mean(0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_of_half_precision_models_is_that_of_float32(directory: Path, dtype: str) -> None:
    options = ModelOptions(model=str(directory), dtype=dtype, query_position=QueryPosition.SELF, device="cpu")
    model = AttentionModel.from_pretrained(options, method=MethodOptions(top_k=EVERYTHING))
    assert model.dtype == DTYPES[dtype]
    row = model.encode(RECORDS[2])
    (tokens,) = model.attribute([row], [3])
    assert isinstance(tokens, TokenAttribution)
    assert tokens.top_scores.dtype == tokens.passage_mass.dtype == np.float32
    parts = observed_queries_and_keys(model, row)
    for ours, theirs in zip(parts, queries_and_keys(directory, row, model.layer, DTYPES[dtype]), strict=True):
        assert (ours - theirs).abs().mean() <= ROUNDING[dtype] * theirs.abs().mean()
    causal = AutoConfig.from_pretrained(directory).model_type not in ENCODERS
    rows, columns = slice(row.prompt_length, None), slice(row.prompt_length)
    exact = softmax_in(torch.float64, parts, causal=causal)[rows, columns].numpy()
    rough = softmax_in(DTYPES[dtype], parts, causal=causal)[rows, columns].double().numpy()
    np.testing.assert_allclose(full_similarity(tokens), exact, atol=1e-6, rtol=0)
    assert np.abs(rough - exact).max() > ROUGHEST[dtype]


TOKENS, HEADS, SIZE = 7, 2, 4
GENERATOR = torch.Generator().manual_seed(3)
QUERY, KEY, VALUE = (torch.randn(1, HEADS, TOKENS, SIZE, generator=GENERATOR) for _ in range(3))
BIAS = torch.randn(1, HEADS, TOKENS, TOKENS, generator=GENERATOR)


class Attention(torch.nn.Module):
    layer_idx = 0
    is_causal = True


def expected_weights() -> torch.Tensor:
    """softmax(Q K^T / 2 + bias) under causality: [heads, tokens, tokens]."""
    logits = QUERY[0] @ KEY[0].transpose(1, 2) / 2 + BIAS[0]
    return logits.masked_fill(torch.ones(TOKENS, TOKENS).triu(1).bool(), float("-inf")).softmax(-1)


def test_bias_counts_in_the_captured_layer() -> None:
    request = RowRequest(torch.arange(TOKENS), TOKENS, torch.zeros(TOKENS, dtype=torch.int64), 1)
    capture = Capture(layer_index=0, top_k=TOKENS, rows=[request])
    with capturing(capture):
        capture_attention(Attention(), QUERY, KEY, VALUE, None, position_bias=BIAS)
    (row,) = capture.captured
    found = torch.zeros_like(row.top_scores).scatter_(1, row.top_columns, row.top_scores)
    np.testing.assert_allclose(found.numpy(), expected_weights().mean(0).numpy(), atol=1e-6)


def test_bias_of_rows_end_to_end_is_refused() -> None:
    rows = EndToEndRows.of_lengths([3, 4], torch.device("cpu"))
    with rows_end_to_end(rows), pytest.raises(ValueError, match="no position_bias"):
        capture_attention(Attention(), QUERY, KEY, VALUE, None, position_bias=BIAS)

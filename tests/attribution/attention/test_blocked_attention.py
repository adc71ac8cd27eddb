"""Attention in blocks of queries, for bfloat16 rows on a CPU with AVX512-BF16, and the memory of long rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.attribution.attention.test_end_to_end_attention import LargestTensor
from tests.attribution.tiny_models import VOCABULARY_SIZE, save_tiny_model

from attribeam.attribution.attention import end_to_end_rows as module
from attribeam.attribution.attention import reduction
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import RowLayout
from attribeam.attribution.attention.end_to_end_attention import row_by_row_attention
from attribeam.attribution.attention.end_to_end_rows import EndToEndRows, blocked_attention, runs_blocked
from attribeam.attribution.attention.reduction import AttentionRule, attention_weights, weighted_values
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.token_attribution import TokenAttribution
from lab.benchmarks.attribution_memory import random_row

HEADS, KEY_HEADS, SIZE, VALUE_SIZE = 6, 2, 16, 24
RULE = AttentionRule(causal=True, reach=None, scaling=0.2)


def states(heads: int, tokens: int, size: int = SIZE, *, seed: int = 0) -> torch.Tensor:
    return 2 * torch.randn(heads, tokens, size, generator=torch.Generator().manual_seed(seed)).bfloat16()


def exact(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, start: int, rule: AttentionRule) -> torch.Tensor:
    places = torch.arange(key.shape[1])
    seen = rule.visible(places[start : start + query.shape[1]], places)
    return weighted_values(attention_weights(query, key, seen, rule), value).transpose(0, 1)


@pytest.mark.parametrize("reach", [None, 1, 20, 70, 500])
@pytest.mark.parametrize(("start", "queries"), [(0, 1), (0, 64), (0, 65), (0, 200), (130, 70), (150, 3)])
def test_it_is_attention_with_the_weights_written_out(start: int, queries: int, reach: int | None) -> None:
    tokens = start + queries
    query, key = states(HEADS, queries), states(KEY_HEADS, tokens, seed=1)
    value, rule = states(KEY_HEADS, tokens, VALUE_SIZE, seed=2), replace(RULE, reach=reach)
    found = blocked_attention(query, key, value, start=start, rule=rule)
    expected = exact(query, key, value, start, rule)
    assert found.dtype == torch.bfloat16
    assert found.shape == (queries, HEADS, VALUE_SIZE)
    assert (found - expected).abs().mean() < 4e-3 * expected.abs().mean()
    assert (found - expected).abs().max() < 2e-2 * expected.abs().max()


def test_rows_that_share_a_prefix_run_in_blocks_and_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = EndToEndRows.sharing([150, 130, 140], [0, 100, 100], torch.device("cpu"))
    places = 150 + 30 + 40
    query, key, value = states(HEADS, places)[None], states(KEY_HEADS, places, seed=1)[None], states(2, places)[None]
    found = {}
    for blocked in (True, False):
        monkeypatch.setattr(module, "_has_avx512_without_amx", lambda blocked=blocked: blocked)
        found[blocked] = row_by_row_attention(query, key, value, rows=rows, rule=RULE)
    assert not found[True].equal(found[False]), "both ran the same code"
    assert (found[True] - found[False]).abs().max() < 2e-2 * found[False].abs().max()


def test_a_value_that_is_not_finite_is_not_hidden() -> None:
    count = 96  # an AMX product of keys that are no multiple of 32 reads on into the next query's weights, times zero
    query, key = states(HEADS, count), states(KEY_HEADS, count, seed=1)
    query[0, 70] = torch.nan
    value = states(KEY_HEADS, count, VALUE_SIZE, seed=2)
    found = blocked_attention(query, key, value, start=0, rule=RULE)
    assert found[70, 0].isnan().all()
    assert found[:70].isfinite().all()


@pytest.mark.parametrize(
    ("dtype", "rule", "instructions", "runs"),
    [
        (torch.bfloat16, RULE, ("avx512_bf16",), True),
        (torch.bfloat16, RULE, ("amx_bf16", "avx512_bf16"), False),
        (torch.bfloat16, RULE, (), False),
        (torch.float32, RULE, ("avx512_bf16",), False),
        (torch.bfloat16, replace(RULE, causal=False), ("avx512_bf16",), False),
        (torch.bfloat16, replace(RULE, softcap=30.0), ("avx512_bf16",), False),
    ],
)
def test_it_runs_where_torch_has_nothing_faster(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, rule: AttentionRule, instructions: tuple[str, ...], runs: bool
) -> None:
    monkeypatch.setattr(module, "half_precision_instructions", lambda: {"bfloat16": instructions})
    module._has_avx512_without_amx.cache_clear()
    try:
        assert runs_blocked(torch.zeros(1, 2, 3, 4, dtype=dtype), rule) is runs
    finally:
        module._has_avx512_without_amx.cache_clear()


PASSAGES, RESPONSES = 8, 100
SHORT, LONG = 1024, 4096


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

"""The kernels for rows of variable length are called as they want to be, tried on the CPU with stand-ins for them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch
from torch.nn.attention import varlen

from attribution.attention import varlen_attention as module
from attribution.attention.attention_rule import AttentionRule
from attribution.attention.end_to_end_rows import EndToEndRows
from attribution.attention.row_by_row_attention import row_by_row_attention
from attribution.attention.varlen_attention import runs_varlen, varlen_attention

TORCH_SIGNATURE = inspect.signature(varlen.varlen_attn)
CPU = torch.device("cpu")


def stand_in(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    starts: Sequence[torch.Tensor],
    scale: float,
    window: tuple[int, int],
    softcap: float = 0.0,
) -> torch.Tensor:
    """Attention row by row, as the kernels' documents have it: [tokens, heads, size], windows from the rows' ends."""
    group = query.shape[1] // key.shape[1]
    output = torch.empty_like(query)
    for begin, end, first, last in zip(starts[0], starts[0][1:], starts[1], starts[1][1:], strict=False):
        keys, values = (states[first:last].repeat_interleave(group, 1) for states in (key, value))
        logits = torch.einsum("qhs,khs->hqk", query[begin:end], keys) * scale
        logits = torch.tanh(logits / softcap) * softcap if softcap else logits
        ahead = torch.arange(last - first) - torch.arange(last - first - (end - begin), last - first)[:, None]
        hidden = (ahead > window[1]) & (window[1] >= 0) | (ahead < -window[0]) & (window[0] >= 0)
        weights = logits.masked_fill(hidden, float("-inf")).softmax(-1)
        output[begin:end] = torch.einsum("hqk,khs->qhs", weights, values)
    return output


def torch_kernel(*arguments: object, **named: object) -> torch.Tensor:
    """``torch.nn.attention.varlen.varlen_attn`` as it is installed here, up to what it computes."""
    given = TORCH_SIGNATURE.bind(*arguments, **named)
    given.apply_defaults()
    asked = given.arguments
    assert asked["enable_gqa"] or asked["query"].shape[1] == asked["key"].shape[1]
    starts = (asked["cu_seq_q"], asked["cu_seq_k"])
    assert [int(one.diff().max()) for one in starts] == [asked["max_q"], asked["max_k"]]
    assert {one.dtype for one in starts} == {torch.int32}
    return stand_in(asked["query"], asked["key"], asked["value"], starts, asked["scale"], asked["window_size"])


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
) -> torch.Tensor:
    """The signature of flash-attn 2.8, as far as it matters; ``causal`` hides what is ahead, whatever the window."""
    assert (dropout_p, softmax_scale is None) == (0.0, False)
    starts = (cu_seqlens_q, cu_seqlens_k)
    assert [int(one.diff().max()) for one in starts] == [max_seqlen_q, max_seqlen_k]
    window = (window_size[0], 0) if causal else window_size
    return stand_in(q, k, v, starts, softmax_scale or 0.0, window, softcap)


@pytest.fixture(params=["torch-varlen", "flash-attn"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    package = ModuleType("flash_attn")
    package.__spec__ = ModuleSpec("flash_attn", None)
    package.flash_attn_varlen_func = flash_attn_varlen_func  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    monkeypatch.setattr(varlen, "varlen_attn", torch_kernel)
    found: Callable[..., str] = lambda *_: request.param  # noqa: E731
    monkeypatch.setattr(module, "varlen_kernel", found)
    return str(request.param)


RULES = [
    *(AttentionRule(causal=causal, reach=reach, scaling=0.3) for causal in (True, False) for reach in (None, 4, 70)),
    AttentionRule(causal=True, reach=5, scaling=0.3, softcap=2.0),
]

CASES = [*((rule, (0, 0, 0)) for rule in RULES), *((rule, (0, 25, 28)) for rule in RULES if rule.causal)]
"""Only causal rows share a prefix."""


@pytest.mark.parametrize(("rule", "shared"), CASES, ids=str)
@pytest.mark.parametrize("heads", [(4, 4), (4, 2)], ids=["all heads", "grouped"])
def test_kernels_are_asked_for_the_attention_of_each_row(
    kernel: str, rule: AttentionRule, shared: Sequence[int], heads: tuple[int, int]
) -> None:
    rows = EndToEndRows.sharing([30, 29, 50], shared, CPU)
    torch.manual_seed(1)
    query, key, value = (torch.randn(1, count, rows.token_count, 16) for count in (heads[0], heads[1], heads[1]))
    if rule.softcap is not None and kernel == "torch-varlen":
        assert not runs_varlen(query, value, rule)
        return
    assert runs_varlen(query, value, rule)
    found = varlen_attention(query, key, value, rows=rows, rule=rule)
    torch.testing.assert_close(found, row_by_row_attention(query, key, value, rows=rows, rule=rule))


def test_heads_that_no_kernel_takes_are_left_to_others(kernel: str) -> None:
    rule = AttentionRule(causal=True, reach=None, scaling=1.0)
    for size, fits in ((256, True), (264, False), (12, False)):
        states = torch.zeros(1, 1, 1, size)
        assert runs_varlen(states, states, rule) is fits, kernel
    assert not runs_varlen(torch.zeros(1, 1, 1, 64), torch.zeros(1, 1, 1, 32), rule)
    states = torch.zeros(1, 1, 1, 64)
    assert not runs_varlen(states, states, AttentionRule(causal=True, reach=None, scaling=1.0, sinks=torch.zeros(1)))

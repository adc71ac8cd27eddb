"""Attention of rows laid end to end, with and without a prefix in common, against all pairs of tokens and a mask.

The kernels for rows of variable length are tried on the CPU with stand-ins: they are called as they want to be.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import varlen
from torch.utils._python_dispatch import TorchDispatchMode

from attribeam.attribution.attention import end_to_end_attention as attention_module
from attribeam.attribution.attention.end_to_end_attention import (
    FLASH_ATTN,
    TORCH_VARLEN,
    end_to_end_attention,
    row_by_row_attention,
    runs_varlen,
    varlen_attention,
    varlen_kernels,
)
from attribeam.attribution.attention.end_to_end_rows import EndToEndRows, RowPlaces
from attribeam.attribution.attention.plain_attention import AttentionRule

CPU = torch.device("cpu")
ATTENTION_HEADS, KEY_HEADS, SIZE = 4, 2, 8


@st.composite
def packed_rows(draw: st.DrawFn) -> EndToEndRows:
    """Groups of rows: one whole row, and others that share a part of it."""
    lengths, shared = [], []
    for _ in range(draw(st.integers(1, 3))):
        lengths.append(draw(st.integers(1, 20)))
        shared.append(0)
        for _ in range(draw(st.integers(0, 3))):
            shared.append(draw(st.integers(1, lengths[len(lengths) - 1 - _])))
            lengths.append(shared[-1] + draw(st.integers(1, 12)))
    return EndToEndRows.sharing(lengths, shared, CPU)


rules = st.builds(
    AttentionRule,
    causal=st.just(True),
    reach=st.one_of(st.none(), st.integers(0, 25)),
    scaling=st.just(0.7),
    softcap=st.sampled_from([None, 1.5]),
    sinks=st.sampled_from([None, torch.tensor([0.3, -1.0, 2.0, 0.0])]),
)


def states(places: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Query, key and value of a sequence."""
    generator = torch.Generator().manual_seed(seed)
    heads = (ATTENTION_HEADS, KEY_HEADS, KEY_HEADS)
    query, key, value = (torch.randn(1, count, places, SIZE, generator=generator) for count in heads)
    return query, key, value


def places_of(one: RowPlaces) -> list[int]:
    return [*range(one.prefix_start, one.prefix_end), *range(one.start, one.end)]


def attend_by_the_definition(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    """Every query by itself: [1, places, attention heads, size]."""
    output = torch.empty(1, query.shape[2], ATTENTION_HEADS, SIZE)
    group = ATTENTION_HEADS // KEY_HEADS
    for one in rows.places:
        places = places_of(one)
        for position in range(one.prefix_length, len(places)):
            seen = [
                place
                for other, place in enumerate(places)
                if (other <= position or not rule.causal)
                and (rule.reach is None or abs(other - position) <= rule.reach)
            ]
            for head in range(ATTENTION_HEADS):
                logits = key[0, head // group, seen] @ query[0, head, places[position]] * rule.scaling
                if rule.softcap is not None:
                    logits = rule.softcap * torch.tanh(logits / rule.softcap)
                if rule.sinks is not None:
                    logits = torch.cat([logits, rule.sinks[head : head + 1]])
                weights = logits.softmax(0)[: len(seen)]
                output[0, places[position], head] = weights @ value[0, head // group, seen]
    return output


@settings(max_examples=25, deadline=None)
@given(rows=packed_rows(), rule=rules, seed=st.integers(0, 99))
def test_causal_attention_is_that_of_its_definition(rows: EndToEndRows, rule: AttentionRule, seed: int) -> None:
    query, key, value = states(rows.token_count, seed)
    found = end_to_end_attention(query, key, value, rows=rows, rule=rule)
    torch.testing.assert_close(found, attend_by_the_definition(query, key, value, rows, rule), atol=1e-5, rtol=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    reach=st.one_of(st.none(), st.integers(0, 12)),
    softcap=st.sampled_from([None, 1.5]),
)
def test_attention_to_both_sides_is_that_of_its_definition(
    lengths: list[int], reach: int | None, softcap: float | None
) -> None:
    rows = EndToEndRows.of_lengths(lengths, CPU)
    rule = AttentionRule(causal=False, reach=reach, scaling=0.7, softcap=softcap)
    query, key, value = states(rows.token_count, 5)
    found = end_to_end_attention(query, key, value, rows=rows, rule=rule)
    torch.testing.assert_close(found, attend_by_the_definition(query, key, value, rows, rule), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("reach", [None, 40, 300])
def test_blocks_of_queries_change_nothing(
    monkeypatch: pytest.MonkeyPatch, reach: int | None, softcap: float | None
) -> None:
    rows = EndToEndRows.sharing([200, 420, 150], [0, 120, 100], CPU)
    rule = AttentionRule(causal=True, reach=reach, scaling=0.4, softcap=softcap)
    query, key, value = states(rows.token_count, 3)
    whole = end_to_end_attention(query, key, value, rows=rows, rule=rule)
    monkeypatch.setattr(attention_module, "_LARGEST_MASK", 64 * 64)
    monkeypatch.setattr(attention_module, "MAX_WEIGHTS", 4 * 420 * 7)
    in_blocks = end_to_end_attention(query, key, value, rows=rows, rule=rule)
    torch.testing.assert_close(in_blocks, whole, atol=1e-5, rtol=1e-4)


@given(packed_rows())
def test_every_place_is_one_rows_own(rows: EndToEndRows) -> None:
    own = [place for one in rows.places for place in range(one.start, one.end)]
    assert own == list(range(rows.token_count))


@given(packed_rows())
def test_positions_go_on_behind_the_prefix(rows: EndToEndRows) -> None:
    positions = rows.positions.tolist()
    for one in rows.places:
        assert positions[one.start : one.end] == list(range(one.prefix_length, len(one)))


@given(packed_rows(), st.data())
def test_states_of_a_row_are_those_of_its_places(rows: EndToEndRows, data: st.DataObject) -> None:
    sequence = torch.arange(rows.token_count)[None, :, None]
    one = data.draw(st.sampled_from(rows.places))
    start = data.draw(st.integers(0, len(one) - 1))
    end = data.draw(st.integers(start + 1, len(one)))
    assert one.states(sequence, start, end).flatten().tolist() == places_of(one)[start:end]


@given(packed_rows())
def test_keys_of_all_rows_come_one_row_after_the_other(rows: EndToEndRows) -> None:
    expected = [place for one in rows.places for place in places_of(one)]
    if rows.key_places is None:
        assert expected == list(range(rows.token_count))
    else:
        assert rows.key_places.tolist() == expected
    assert rows.key_starts[-1] == len(expected)
    assert rows.longest[1] == max(len(places_of(one)) for one in rows.places)


def test_row_that_shares_more_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match="should share fewer with a row of 3, was: 4"):
        EndToEndRows.sharing([3, 9], [0, 4], CPU)
    with pytest.raises(ValueError, match="a row of 3 tokens should share fewer"):
        EndToEndRows.sharing([3, 3], [0, 3], CPU)


class LargestTensor(TorchDispatchMode):
    """Remembers the size of the largest tensor that any operation puts out."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        output = function(*arguments, **(options or {}))
        for one in output if isinstance(output, tuple) else (output,):
            if isinstance(one, torch.Tensor):
                self.elements = max(self.elements, one.numel())
        return output


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("reach", [None, 50])
@pytest.mark.parametrize("shared", [0, 100])
def test_no_tensor_grows_with_the_square_of_a_rows_tokens(
    monkeypatch: pytest.MonkeyPatch, shared: int, reach: int | None, softcap: float | None
) -> None:
    monkeypatch.setattr(attention_module, "_LARGEST_MASK", 64 * 200)
    monkeypatch.setattr(attention_module, "MAX_WEIGHTS", 4 * 200 * 16)
    largest = []
    for length in (200, 800):
        rows = EndToEndRows.sharing([length, length], [0, shared], CPU)
        query, key, value = states(rows.token_count, 0)
        with torch.inference_mode(), LargestTensor() as seen:
            end_to_end_attention(query, key, value, rows=rows, rule=AttentionRule(True, reach, 0.3, softcap))
        largest.append(seen.elements / rows.token_count)
    assert largest[1] <= 1.2 * largest[0]


TORCH_SIGNATURE = inspect.signature(varlen.varlen_attn)


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
    found: Callable[..., tuple[str, ...]] = lambda *_: (request.param,)  # noqa: E731
    monkeypatch.setattr(attention_module, "varlen_kernels", found)
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


@pytest.fixture
def gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.backends.cuda, "is_flash_attention_available", lambda: True)
    varlen_kernels.cache_clear()
    yield
    varlen_kernels.cache_clear()


@pytest.mark.usefixtures("gpu_that_is_not_there")
@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("flash_attn.py", "raise ImportError('undefined symbol: _ZN2at4')", "undefined symbol"),
        ("flash_attn.py", "raise AttributeError('torch has no such operator')", "no such operator"),
        ("flash_attn/cute/__init__.py", "", "cannot import name 'flash_attn_varlen_func'"),
    ],
    ids=["built for another torch", "written for another torch", "another version's package"],
)
def test_flash_attn_that_cannot_be_used_is_passed_over_and_said(
    file: str,
    content: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "flash_attn", raising=False)
    assert varlen_kernels(0, "cuda", torch.bfloat16) == (TORCH_VARLEN,)
    assert told in caplog.text


@pytest.mark.usefixtures("gpu_that_is_not_there")
def test_kernels_take_half_precision_only(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("flash_attn")
    package.__spec__ = ModuleSpec("flash_attn", None)
    package.flash_attn_varlen_func = flash_attn_varlen_func  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    assert varlen_kernels(0, "cuda", torch.float16) == (FLASH_ATTN, TORCH_VARLEN)
    assert varlen_kernels(0, "cuda", torch.float32) == ()

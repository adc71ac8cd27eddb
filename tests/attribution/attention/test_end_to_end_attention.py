"""Attention of rows laid end to end, with and without a prefix in common, against all pairs of tokens and a mask."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from attribution.attention import row_by_row_attention as blocks
from attribution.attention.attention_rule import AttentionRule
from attribution.attention.end_to_end_attention import end_to_end_attention
from attribution.attention.end_to_end_rows import EndToEndRows, RowPlaces

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


@settings(max_examples=40, deadline=None)
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
    monkeypatch.setattr(blocks, "_MASK_SIZE", 64 * 64)
    monkeypatch.setattr(blocks, "MAX_WEIGHTS", 4 * 420 * 7)
    in_blocks = end_to_end_attention(query, key, value, rows=rows, rule=rule)
    torch.testing.assert_close(in_blocks, whole, atol=1e-5, rtol=1e-4)


@given(packed_rows())
def test_every_place_is_one_rows_own(rows: EndToEndRows) -> None:
    own = [place for one in rows.places for place in range(one.start, one.end)]
    assert own == list(range(rows.token_count))


@given(packed_rows())
def test_positions_go_on_behind_the_prefix(rows: EndToEndRows) -> None:
    positions = rows.positions().tolist()
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
    with pytest.raises(ValueError, match="should share fewer with one of 3, was: 4"):
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
    monkeypatch.setattr(blocks, "_MASK_SIZE", 64 * 200)
    monkeypatch.setattr(blocks, "MAX_WEIGHTS", 4 * 200 * 16)
    largest = []
    for length in (200, 800):
        rows = EndToEndRows.sharing([length, length], [0, shared], CPU)
        query, key, value = states(rows.token_count, 0)
        with torch.inference_mode(), LargestTensor() as seen:
            end_to_end_attention(query, key, value, rows=rows, rule=AttentionRule(True, reach, 0.3, softcap))
        largest.append(seen.elements / rows.token_count)
    assert largest[1] <= 1.2 * largest[0]

"""Rows laid end to end in one sequence, and attention over them in blocks of queries.

There is no padding, and each shared prompt stands only once. A row consists of a prefix, which it may share with an
earlier row, and of its own places. The responses to one prompt follow one another; each sees the prompt and itself, and
its positions continue where the prompt ends.

torch's fused kernel computes bfloat16 attention on a CPU without AMX no faster than float32. Here, the products of
queries and keys and the softmax are float32, as in that kernel, and only the weights are rounded to bfloat16, for the
product with the values, which AVX512-BF16 computes at twice the speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from attribeam.attribution.attention.reduction import AttentionRule, to_device
from attribeam.attribution.models.loading import half_precision_instructions


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """A row's half-open ranges in the sequence: its prefix, empty if it shares none, and its own places."""

    prefix_start: int
    prefix_end: int
    start: int
    end: int

    @property
    def prefix_length(self) -> int:
        """Tokens taken from another row; also the position of this row's first own token."""
        return self.prefix_end - self.prefix_start

    def __len__(self) -> int:
        return self.prefix_length + self.end - self.start

    def without_context(self, count: int) -> RowPlaces:
        """The row with ``count`` more tokens of its prefix taken from the other row, instead of its own first ones."""
        prefix_end, start = self.prefix_end + count, self.start + count
        return replace(self, prefix_end=prefix_end, start=start) if self.prefix_length else self

    def states(self, states: torch.Tensor, start: int = 0, end: int | None = None) -> torch.Tensor:
        """The row's positions [start, end) from [..., places, size]; a view if the row shares no prefix."""
        end = len(self) if end is None else end
        border = self.prefix_length
        own = states[..., self.start + max(start - border, 0) : self.start + end - border, :]
        if start >= border:
            return own
        prefix = states[..., self.prefix_start + start : self.prefix_start + min(end, border), :]
        return torch.cat([prefix, own], dim=-2) if end > border else prefix


class EndToEndRows:
    """The rows of one sequence, in order; values derived from them are computed once for all layers.

    Attributes:
        places: where each row lies; the rows' own places follow one another without gaps.
        device: where the tensors are.
    """

    def __init__(self, places: Sequence[RowPlaces], device: torch.device) -> None:
        self.places = tuple(places)
        self.device = device
        self.local_masks: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    @classmethod
    def of_lengths(cls, lengths: Sequence[int], device: torch.device) -> EndToEndRows:
        """Rows of ``lengths`` tokens, in this order, that share nothing."""
        return cls.sharing(lengths, [0] * len(lengths), device)

    @classmethod
    def sharing(cls, lengths: Sequence[int], shared: Sequence[int], device: torch.device) -> EndToEndRows:
        """Rows of ``lengths`` tokens, the first ``shared`` of which belong to the last row that shares none.

        Raises:
            ValueError: if a row shares all of its tokens, or more than that row has.
        """
        places: list[RowPlaces] = []
        whole, end = RowPlaces(0, 0, 0, 0), 0
        for length, prefix in zip(lengths, shared, strict=True):
            if (prefix and not prefix < length) or prefix > len(whole):
                raise ValueError(
                    f"a row of {length} tokens should share fewer with a row of {len(whole)}, was: {prefix}"
                )
            one = RowPlaces(whole.start, whole.start + prefix, end, end + length - prefix)
            places.append(one)
            whole, end = one if not prefix else whole, one.end
        return cls(places, device)

    @property
    def token_count(self) -> int:
        """Length of the sequence."""
        return self.places[-1].end

    @property
    def shares(self) -> bool:
        """Whether any row shares the prefix of another."""
        return any(one.prefix_length for one in self.places)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each row's own places start, followed by the end of the last row."""
        return (*(one.start for one in self.places), self.token_count)

    @cached_property
    def row_of(self) -> torch.Tensor:
        """The row of each place: int64 [places]."""
        own = torch.tensor([one.end - one.start for one in self.places])
        return to_device(torch.arange(len(own)).repeat_interleave(own), self.device)

    @cached_property
    def positions(self) -> torch.Tensor:
        """Each token's position in its own row: int64 [places]."""
        own = [torch.arange(one.prefix_length, len(one)) for one in self.places]
        return to_device(torch.cat(own), self.device)

    @cached_property
    def query_starts(self) -> torch.Tensor:
        """``starts`` as variable-length kernels expect it: int32 [rows + 1]."""
        return to_device(torch.tensor(self.starts, dtype=torch.int32), self.device)

    @cached_property
    def key_starts(self) -> torch.Tensor:
        """Where each row starts in ``key_places``: int32 [rows + 1]."""
        ends = accumulate(map(len, self.places), initial=0)
        return to_device(torch.tensor(list(ends), dtype=torch.int32), self.device)

    @cached_property
    def key_places(self) -> torch.Tensor | None:
        """The places of every row, prefix first: int64 [tokens of all rows]; None if no row shares a prefix."""
        if not self.shares:
            return None
        parts = [
            torch.arange(start, end)
            for one in self.places
            for start, end in ((one.prefix_start, one.prefix_end), (one.start, one.end))
        ]
        return to_device(torch.cat(parts), self.device)

    @cached_property
    def longest(self) -> tuple[int, int]:
        """The most own places of any row, and the most tokens of any row."""
        return max(one.end - one.start for one in self.places), max(map(len, self.places))


_rows: ContextVar[EndToEndRows | None] = ContextVar("attribeam_end_to_end_rows", default=None)


@contextmanager
def rows_end_to_end(rows: EndToEndRows) -> Iterator[None]:
    """Inside, a model's forward pass over one sequence treats it as these rows; no row sees another's own places."""
    token = _rows.set(rows)
    try:
        yield
    finally:
        _rows.reset(token)


def current_rows() -> EndToEndRows | None:
    """The rows of the current forward pass; None if they are padded."""
    return _rows.get()


_BLOCK = 64
"""Queries per block: fewer make small products, more compute weights of keys that causality hides."""


def runs_blocked(query: torch.Tensor, rule: AttentionRule) -> bool:
    """Whether ``blocked_attention`` serves a layer and is faster: AVX512-BF16 without AMX, for which torch has more."""
    if query.device.type != "cpu" or query.dtype != torch.bfloat16 or rule.needs_written_out_weights:
        return False
    return rule.causal and _has_avx512_without_amx()


@cache
def _has_avx512_without_amx() -> bool:
    return half_precision_instructions().get("bfloat16") == ("avx512_bf16",)


def blocked_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, start: int, rule: AttentionRule
) -> torch.Tensor:
    """Attention of the queries at the places ``start`` and after, to keys of their row: [queries, heads, size].

    ``query`` [attention heads, queries, size]; ``key``, ``value`` [key heads, keys, size], all bfloat16.
    """
    heads, count, size = query.shape
    groups = key.shape[0]
    scaled = query.float().mul_(rule.scaling).view(groups, heads // groups, count, size)
    keys = key.float().transpose(1, 2).contiguous()
    output = torch.empty((count, heads, value.shape[-1]), dtype=query.dtype)
    room = torch.empty(heads // groups * min(_BLOCK, count) * (start + count))
    for first in range(0, count, _BLOCK):
        last = min(first + _BLOCK, count)
        seen = slice(*rule.visible_range(start + first, start + last, key.shape[1]))
        hidden = _hidden(start + first, start + last, seen, rule)
        for group in range(groups):
            queries = scaled[group, :, first:last].reshape(-1, size)
            weights = room[: len(queries) * (seen.stop - seen.start)].view(len(queries), -1)
            torch.mm(queries, keys[group, :, seen], out=weights)
            weights.view(-1, last - first, weights.shape[1])[:, :, -hidden.shape[1] :].add_(hidden)
            torch.softmax(weights, -1, out=weights)
            found = weights.to(query.dtype) @ value[group, seen]
            output[first:last, group * heads // groups : (group + 1) * heads // groups] = found.view(
                -1, last - first, value.shape[-1]
            ).transpose(0, 1)
    return output


def _hidden(first: int, last: int, seen: slice, rule: AttentionRule) -> torch.Tensor:
    """0 where a query sees a key and minus infinity elsewhere, for the last keys of ``seen``; the others all see.

    float32 [queries, keys]; without a limit of reach, only the block's own keys can be hidden.
    """
    begin = first if rule.reach is None else seen.start
    visible = rule.visible(torch.arange(first, last), torch.arange(begin, seen.stop))
    assert visible is not None
    return torch.zeros(visible.shape).masked_fill_(~visible, float("-inf"))


_CPU_BLOCK = 32
"""Queries per block on the CPU: smaller blocks add overhead, larger ones compute more keys that no query sees."""


def local_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, window: int, scaling: float
) -> torch.Tensor:
    """Attention of each token to the tokens of its row within ``window`` places: [1, tokens, heads, size].

    ``query`` [1, attention heads, tokens, size]; ``key``, ``value`` [1, key heads, tokens, size]; a row sees
    its own places only. Each block of queries runs against its own keys and those of ``window`` places on either side.
    """
    tokens = query.shape[2]
    behind = block_padding(tokens, window, query.device)
    output = padded_local_attention(
        pad(query[0], (0, 0, 0, behind)),
        pad(key[0], (0, 0, window, behind + window)),
        pad(value[0], (0, 0, window, behind + window)),
        rows=rows,
        window=window,
        scaling=scaling,
    )
    return output[None, :tokens]


def padded_local_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, window: int, scaling: float
) -> torch.Tensor:
    """``local_attention`` of states that are padded with finite values: [tokens + ``block_padding``, heads, size].

    ``query`` [attention heads, tokens + ``block_padding``, size]; ``key``, ``value`` [key heads, the same with
    ``window`` more places on either side, size].
    """
    block = _block_size(window, query.device)
    output = scaled_dot_product_attention(
        query.view(len(query), -1, block, query.shape[-1]).transpose(0, 1),
        _around_each_block(key, block, window),
        _around_each_block(value, block, window),
        attn_mask=_band_mask(rows, block, window, query.dtype),
        scale=scaling,
        enable_gqa=query.shape[0] != key.shape[0],
    )
    return output.transpose(1, 2).flatten(0, 1)


def block_padding(tokens: int, window: int, device: torch.device) -> int:
    """The number of places to add after ``tokens`` so that the last block of queries is full."""
    return -tokens % _block_size(window, device)


def _block_size(window: int, device: torch.device) -> int:
    return min(_CPU_BLOCK, window) if device.type == "cpu" else window


def _band_mask(rows: EndToEndRows, block: int, window: int, dtype: torch.dtype) -> torch.Tensor:
    """[blocks, 1, block, block + 2 * window]: 0 where a query of the block sees a key, else minus infinity."""
    if (window, dtype) not in rows.local_masks:
        rows.local_masks[window, dtype] = _new_band_mask(rows.row_of, block, window, dtype)
    return rows.local_masks[window, dtype]


def _new_band_mask(row_of: torch.Tensor, block: int, window: int, dtype: torch.dtype) -> torch.Tensor:
    """Places after the last row see each other, so that every query sees something."""
    row_of = row_of.to(torch.int32)
    behind = -len(row_of) % block
    around = block + 2 * window
    query_rows = pad(row_of, (0, behind), value=-1).view(-1, 1, block, 1)
    key_rows = pad(row_of, (window, behind + window), value=-1).unfold(0, around, block)[:, None, None]
    places = torch.arange(around, device=row_of.device)
    near = (places - places[window : window + block, None]).abs() <= window
    unseen = torch.full((), float("-inf"), dtype=dtype, device=row_of.device)
    return torch.where((query_rows == key_rows) & near, unseen.new_zeros(()), unseen)


def _around_each_block(states: torch.Tensor, block: int, window: int) -> torch.Tensor:
    """[heads, places, size] to [blocks, heads, block + 2 * window, size]: a view of each block and its surroundings."""
    return states.unfold(1, block + 2 * window, block).permute(1, 0, 3, 2)

"""Rows laid end to end in one sequence, and attention over them in the fastest way that machine and layer allow.

There is no padding, and each shared prompt stands only once. No mask over all pairs of tokens is ever built, so memory
grows linearly with the length of a row.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import accumulate

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from attribeam.attribution.attention.reduction import (
    MAX_WEIGHTS,
    AttentionRule,
    attention_weights,
    to_device,
    weighted_values,
)
from attribeam.attribution.models import half_precision_instructions


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """A row's half-open ranges in the sequence: its prefix, empty if it shares none, and its own places.

    Its positions continue where the prefix ends, and it sees no other row's own places.
    """

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

    ``places`` say where each row lies; the rows' own places follow one another without gaps.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device, *, shared: Sequence[int] | None = None) -> None:
        """Rows of ``lengths`` tokens, the first ``shared`` of which, never all, are of the last that shares none."""
        places: list[RowPlaces] = []
        whole, end = RowPlaces(0, 0, 0, 0), 0
        for length, prefix in zip(lengths, shared or [0] * len(lengths), strict=True):
            if (prefix and not prefix < length) or prefix > len(whole):
                raise ValueError(
                    f"a row of {length} tokens should share fewer with a row of {len(whole)}, was: {prefix}"
                )
            row = RowPlaces(whole.start, whole.start + prefix, end, end + length - prefix)
            places.append(row)
            whole, end = whole if prefix else row, row.end
        self.places = tuple(places)
        self.device = device
        self.local_masks: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    @property
    def token_count(self) -> int:
        """Length of the sequence."""
        return self.places[-1].end

    @cached_property
    def row_of(self) -> torch.Tensor:
        """The row of each place: int64 [places]."""
        counts = torch.tensor([row.end - row.start for row in self.places])
        return to_device(torch.arange(len(counts)).repeat_interleave(counts), self.device)

    @cached_property
    def positions(self) -> torch.Tensor:
        """Each token's position in its own row: int64 [places]."""
        return to_device(torch.cat([torch.arange(row.prefix_length, len(row)) for row in self.places]), self.device)

    @cached_property
    def starts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each row's own places start, and each row in ``key_places``, with the ends: each int32 [rows + 1]."""
        of_keys = accumulate(map(len, self.places), initial=0)
        both = [[*(row.start for row in self.places), self.token_count], [*of_keys]]
        own, keys = to_device(torch.tensor(both, dtype=torch.int32), self.device)
        return own, keys

    @cached_property
    def key_places(self) -> torch.Tensor | None:
        """The places of every row, prefix first: int64 [tokens of all rows]; None if no row shares a prefix."""
        if not any(row.prefix_length for row in self.places):
            return None
        parts = [
            torch.arange(start, end)
            for row in self.places
            for start, end in ((row.prefix_start, row.prefix_end), (row.start, row.end))
        ]
        return to_device(torch.cat(parts), self.device)

    @cached_property
    def longest(self) -> tuple[int, int]:
        """The most own places of any row, and the most tokens of any row."""
        return max(row.end - row.start for row in self.places), max(map(len, self.places))


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


def end_to_end_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    """Attention of each token to the tokens of its own row: [1, places, attention heads, size], dtype of ``query``.

    ``query`` [1, attention heads, places, size]; ``key``, ``value`` [1, key heads, places, size]. Only causal rows
    and local layers may have rows that share a prefix. On a GPU one kernel takes all rows; elsewhere local layers (of
    encoders such as ModernBERT) run in blocks of queries against the keys around them, all others row by row.
    """
    if runs_varlen(query, value, rule):
        return varlen_attention(query, key, value, rows=rows, rule=rule)
    if not rule.causal and rule.reach and not rule.needs_written_out_weights:
        return local_attention(query, key, value, rows=rows, window=rule.reach, scaling=rule.scaling)
    return row_by_row_attention(query, key, value, rows=rows, rule=rule)


_LARGEST_HEAD_SIZE = 256
_HEAD_SIZE_STEP = 8
_HALF_PRECISION = (torch.float16, torch.bfloat16)
FLASH_ATTN, TORCH_VARLEN, ROW_BY_ROW = "flash-attn", "torch-varlen", "sdpa"
"""The kernels for rows of variable length, and what runs where there is none: torch's fused attention."""


@cache
def kernel_of(device: torch.device, dtype: torch.dtype) -> str | None:
    """The best kernel for rows of variable length; None without half precision and compute capability 8.0."""
    if device.type != "cuda" or dtype not in _HALF_PRECISION or torch.cuda.get_device_capability(device) < (8, 0):
        return None
    if _can_import_flash_attn():
        return FLASH_ATTN
    return TORCH_VARLEN if torch.backends.cuda.is_flash_attention_available() else None


def _can_import_flash_attn() -> bool:
    """Whether flash-attn is installed, was built for this torch, and has the kernel: its fourth version has another."""
    if find_spec("flash_attn") is None:
        return False
    try:
        from flash_attn import flash_attn_varlen_func  # noqa: F401 - an extra, not installed on most machines
    except (ImportError, OSError, AttributeError, RuntimeError) as error:
        logging.warning("flash-attn is installed, but cannot be imported (%s); torch's own kernel is used", error)
        return False
    return True


def kernel_name(device: torch.device, dtype: torch.dtype) -> str:
    """What computes the attention below the captured layer, for a run's provenance; "sdpa" if there is no kernel."""
    kernel = kernel_of(device, dtype)
    if kernel != FLASH_ATTN:
        return kernel or ROW_BY_ROW
    try:
        return f"{FLASH_ATTN} {version(FLASH_ATTN)}"
    except PackageNotFoundError:
        return FLASH_ATTN


def runs_varlen(query: torch.Tensor, value: torch.Tensor, rule: AttentionRule) -> bool:
    """Whether a kernel for rows of variable length can run this layer."""
    kernel = kernel_of(query.device, query.dtype)
    size = query.shape[-1]
    fits = size == value.shape[-1] and size <= _LARGEST_HEAD_SIZE and size % _HEAD_SIZE_STEP == 0 and rule.sinks is None
    return fits and kernel is not None and (rule.softcap is None or kernel == FLASH_ATTN)


def varlen_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    """As ``end_to_end_attention``, by a kernel; call it only if ``runs_varlen``.

    A shared prefix is repeated for each row, among the keys and values only. The kernels' window is the number of keys
    to the left and to the right of a query, -1 for all; positions count from the ends of the rows.
    """
    queries, keys, values = (states[0].transpose(0, 1) for states in (query, key, value))
    if rows.key_places is not None:
        keys, values = keys.index_select(0, rows.key_places), values.index_select(0, rows.key_places)
    given = (queries, keys, values, *rows.starts, *rows.longest)
    reach = -1 if rule.reach is None else rule.reach
    window = (reach, 0 if rule.causal else reach)
    if kernel_of(query.device, query.dtype) == FLASH_ATTN:
        from flash_attn import flash_attn_varlen_func  # an extra, not installed on most machines

        output = flash_attn_varlen_func(
            *given,
            softmax_scale=rule.scaling,
            causal=rule.causal,
            window_size=window if rule.reach is not None else (-1, -1),
            softcap=rule.softcap or 0.0,
        )
    else:
        from torch.nn.attention.varlen import varlen_attn  # a heavy import that a CPU run does not need

        grouped = queries.shape[1] != keys.shape[1]
        output = varlen_attn(*given, scale=rule.scaling, window_size=window, enable_gqa=grouped)
    assert isinstance(output, torch.Tensor)
    return output[None]


_LARGEST_MASK = 2**21
"""Largest mask of a block, in pairs of tokens."""


def row_by_row_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    """As ``end_to_end_attention``, one row after the other."""
    _, head_count, place_count, _ = query.shape
    output = torch.empty((place_count, head_count, value.shape[-1]), dtype=query.dtype, device=query.device)
    for row in rows.places:
        keys, values = row.states(key[0]), row.states(value[0])
        if runs_blocked(query, rule):
            own = slice(row.start, row.end)
            output[own] = blocked_attention(query[0, :, own], keys, values, start=row.prefix_length, rule=rule)
            continue
        for start, end in _query_blocks(row, rule, head_count):
            places = slice(row.start + start - row.prefix_length, row.start + end - row.prefix_length)
            output[places] = _block_attention(query[0, :, places], keys, values, start, rule).transpose(0, 1)
    return output[None]


def _query_blocks(row: RowPlaces, rule: AttentionRule, head_count: int) -> Iterator[tuple[int, int]]:
    """The row's own positions in half-open blocks; a single block if neither mask nor weights are written out."""
    start, length = row.prefix_length, len(row)
    first, last = rule.visible_range(start, length, length)
    size = length
    if rule.needs_written_out_weights:
        size = max(1, MAX_WEIGHTS // (head_count * (last - first)))
    elif not _needs_no_mask(start, length, length, rule):
        size = max(64, min(512, _LARGEST_MASK // (last - first)))
    for position in range(start, length, size):
        yield position, min(position + size, length)


def _needs_no_mask(start: int, end: int, length: int, rule: AttentionRule) -> bool:
    """Whether a fused kernel can run the block without a mask: it sees everything, or is causal and a whole row."""
    if rule.reach is not None and rule.reach < length - 1:
        return False
    return start == 0 and end == length if rule.causal else True


def _block_attention(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, start: int, rule: AttentionRule
) -> torch.Tensor:
    """Attention of the queries [attention heads, block, size], which begin at ``start``, over the keys of their row."""
    end, length = start + query.shape[1], keys.shape[1]
    seen = None
    if rule.needs_written_out_weights or not _needs_no_mask(start, end, length, rule):
        first, last = rule.visible_range(start, end, length)
        positions = torch.arange(length, device=query.device)
        seen = rule.visible(positions[start:end], positions[first:last])
        keys, values = keys[:, first:last], values[:, first:last]
        if rule.needs_written_out_weights:
            return weighted_values(attention_weights(query, keys, seen, rule), values).to(query.dtype)
    causal = rule.causal and seen is None
    grouped = query.shape[0] != keys.shape[0]
    if grouped and query.is_cuda and (seen is not None or query.dtype == torch.float32):
        group = query.shape[0] // keys.shape[0]
        keys, values, grouped = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0), False
    return scaled_dot_product_attention(
        query[None], keys[None], values[None], attn_mask=seen, is_causal=causal, scale=rule.scaling, enable_gqa=grouped
    )[0]


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

    ``query`` [attention heads, queries, size]; ``key``, ``value`` [key heads, keys, size], all bfloat16. Products of
    queries and keys and the softmax are float32, as in torch's fused kernel, and only the weights are rounded to
    bfloat16, for the product with the values, which AVX512-BF16 computes at twice the speed.
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
            weighted = (weights.to(query.dtype) @ value[group, seen]).view(-1, last - first, value.shape[-1])
            output[first:last, group * heads // groups : (group + 1) * heads // groups] = weighted.transpose(0, 1)
    return output


def _hidden(first: int, last: int, seen: slice, rule: AttentionRule) -> torch.Tensor:
    """0 where a query sees a key, else minus infinity: float32 [queries, last keys]; it sees all other keys."""
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

    ``query`` [1, attention heads, tokens, size]; ``key``, ``value`` [1, key heads, tokens, size]; no row shares.
    """
    tokens = query.shape[2]
    behind = block_padding(tokens, window, query.device)
    around = (0, 0, window, behind + window)
    padded = (pad(query[0], (0, 0, 0, behind)), pad(key[0], around), pad(value[0], around))
    return padded_local_attention(*padded, rows=rows, window=window, scaling=scaling)[None, :tokens]


def padded_local_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, window: int, scaling: float
) -> torch.Tensor:
    """``local_attention`` of states that are padded with finite values: [tokens + ``block_padding``, heads, size].

    ``query`` [attention heads, tokens + ``block_padding``, size]; ``key``, ``value`` have ``window`` more on each side.
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
    """[blocks, 1, block, block + 2 * window]: 0 where a query sees a key, else minus infinity; padding sees padding."""
    if (window, dtype) not in rows.local_masks:
        row_of = rows.row_of.to(torch.int32)
        behind = -len(row_of) % block
        around = block + 2 * window
        query_rows = pad(row_of, (0, behind), value=-1).view(-1, 1, block, 1)
        key_rows = pad(row_of, (window, behind + window), value=-1).unfold(0, around, block)[:, None, None]
        keys = torch.arange(around, device=row_of.device)
        near = (keys - keys[window : window + block, None]).abs() <= window
        unseen = torch.full((), float("-inf"), dtype=dtype, device=row_of.device)
        mask = torch.where((query_rows == key_rows) & near, unseen.new_zeros(()), unseen)
        rows.local_masks[window, dtype] = mask
    return rows.local_masks[window, dtype]


def _around_each_block(states: torch.Tensor, block: int, window: int) -> torch.Tensor:
    """[heads, places, size] to [blocks, heads, block + 2 * window, size]: a view of each block and its surroundings."""
    return states.unfold(1, block + 2 * window, block).permute(1, 0, 3, 2)

"""An encoder's attention within a window, over rows laid end to end: no mask over all pairs of tokens.

Encoders such as ModernBERT have layers in which a token sees the neighbours within a window and nothing else. On
rows laid end to end their cost grows linearly with the number of tokens, however long a row is.
"""

from __future__ import annotations

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from attribution.attention.end_to_end_rows import EndToEndRows

_BLOCK = 32
"""Queries of a block on the CPU: fewer cost more for their number, more see more keys in vain."""


def local_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, window: int, scaling: float
) -> torch.Tensor:
    """Attention of every token to those of its row at most ``window`` places away: [1, tokens, heads, size].

    ``query`` [1, attention heads, tokens, size]; ``key``, ``value`` [1, key heads, tokens, size]; the rows share no
    prefix. Runs in blocks of queries against the keys of the block and of ``window`` places on both sides.
    """
    tokens = query.shape[2]
    behind = places_behind(tokens, window, query.device)
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
    """``local_attention`` of states with finite padding: [tokens and ``places_behind``, heads, size].

    ``query`` [attention heads, tokens and places behind, size]; ``key``, ``value`` [key heads, all these with
    ``window`` places on both sides, size].
    """
    block = _block_size(window, query.device)
    output = scaled_dot_product_attention(
        query.view(len(query), -1, block, query.shape[-1]).transpose(0, 1),
        _around_each_block(key, block, window),
        _around_each_block(value, block, window),
        attn_mask=_mask(rows, block, window, query.dtype),
        scale=scaling,
        enable_gqa=query.shape[0] != key.shape[0],
    )
    return output.transpose(1, 2).flatten(0, 1)


def places_behind(tokens: int, window: int, device: torch.device) -> int:
    """How many places are missing behind so many tokens for the last block of queries to be full."""
    return -tokens % _block_size(window, device)


def _block_size(window: int, device: torch.device) -> int:
    return min(_BLOCK, window) if device.type == "cpu" else window


def _mask(rows: EndToEndRows, block: int, window: int, dtype: torch.dtype) -> torch.Tensor:
    """[blocks, 1, block, block + 2 * window]: 0 where a block's query sees a key around it, else minus infinity."""
    if (window, dtype) not in rows.local_masks:
        rows.local_masks[window, dtype] = _new_mask(rows.row_of, block, window, dtype)
    return rows.local_masks[window, dtype]


def _new_mask(row_of: torch.Tensor, block: int, window: int, dtype: torch.dtype) -> torch.Tensor:
    """Places behind the last row see each other, so that no query sees nothing."""
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
    """[heads, places, size] to [blocks, heads, block + 2 * window, size], a view: blocks and what lies around."""
    return states.unfold(1, block + 2 * window, block).permute(1, 0, 3, 2)

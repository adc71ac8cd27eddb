"""An encoder's attention within a window, over rows laid end to end: no mask over all pairs of tokens.

Encoders such as ModernBERT have layers in which a token sees the neighbours within a window and nothing else. On
rows laid end to end their cost grows linearly with the number of tokens, however long a row is.
"""

from __future__ import annotations

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from attribution.attention.end_to_end_rows import EndToEndRows


def local_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, window: int, scaling: float
) -> torch.Tensor:
    """Attention of every token to those of its row at most ``window`` places away: [1, tokens, heads, size].

    ``query`` [1, attention heads, tokens, size]; ``key``, ``value`` [1, key heads, tokens, size]; the rows share no
    prefix. Runs in blocks of ``window`` queries against three blocks of keys.
    """
    tokens = query.shape[2]
    blocks = _block_count(tokens, window)
    behind = blocks * window - tokens
    queries = pad(query[0], (0, 0, 0, behind)).view(query.shape[1], blocks, window, -1).transpose(0, 1)
    output = scaled_dot_product_attention(
        queries,
        _around_each_block(key[0], window, behind),
        _around_each_block(value[0], window, behind),
        attn_mask=_mask(rows, window),
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return output.transpose(1, 2).flatten(0, 1)[None, :tokens]


def _mask(rows: EndToEndRows, window: int) -> torch.Tensor:
    """bool [blocks, 1, window, 3 * window]: whether a block's query sees a key of the three blocks around it."""
    if window not in rows.local_masks:
        rows.local_masks[window] = _new_mask(rows.row_of, window)
    return rows.local_masks[window]


def _new_mask(row_of: torch.Tensor, window: int) -> torch.Tensor:
    blocks = _block_count(len(row_of), window)
    behind = blocks * window - len(row_of)
    query_rows = pad(row_of, (0, behind), value=-1).view(blocks, window, 1)
    key_rows = pad(row_of, (window, behind + window), value=-1).unfold(0, 3 * window, window)[:, None]
    places = torch.arange(3 * window, device=row_of.device)
    near = (places[None, :] - places[window : 2 * window, None]).abs() <= window
    return ((query_rows == key_rows) & near)[:, None]


def _around_each_block(states: torch.Tensor, window: int, behind: int) -> torch.Tensor:
    """[heads, tokens, size] to [blocks, heads, 3 * window, size], a view: each block with its two neighbours."""
    padded = pad(states, (0, 0, window, behind + window))
    return padded.unfold(1, 3 * window, window).permute(1, 0, 3, 2)


def _block_count(tokens: int, window: int) -> int:
    return -(-tokens // window)

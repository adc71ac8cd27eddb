"""Attention within a window, over rows laid end to end: no padding, and no mask over all pairs of tokens.

Encoders such as ModernBERT have layers in which a token sees the neighbours within a window and nothing else. On
rows laid end to end their cost grows linearly with the number of tokens, however long a row is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch.nn.functional import pad, scaled_dot_product_attention


@dataclass(frozen=True, slots=True)
class EndToEndRows:
    """Rows that share one sequence: row r takes up the places ``starts[r]`` to ``starts[r + 1]``, half-open.

    ``row_of`` int64 [tokens] is the row of each place.
    """

    starts: tuple[int, ...]
    row_of: torch.Tensor
    _masks: dict[int, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def of_lengths(cls, lengths: Sequence[int], device: torch.device) -> EndToEndRows:
        """Rows of ``lengths`` tokens, in this order."""
        rows = torch.arange(len(lengths), device=device)
        row_of = rows.repeat_interleave(torch.tensor(lengths, device=device))
        return cls(tuple(accumulate(lengths, initial=0)), row_of)

    def positions(self) -> torch.Tensor:
        """Each token's place in its own row: int64 [tokens]."""
        starts = torch.tensor(self.starts[:-1], device=self.row_of.device)
        return torch.arange(len(self.row_of), device=self.row_of.device) - starts[self.row_of]

    def mask(self, window: int) -> torch.Tensor:
        """bool [blocks, 1, window, 3 * window]: whether a block's query sees a key of the three blocks around it."""
        if window not in self._masks:
            self._masks[window] = self._new_mask(window)
        return self._masks[window]

    def _new_mask(self, window: int) -> torch.Tensor:
        blocks = _block_count(len(self.row_of), window)
        behind = blocks * window - len(self.row_of)
        query_rows = pad(self.row_of, (0, behind), value=-1).view(blocks, window, 1)
        key_rows = pad(self.row_of, (window, behind + window), value=-1).unfold(0, 3 * window, window)[:, None]
        places = torch.arange(3 * window, device=self.row_of.device)
        near = (places[None, :] - places[window : 2 * window, None]).abs() <= window
        return ((query_rows == key_rows) & near)[:, None]


_rows: ContextVar[EndToEndRows | None] = ContextVar("attribeam_end_to_end_rows", default=None)


@contextmanager
def rows_end_to_end(rows: EndToEndRows) -> Iterator[None]:
    """Inside, a model's forward pass over one sequence is over these rows, none of which sees another."""
    token = _rows.set(rows)
    try:
        yield
    finally:
        _rows.reset(token)


def current_rows() -> EndToEndRows | None:
    """The rows of the forward pass under way, None where they are padded."""
    return _rows.get()


def local_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, window: int, scaling: float
) -> torch.Tensor:
    """Attention of every token to those of its row at most ``window`` places away: [1, tokens, heads, size].

    ``query`` [1, attention heads, tokens, size]; ``key``, ``value`` [1, key heads, tokens, size]. Runs in blocks of
    ``window`` queries against three blocks of keys.
    """
    tokens = query.shape[2]
    blocks = _block_count(tokens, window)
    behind = blocks * window - tokens
    queries = pad(query[0], (0, 0, 0, behind)).view(query.shape[1], blocks, window, -1).transpose(0, 1)
    output = scaled_dot_product_attention(
        queries,
        _around_each_block(key[0], window, behind),
        _around_each_block(value[0], window, behind),
        attn_mask=rows.mask(window),
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return output.transpose(1, 2).flatten(0, 1)[None, :tokens]


def _around_each_block(states: torch.Tensor, window: int, behind: int) -> torch.Tensor:
    """[heads, tokens, size] to [blocks, heads, 3 * window, size], a view: each block with its two neighbours."""
    padded = pad(states, (0, 0, window, behind + window))
    return padded.unfold(1, 3 * window, window).permute(1, 0, 3, 2)


def _block_count(tokens: int, window: int) -> int:
    return -(-tokens // window)

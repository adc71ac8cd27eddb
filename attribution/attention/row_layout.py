"""How the rows of a batch lie before a model, and which models take them end to end."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum

import torch
from transformers import PreTrainedModel

from attribution.attention.capture_pass import Capture
from attribution.attention.out_of_memory import is_out_of_memory
from attribution.attention.row_attention import CapturedRow

_KINDS = {"full_attention", "sliding_attention"}
_TOLERANCE = 1e-4
_ROUGH_TOLERANCE = 0.03
"""Of half precision and of quantised weights, whose sums depend on the shape of a batch."""


class RowLayout(StrEnum):
    """``END_TO_END``: one sequence without padding. ``PADDED``: one row below the other, padded on the right."""

    END_TO_END = "end_to_end"
    PADDED = "padded"


def choose_layout(
    model: PreTrainedModel, kinds: Sequence[str], *, padded: Callable[[], Capture], end_to_end: Callable[[], Capture]
) -> RowLayout:
    """``END_TO_END`` where the model takes positions, runs with flash attention in transformers, which has no mask
    either, has only layers of the ``kinds`` that look at all tokens or within a window, and gives the same attention
    for a few rows in both layouts; else ``PADDED``.

    ``padded`` and ``end_to_end`` run the same rows, every column kept. A model whose code does not take rows end to end
    may say so by any of Python's common errors, and is ``PADDED``. Errors of memory propagate.
    """
    takes_positions = "position_ids" in inspect.signature(model.forward).parameters
    if not (takes_positions and getattr(model, "_supports_flash_attn", False) and set(kinds) <= _KINDS):
        return RowLayout.PADDED
    try:
        found = end_to_end()
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        return RowLayout.PADDED
    return RowLayout.END_TO_END if captures_agree(found, padded(), model) else RowLayout.PADDED


def captures_agree(found: Capture, expected: Capture, model: PreTrainedModel) -> bool:
    """Whether two passes of the same rows, every column kept, give the same S, as far as the precision goes."""
    tolerance = _tolerance(model)
    pairs = zip(found.captured, expected.captured, strict=True)
    return all(bool((_similarity(one) - _similarity(other)).abs().max() <= tolerance) for one, other in pairs)


def _tolerance(model: PreTrainedModel) -> float:
    exact = model.dtype == torch.float32 and not getattr(model, "is_quantized", False)
    return _TOLERANCE if exact else _ROUGH_TOLERANCE


def _similarity(row: CapturedRow) -> torch.Tensor:
    """S of a row of which every column was kept: float32 [responses, prompt_length]."""
    return torch.zeros_like(row.top_scores).scatter_(1, row.top_columns, row.top_scores)

"""Taking one layer's attention out of any Hugging Face model, and ending its forward pass there.

One function, registered as an attention implementation together with a mask function, serves every architecture:
query and key arrive normed and rotated, and scaling, soft cap, sinks and mask come as arguments. In the layers below
the captured one it hands on to torch's scaled dot product attention. In that layer only the response rows are computed,
in float32, and reduced on the device to k columns, one mass a passage and one outside the passages
(``row_attention.py``). There the pass ends (``capture_pass.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from transformers.integrations.sdpa_attention import create_position_bias_mask, sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from attribution.attention.attention_rule import AttentionRule
from attribution.attention.capture_pass import show_or_end
from attribution.attention.end_to_end_attention import end_to_end_attention
from attribution.attention.end_to_end_rows import EndToEndRows, current_rows
from attribution.attention.plain_attention import plain_attention
from attribution.attention.row_attention import RowAttention

IMPLEMENTATION = "attribeam_capture"


def capture_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    position_bias: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The attention implementation: capture at the requested layer, plain attention in every other.

    ``query`` [rows, attention heads, tokens, size]; ``key``, ``value`` [rows, key heads, tokens, size];
    ``attention_mask`` None (causal, or everything where the module is not causal) or [rows, 1, tokens, tokens].
    Returns ([rows, tokens, attention heads, size], None).

    Raises:
        ValueError: if the model's attention takes numbers that are unknown here.
    """
    rows = current_rows()
    rule = _rule(module, query, end_to_end=rows is not None, **options)
    if rows is not None and position_bias is not None:
        raise ValueError("rows end to end should have no position_bias, which goes by the place in the sequence")
    if rows is not None:
        show_or_end(module, _of_rows_end_to_end(query, key, rows, rule), rule)
        return end_to_end_attention(query, key, value, rows=rows, rule=rule), None
    attention_mask = _biased(attention_mask, position_bias, query, key, rule)
    show_or_end(module, _of_padded_rows(query, key, attention_mask, rule), rule)
    if rule.is_plain:
        return plain_attention(query, key, value, attention_mask, rule), None
    output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    return output, None


def _biased(
    mask: torch.Tensor | None,
    bias: torch.Tensor | None,
    query: torch.Tensor,
    key: torch.Tensor,
    rule: AttentionRule,
) -> torch.Tensor | None:
    """The mask with a bias by positions added, where the model has one."""
    return mask if bias is None else create_position_bias_mask(bias, mask, rule.causal, query, key)


def _rule(
    module: torch.nn.Module,
    query: torch.Tensor,
    *,
    end_to_end: bool,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **options: Any,
) -> AttentionRule:
    """What a layer's module says of its attention; the window counts end to end only, padded rows have a mask.

    Raises:
        ValueError: if it takes numbers that are unknown here.
    """
    unknown = [name for name, value in options.items() if torch.is_tensor(value) and value.is_floating_point()]
    if unknown:
        raise ValueError(f"its attention takes {' and '.join(unknown)}, which this version does not know")
    return AttentionRule(
        causal=bool(options.get("is_causal", getattr(module, "is_causal", True))),
        reach=_reach(options.get("sliding_window")) if end_to_end else None,
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=softcap,
        sinks=getattr(module, "sinks", None) if s_aux is None else s_aux,
    )


def _reach(sliding_window: int | None) -> int | None:
    """How far a token sees: the interface counts the token itself as well."""
    return None if sliding_window is None else sliding_window - 1


def _of_rows_end_to_end(
    query: torch.Tensor, key: torch.Tensor, rows: EndToEndRows, rule: AttentionRule
) -> Iterator[RowAttention]:
    for one in rows.places:
        yield RowAttention(one.states(query[0]), one.states(key[0]), None, rule)


def _of_padded_rows(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, rule: AttentionRule
) -> Iterator[RowAttention]:
    masks = [None] * len(query) if mask is None else mask.expand(len(query), -1, -1, -1)
    for row, row_mask in enumerate(masks):
        yield RowAttention(query[row], key[row], row_mask, rule)


def capture_mask(*arguments: Any, **options: Any) -> torch.Tensor | None:
    """The mask of ``sdpa_mask``; None for rows that lie end to end, whose borders the attention itself keeps."""
    return None if current_rows() is not None else sdpa_mask(*arguments, **options)


ALL_ATTENTION_FUNCTIONS.register(IMPLEMENTATION, capture_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(IMPLEMENTATION, capture_mask)

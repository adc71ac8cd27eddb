"""Attention of rows laid end to end in one kernel on a GPU: flash-attn's where installed, else torch's."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

from attribution.attention.attention_rule import AttentionRule
from attribution.attention.end_to_end_rows import EndToEndRows

_LARGEST_SIZE = 256
_SIZE_STEP = 8
_HALF = (torch.float16, torch.bfloat16)


@lru_cache
def varlen_kernel(device_index: int | None, device_type: str, dtype: torch.dtype) -> str | None:
    """The kernel that runs rows of variable length: "flash-attn" or "torch-varlen"; None where there is none.

    Both need a GPU of compute capability 8.0 or more, and half precision.
    """
    if device_type != "cuda" or dtype not in _HALF or torch.cuda.get_device_capability(device_index) < (8, 0):
        return None
    if find_spec("flash_attn") is not None:
        return "flash-attn"
    return "torch-varlen" if torch.backends.cuda.is_flash_attention_available() else None


def kernel_of(device: torch.device, dtype: torch.dtype) -> str | None:
    """``varlen_kernel`` of a device."""
    return varlen_kernel(device.index, device.type, dtype)


def kernel_name(device: torch.device, dtype: torch.dtype) -> str:
    """What computes the attention below the captured layer, for a run's provenance; "sdpa" where no kernel is."""
    kernel = kernel_of(device, dtype)
    if kernel != "flash-attn":
        return kernel or "sdpa"
    try:
        return f"flash-attn {version('flash-attn')}"
    except PackageNotFoundError:
        return "flash-attn"


def runs_varlen(query: torch.Tensor, value: torch.Tensor, rule: AttentionRule) -> bool:
    """Whether a kernel for rows of variable length can run this layer."""
    kernel = kernel_of(query.device, query.dtype)
    size = query.shape[-1]
    fits = size == value.shape[-1] and size <= _LARGEST_SIZE and size % _SIZE_STEP == 0 and rule.sinks is None
    return fits and kernel is not None and (rule.softcap is None or kernel == "flash-attn")


def varlen_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    """Attention of every token to those of its own row: [1, places, attention heads, size].

    ``query`` [1, attention heads, places, size]; ``key``, ``value`` [1, key heads, places, size]. A prefix that rows
    share is repeated for each of them, among the keys and values only. Call it where ``runs_varlen``.
    """
    queries, keys, values = (states[0].transpose(0, 1) for states in (query, key, value))
    if rows.key_places is not None:
        keys, values = keys.index_select(0, rows.key_places), values.index_select(0, rows.key_places)
    run = _flash_attn if kernel_of(query.device, query.dtype) == "flash-attn" else _torch_varlen
    return run(queries, keys, values, rows, rule)[None]


def _window(rule: AttentionRule) -> tuple[int, int]:
    """Keys to the left and to the right of a query, -1 for all; positions are counted from the ends of the rows."""
    left = -1 if rule.reach is None else rule.reach
    return left, 0 if rule.causal else left


def _torch_varlen(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn  # imports much that a CPU run does not need

    output = varlen_attn(
        query,
        key,
        value,
        rows.query_starts,
        rows.key_starts,
        *rows.longest,
        scale=rule.scaling,
        window_size=_window(rule),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    assert isinstance(output, torch.Tensor)
    return output


def _flash_attn(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    from flash_attn import flash_attn_varlen_func  # an extra, not there on most machines

    output = flash_attn_varlen_func(
        query,
        key,
        value,
        rows.query_starts,
        rows.key_starts,
        *rows.longest,
        softmax_scale=rule.scaling,
        causal=rule.causal,
        window_size=_window(rule) if rule.reach is not None else (-1, -1),
        softcap=rule.softcap or 0.0,
    )
    assert isinstance(output, torch.Tensor)
    return output

"""Attention of end-to-end rows, computed in the fastest way that the machine and the layer allow.

On a GPU, one variable-length kernel takes all rows: flash-attn's if it is installed, else torch's. Elsewhere, layers
in which a token sees its neighbours within a window (encoders such as ModernBERT) run in blocks of queries against
the keys around them, and all other layers run row by row. No mask over all pairs of tokens is ever built, so memory
grows linearly with the length of a row, and so does the cost of local layers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch
from torch.nn.functional import scaled_dot_product_attention

from attribeam.attribution.attention.end_to_end_rows import (
    EndToEndRows,
    RowPlaces,
    blocked_attention,
    local_attention,
    runs_blocked,
)
from attribeam.attribution.attention.reduction import (
    MAX_WEIGHTS,
    AttentionRule,
    attention_weights,
    weighted_values,
)


def end_to_end_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    """Attention of each token to the tokens of its own row: [1, places, attention heads, size], dtype of ``query``.

    ``query`` [1, attention heads, places, size]; ``key``, ``value`` [1, key heads, places, size]. Only causal rows
    and local layers may have rows that share a prefix.
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


@lru_cache
def varlen_kernels(device_index: int | None, device_type: str, dtype: torch.dtype) -> tuple[str, ...]:
    """The kernels for rows of variable length, best first: ``FLASH_ATTN``, ``TORCH_VARLEN``, both or none.

    Both need half precision and a GPU of compute capability 8.0 or higher.
    """
    if device_type != "cuda" or dtype not in _HALF_PRECISION or torch.cuda.get_device_capability(device_index) < (8, 0):
        return ()
    found = {FLASH_ATTN: _can_import_flash_attn(), TORCH_VARLEN: torch.backends.cuda.is_flash_attention_available()}
    return tuple(name for name, works in found.items() if works)


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


def kernel_of(device: torch.device, dtype: torch.dtype) -> str | None:
    """The kernel for rows of variable length that runs on a device; None if there is none."""
    kernels = varlen_kernels(device.index, device.type, dtype)
    return kernels[0] if kernels else None


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
    """Attention of each token to the tokens of its own row: [1, places, attention heads, size].

    ``query`` [1, attention heads, places, size]; ``key``, ``value`` [1, key heads, places, size]. A shared prefix is
    repeated for each row, among the keys and values only. Call it only if ``runs_varlen``.
    """
    queries, keys, values = (states[0].transpose(0, 1) for states in (query, key, value))
    if rows.key_places is not None:
        keys, values = keys.index_select(0, rows.key_places), values.index_select(0, rows.key_places)
    run = _flash_attn if kernel_of(query.device, query.dtype) == FLASH_ATTN else _torch_varlen
    return run(queries, keys, values, rows, rule)[None]


def _kernel_window(rule: AttentionRule) -> tuple[int, int]:
    """Visible keys to the left and to the right of a query, -1 for all; positions count from the ends of the rows."""
    left = -1 if rule.reach is None else rule.reach
    return left, 0 if rule.causal else left


def _torch_varlen(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    from torch.nn.attention.varlen import varlen_attn  # a heavy import that a CPU run does not need

    output = varlen_attn(
        query,
        key,
        value,
        rows.query_starts,
        rows.key_starts,
        *rows.longest,
        scale=rule.scaling,
        window_size=_kernel_window(rule),
        enable_gqa=query.shape[1] != key.shape[1],
    )
    assert isinstance(output, torch.Tensor)
    return output


def _flash_attn(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    from flash_attn import flash_attn_varlen_func  # an extra, not installed on most machines

    output = flash_attn_varlen_func(
        query,
        key,
        value,
        rows.query_starts,
        rows.key_starts,
        *rows.longest,
        softmax_scale=rule.scaling,
        causal=rule.causal,
        window_size=_kernel_window(rule) if rule.reach is not None else (-1, -1),
        softcap=rule.softcap or 0.0,
    )
    assert isinstance(output, torch.Tensor)
    return output


_LARGEST_MASK = 2**21
"""Largest mask of a block, in pairs of tokens."""


def row_by_row_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, rows: EndToEndRows, rule: AttentionRule
) -> torch.Tensor:
    """Attention of each token to the tokens of its own row: [1, places, attention heads, size], dtype of ``query``.

    ``query`` [1, attention heads, places, size]; ``key``, ``value`` [1, key heads, places, size].
    """
    _, head_count, place_count, _ = query.shape
    output = torch.empty((place_count, head_count, value.shape[-1]), dtype=query.dtype, device=query.device)
    for one in rows.places:
        keys, values = one.states(key[0]), one.states(value[0])
        if runs_blocked(query, rule):
            own = slice(one.start, one.end)
            output[own] = blocked_attention(query[0, :, own], keys, values, start=one.prefix_length, rule=rule)
            continue
        for start, end in _query_blocks(one, rule, head_count):
            places = slice(one.start + start - one.prefix_length, one.start + end - one.prefix_length)
            output[places] = _block_attention(query[0, :, places], keys, values, start, rule).transpose(0, 1)
    return output[None]


def _query_blocks(one: RowPlaces, rule: AttentionRule, head_count: int) -> Iterator[tuple[int, int]]:
    """The row's own positions in half-open blocks; a single block if neither mask nor weights are written out."""
    start, length = one.prefix_length, len(one)
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
    first, last = rule.visible_range(start, end, length)
    if not rule.needs_written_out_weights and _needs_no_mask(start, end, length, rule):
        return _fused_attention(query, keys, values, None, rule, causal=rule.causal)
    positions = torch.arange(length, device=query.device)
    seen = rule.visible(positions[start:end], positions[first:last])
    keys, values = keys[:, first:last], values[:, first:last]
    if rule.needs_written_out_weights:
        return weighted_values(attention_weights(query, keys, seen, rule), values).to(query.dtype)
    return _fused_attention(query, keys, values, seen, rule, causal=False)


def _fused_attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    seen: torch.Tensor | None,
    rule: AttentionRule,
    *,
    causal: bool,
) -> torch.Tensor:
    """torch's fused attention; repeats grouped keys where its kernels would otherwise compute all pairs of tokens."""
    grouped = query.shape[0] != keys.shape[0]
    if grouped and query.is_cuda and (seen is not None or query.dtype == torch.float32):
        group = query.shape[0] // keys.shape[0]
        keys, values, grouped = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0), False
    return scaled_dot_product_attention(
        query[None],
        keys[None],
        values[None],
        attn_mask=seen,
        is_causal=causal,
        scale=rule.scaling,
        enable_gqa=grouped,
    )[0]

"""Makes bitsandbytes' 4-bit layers use the weights as loaded, on every processor."""

from __future__ import annotations

import sys
from copy import copy
from functools import partial
from importlib.metadata import version
from typing import Any

import torch

from attribeam.schemas.errors import ModelLoadError

_REPACKS = "support_avx512bf16_for_cpu"
"""The layer attribute that lets its first forward pass on the CPU repack the weights for a bfloat16 kernel."""


def keep_weights_as_loaded(network: torch.nn.Module) -> None:
    """Make every 4-bit layer compute with the weights as loaded, on every processor.

    On processors with AVX512-BF16, bitsandbytes would repack the weights in the first forward pass on the CPU. That
    rounds scales to bfloat16 (which changes the weights and takes two bytes per scale instead of one), computes float32
    and float16 in bfloat16, too, and applies only to matrices with a multiple of 32 rows and of 64 columns.

    On all processors with AVX-512, bitsandbytes uses wrong scales for most weights of a matrix whose rows are not whole
    blocks, if its number of columns is a multiple of 16. Such a matrix is read as a single row, which avoids the fault.

    Raises:
        ModelLoadError: if this version of bitsandbytes has no switch for repacking.
    """
    if sys.modules.get("bitsandbytes") is None:
        return
    from bitsandbytes.nn import Linear4bit  # an extra

    for layer in network.modules():
        if isinstance(layer, Linear4bit):
            _switch_repacking_off(layer)
            if layer.weight.device.type == "cpu" and _has_rows_of_broken_blocks(layer):
                layer.forward = partial(_product, layer)


def _switch_repacking_off(layer: Any) -> None:
    if not hasattr(layer, _REPACKS):
        raise ModelLoadError(
            f"bitsandbytes {version('bitsandbytes')} may repack 4-bit weights to suit the processor and cannot be "
            "stopped; install the version that pip install 'attribeam[quantization]' takes"
        )
    setattr(layer, _REPACKS, False)


def _has_rows_of_broken_blocks(layer: Any) -> bool:
    """Whether blocks of weights that share a scale cross the ends of rows."""
    state = layer.weight.quant_state
    return tuple(state.shape) == (layer.out_features, layer.in_features) and layer.in_features % state.blocksize != 0


def _product(layer: Any, states: torch.Tensor) -> torch.Tensor:
    """The layer's own forward pass, with its weights read as a single row."""
    from bitsandbytes.functional import dequantize_4bit  # an extra

    own = layer.weight.quant_state
    dtype = layer.compute_dtype or states.dtype
    in_one_row = copy(own)
    in_one_row.shape, in_one_row.dtype = torch.Size((1, own.shape.numel())), dtype
    weight = dequantize_4bit(layer.weight.data.view(-1, 1), in_one_row).view(own.shape)
    bias = None if layer.bias is None else layer.bias.to(dtype)
    return torch.nn.functional.linear(states.to(dtype), weight, bias).to(states.dtype)

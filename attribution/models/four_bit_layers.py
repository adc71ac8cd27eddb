"""bitsandbytes' 4-bit layers, kept to the weights that were loaded whatever the processor is."""

from __future__ import annotations

import sys
from copy import copy
from functools import partial
from importlib.metadata import version
from typing import Any

import torch

from attribeam.schemas.errors import ModelLoadError

_REPACKS = "support_avx512bf16_for_cpu"
"""Of a layer: whether its first forward pass on the CPU turns the weights into what a bfloat16 kernel wants."""


def keep_weights_as_loaded(network: torch.nn.Module) -> None:
    """Every 4-bit layer computes with the weights as they were loaded, on every processor.

    On processors with AVX512-BF16 bitsandbytes would repack them in the first forward pass on the CPU: scales rounded
    to bfloat16 (other weights, two bytes a scale instead of one), float32 and float16 computed in bfloat16 as well,
    and only matrices of a multiple of 32 rows and of 64 columns.

    On all with AVX-512 it takes a wrong scale for most weights of matrices whose rows are not whole blocks, wherever
    they have a multiple of 16 columns. Such a matrix is read as one row, which has no such effect.

    Raises:
        ModelLoadError: if the layers of this version of bitsandbytes have no switch for the former.
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
            f"bitsandbytes {version('bitsandbytes')} may repack 4-bit weights to suit the processor and cannot be kept "
            "from it; install the version that pip install 'attribeam[quantization]' takes"
        )
    setattr(layer, _REPACKS, False)


def _has_rows_of_broken_blocks(layer: Any) -> bool:
    """Whether blocks of weights with one scale run over the ends of rows."""
    state = layer.weight.quant_state
    return tuple(state.shape) == (layer.out_features, layer.in_features) and layer.in_features % state.blocksize != 0


def _product(layer: Any, states: torch.Tensor) -> torch.Tensor:
    """What the layer's own forward pass gives, its weights read as one row."""
    from bitsandbytes.functional import dequantize_4bit  # an extra

    own = layer.weight.quant_state
    dtype = layer.compute_dtype or states.dtype
    in_one_row = copy(own)
    in_one_row.shape, in_one_row.dtype = torch.Size((1, own.shape.numel())), dtype
    weight = dequantize_4bit(layer.weight.data.view(-1, 1), in_one_row).view(own.shape)
    bias = None if layer.bias is None else layer.bias.to(dtype)
    return torch.nn.functional.linear(states.to(dtype), weight, bias).to(states.dtype)

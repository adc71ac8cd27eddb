"""A 4-bit layer computes with the weights that it holds, of whatever shape they are and whatever the processor is."""

from __future__ import annotations

import pytest
import torch
from bitsandbytes.functional import dequantize_blockwise
from bitsandbytes.nn import Linear4bit

from attribeam.attribution.models.four_bit_layers import keep_weights_as_loaded
from attribeam.schemas.errors import ModelLoadError

ROWS = 96


def quantised(columns: int, dtype: torch.dtype | None, *, bias: bool = True) -> Linear4bit:
    torch.manual_seed(columns)
    layer = Linear4bit(columns, ROWS, bias=bias, compute_dtype=dtype, quant_type="nf4").to("cpu").eval()
    keep_weights_as_loaded(torch.nn.Sequential(layer))
    return layer.requires_grad_(False)


def held_weights(layer: Linear4bit) -> torch.Tensor:
    """float32 [rows, columns], worked out weight by weight: a value of the code times the scale of its block."""
    state, packed = layer.weight.quant_state, layer.weight.data.flatten()
    codes = torch.stack([packed >> 4, packed & 15], dim=1).flatten().long()
    scales = dequantize_blockwise(state.absmax, state.state2) + state.offset
    return (state.code[codes] * scales.repeat_interleave(state.blocksize)[: len(codes)]).view(state.shape)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("columns", [15, 16, 24, 32, 80, 128])
def test_product_is_that_of_the_weights_that_the_layer_holds(columns: int, dtype: torch.dtype) -> None:
    layer, states = quantised(columns, dtype), torch.randn(2, 5, columns)
    weights, bias = held_weights(layer).to(dtype), layer.bias.to(dtype)
    expected = torch.nn.functional.linear(states.to(dtype), weights, bias)
    torch.testing.assert_close(layer(states.to(dtype)), expected, rtol=0, atol=0)
    torch.testing.assert_close(layer(states), expected.float(), rtol=0, atol=0)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("columns", [80, 128])
def test_layer_without_bias_and_dtype_of_its_own_takes_that_of_its_input(columns: int) -> None:
    layer, states = quantised(columns, None, bias=False), torch.randn(3, columns, dtype=torch.bfloat16)
    expected = states @ held_weights(layer).to(torch.bfloat16).T
    torch.testing.assert_close(layer(states), expected, rtol=0, atol=0)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("columns", [80, 128])
def test_gradients_pass_through(columns: int) -> None:
    layer, states = quantised(columns, torch.float32), torch.randn(3, columns, requires_grad=True)
    (found,) = torch.autograd.grad(layer(states).sum(), states)
    torch.testing.assert_close(found, held_weights(layer).sum(0).expand(3, columns))


def test_layers_that_cannot_be_kept_from_repacking_are_refused() -> None:
    layer = quantised(64, torch.float32)
    assert layer.support_avx512bf16_for_cpu is False
    del layer.support_avx512bf16_for_cpu
    with pytest.raises(ModelLoadError, match=r"may repack 4-bit weights.*'attribeam\[quantization\]'"):
        keep_weights_as_loaded(torch.nn.Sequential(layer))

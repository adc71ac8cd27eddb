"""An 8-bit layer on the CPU: exact, token by token, with outliers, and honest about what is not finite."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from bitsandbytes.functional import dequantize_blockwise
from bitsandbytes.nn import Int8Params, Linear4bit, Linear8bitLt

from attribeam.attribution.models import integer_products
from attribeam.attribution.models.eight_bit_layers import compute_in_integers
from attribeam.attribution.models.four_bit_layers import keep_weights_as_loaded
from attribeam.attribution.models.integer_products import exact_product, has_fast_product, integer_product
from attribeam.schemas.errors import ModelLoadError

COLUMNS, ROWS = 1100, 48


def loaded(columns: int = COLUMNS, *, bias: bool = True) -> Linear8bitLt:
    torch.manual_seed(columns)
    layer = Linear8bitLt(columns, ROWS, bias=bias, has_fp16_weights=False, threshold=6.0)
    layer.weight = Int8Params(torch.randn(ROWS, columns) / 8, requires_grad=False).to("cpu")
    return layer.eval().requires_grad_(False)


def quantised(columns: int = COLUMNS, *, bias: bool = True) -> Linear8bitLt:
    layer = loaded(columns, bias=bias)
    compute_in_integers(torch.nn.Sequential(layer))
    return layer


def held_weights(layer: Linear8bitLt) -> torch.Tensor:
    """float32 [rows, columns]"""
    return layer.weight.data.float() * layer.weight.SCB[:, None] / 127


def expected(layer: Linear8bitLt, states: torch.Tensor) -> torch.Tensor:
    """The product without quantised states."""
    bias = None if layer.bias is None else layer.bias.float()
    return torch.nn.functional.linear(states.float(), held_weights(layer), bias)


def states(*, outliers: bool = False) -> torch.Tensor:
    torch.manual_seed(3)
    found = torch.randn(40, COLUMNS)
    if outliers:
        found[5:30, 7] = 300
        found[12, 1050] = -4000
    return found


@pytest.fixture(params=[True, False], ids=["int8 instructions", "none"])
def either_product(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not has_fast_product():
        pytest.skip("this processor has no fast product of integers")
    monkeypatch.setattr(integer_products, "has_fast_product", lambda: request.param)


def deviation(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The relative error of each token, [tokens]."""
    return (found.float() - wanted).norm(dim=-1) / wanted.norm(dim=-1)


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_product_is_close_to_that_of_the_weights_that_the_layer_holds(bias: bool, dtype: torch.dtype) -> None:
    layer, given = quantised(bias=bias), states().to(dtype)
    found = layer(given.view(2, 20, COLUMNS))
    assert (found.dtype, found.shape) == (dtype, (2, 20, ROWS))
    assert (found.is_contiguous(), layer.weight.dtype) == (True, torch.int8)
    assert 0.001 < deviation(found.view(40, ROWS), expected(layer, given)).max() < 0.02


@pytest.mark.usefixtures("either_product")
def test_outliers_do_not_cost_the_other_values_of_their_token_its_resolution() -> None:
    layer, given = quantised(), states(outliers=True)
    outliers = torch.where(given.abs() > 100, given, 0)
    of_others = layer(given) - layer.bias - outliers @ held_weights(layer).T
    errors = deviation(of_others, (given - outliers) @ held_weights(layer).T)
    assert errors[12] < 0.2
    errors[12] = 0
    assert errors.max() < 0.05
    assert deviation(layer(given), expected(layer, given)).max() < 0.02


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_token_has_the_same_bits_whatever_the_other_tokens_are(dtype: torch.dtype) -> None:
    layer, given = quantised(), states(outliers=True).to(dtype)
    together = layer(given)
    for token in (0, 5, 12, 39):
        assert torch.equal(layer(given[token]), together[token])
    given[20:39] = 1e4 * states()[:19].to(dtype) ** 9
    given[38], given[37, 3] = float("nan"), float("inf")
    others = torch.tensor([0, 5, 12, 39])
    assert torch.equal(layer(given)[others], together[others])
    many = given[[12, 0, *[39] * 1500, 5]]
    assert torch.equal(layer(many)[[1, 1502, 0, 40]], together[others])


@pytest.mark.usefixtures("either_product")
def test_product_with_outliers_in_most_columns_is_that_of_each_column() -> None:
    layer, given = quantised(), states()
    wide = torch.diag(torch.full((COLUMNS,), 1e3))[:600] + given[:1]
    assert deviation(layer(wide), expected(layer, wide)).max() < 0.02
    assert torch.equal(layer(wide)[7], layer(wide[7:8])[0])


def test_both_products_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_fast_product():
        pytest.skip("this processor has no fast product of integers")
    layer, given = quantised(), states(outliers=True)
    fast = layer(given)
    monkeypatch.setattr(integer_products, "has_fast_product", lambda: False)
    assert torch.equal(layer(given), fast)


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("outliers", [True, False])
def test_token_that_is_not_finite_gets_no_finite_result(value: float, outliers: bool) -> None:
    layer, given = quantised(), states(outliers=outliers)
    given[12, 4] = value
    found = layer(given).isfinite()
    assert not found[12].any()
    assert found[:12].all()
    assert found[13:].all()


def test_gradients_pass_through() -> None:
    layer, given = quantised(), states()[:3].requires_grad_()
    (found,) = torch.autograd.grad(layer(given.to(torch.bfloat16)).float().sum(), given)
    torch.testing.assert_close(found, held_weights(layer).sum(0).expand(3, COLUMNS), rtol=0.02, atol=0.02)
    (found,) = torch.autograd.grad(layer(given).sum(), given)
    torch.testing.assert_close(found, held_weights(layer).sum(0).expand(3, COLUMNS))


def test_layer_whose_sums_could_exceed_32_bits_is_left_as_it_is() -> None:
    assert 127**2 * 133_144 < 2**31 <= 127**2 * 133_145
    layers = [loaded(133_144), loaded(133_145)]
    compute_in_integers(torch.nn.Sequential(*layers))
    assert ["forward" in vars(layer) for layer in layers] == [True, False]


FOUR_BIT_ROWS = 96


def four_bit(columns: int, dtype: torch.dtype | None, *, bias: bool = True) -> Linear4bit:
    torch.manual_seed(columns)
    layer = Linear4bit(columns, FOUR_BIT_ROWS, bias=bias, compute_dtype=dtype, quant_type="nf4").to("cpu").eval()
    keep_weights_as_loaded(torch.nn.Sequential(layer))
    return layer.requires_grad_(False)


def weights_of_blocks(layer: Linear4bit) -> torch.Tensor:
    """float32 [rows, columns], worked out weight by weight: a value of the code times the scale of its block."""
    state, packed = layer.weight.quant_state, layer.weight.data.flatten()
    codes = torch.stack([packed >> 4, packed & 15], dim=1).flatten().long()
    scales = dequantize_blockwise(state.absmax, state.state2) + state.offset
    return (state.code[codes] * scales.repeat_interleave(state.blocksize)[: len(codes)]).view(state.shape)


@pytest.mark.usefixtures("either_processor")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("columns", [15, 16, 24, 32, 80, 128])
def test_product_is_that_of_the_weights_that_the_layer_holds(columns: int, dtype: torch.dtype) -> None:
    layer, states = four_bit(columns, dtype), torch.randn(2, 5, columns)
    weights, bias = weights_of_blocks(layer).to(dtype), layer.bias.to(dtype)
    expected = torch.nn.functional.linear(states.to(dtype), weights, bias)
    torch.testing.assert_close(layer(states.to(dtype)), expected, rtol=0, atol=0)
    torch.testing.assert_close(layer(states), expected.float(), rtol=0, atol=0)


def test_layers_that_cannot_be_kept_from_repacking_are_refused() -> None:
    layer = four_bit(64, torch.float32)
    assert layer.support_avx512bf16_for_cpu is False
    del layer.support_avx512bf16_for_cpu
    with pytest.raises(ModelLoadError, match=r"may repack 4-bit weights.*'attribeam\[quantization\]'"):
        keep_weights_as_loaded(torch.nn.Sequential(layer))


Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@pytest.mark.usefixtures("either_product")
@pytest.mark.parametrize("columns", [1, 3, 64, 1024, 1025, 5000])
@pytest.mark.parametrize("tokens", [1, 7, 33])
def test_integer_product_is_exact_where_16_bits_saturate(columns: int, tokens: int) -> None:
    left = torch.randint(-127, 128, (tokens, columns), dtype=torch.int8)
    right = torch.randint(-127, 128, (9, columns), dtype=torch.int8)
    left[0], right[0], right[1] = 127, 127, -127
    found = integer_product(left, right)
    assert found.dtype == torch.int32
    assert torch.equal(found.long(), left.long() @ right.long().T)
    assert found[0, 1] == -(127**2) * columns
    narrow = left[:1].as_strided((1, columns), (0, 1))
    assert torch.equal(integer_product(narrow, right), found[:1])


def saturating(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (left.float() @ right.float()).clamp(-(2.0**24), 2.0**24).to(torch.int32)


def missing(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError(f"no product of {left.shape} and {right.shape}")


@pytest.mark.parametrize("other", [saturating, missing])
def test_inexact_or_missing_product_is_not_used(monkeypatch: pytest.MonkeyPatch, other: Product) -> None:
    monkeypatch.setattr(integer_products, "_seconds", seconds(fast=1, plain=2))
    monkeypatch.setattr(torch, "_int_mm", other)
    assert has_fast_product.__wrapped__() is False


@pytest.mark.parametrize(("fast", "plain"), [(1, 2), (2, 1)])
def test_slow_product_is_not_used(monkeypatch: pytest.MonkeyPatch, fast: float, plain: float) -> None:
    monkeypatch.setattr(integer_products, "_seconds", seconds(fast=fast, plain=plain))
    monkeypatch.setattr(torch, "_int_mm", lambda left, right: exact_product(left, right.T))
    assert has_fast_product.__wrapped__() is (fast < plain)


def seconds(*, fast: float, plain: float) -> Callable[[Callable[[], torch.Tensor]], float]:
    """What the trial measures: three times the fast product, then three times the plain one."""
    times = iter([fast] * 3 + [plain] * 3)

    def next_time(product: Callable[[], torch.Tensor]) -> float:
        product()
        return next(times)

    return next_time

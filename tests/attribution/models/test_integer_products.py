"""Products of 8-bit integers are exact with and without the processor's instructions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from attribeam.attribution.models import integer_products
from attribeam.attribution.models.integer_products import exact_product, has_fast_product, integer_product

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@pytest.fixture(params=[True, False], ids=["int8 instructions", "none"])
def either_product(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not has_fast_product():
        pytest.skip("this processor has no fast product of integers")
    monkeypatch.setattr(integer_products, "has_fast_product", lambda: request.param)


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

from itertools import product

import numpy
import pytest
from thinc.api import NumpyOps, get_ops

from attribution.answers.torch_products import TORCH_PRODUCTS, TorchProducts

NUMBERS = numpy.random.default_rng(0)


def floats(rows: int, columns: int) -> numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float32]]:
    return NUMBERS.normal(size=(rows, columns)).astype("float32")


@pytest.mark.parametrize(("trans1", "trans2"), [*product((False, True), repeat=2)])
def test_products_are_those_of_thinc(trans1: bool, trans2: bool) -> None:
    x, y = floats(*((7, 5) if trans1 else (5, 7))), floats(*((3, 7) if trans2 else (7, 3)))
    expected = NumpyOps().gemm(x, y, trans1=trans1, trans2=trans2)
    numpy.testing.assert_allclose(TorchProducts().gemm(x, y, trans1=trans1, trans2=trans2), expected, atol=1e-5)


def test_product_is_written_where_it_is_asked_for() -> None:
    x, y, out = floats(4, 6), floats(2, 6), numpy.zeros((5, 2), dtype="float32")
    TorchProducts().gemm(x, y, trans2=True, out=out[1:])
    numpy.testing.assert_allclose(out, [[0, 0], *(x @ y.T)], atol=1e-5)


def test_weights_that_may_not_be_written_are_read() -> None:
    x, y = floats(4, 6), floats(6, 2)
    y.flags.writeable = False
    numpy.testing.assert_allclose(TorchProducts().gemm(x, y), x @ y, atol=1e-5)


def test_thinc_finds_the_products_by_name() -> None:
    assert isinstance(get_ops(TORCH_PRODUCTS), TorchProducts)

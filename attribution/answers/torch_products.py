"""thinc's operations on a CPU with torch's matrix products. Importing this imports thinc and torch."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from thinc.api import NumpyOps, registry

TORCH_PRODUCTS = "attribeam_torch_products"


@registry.ops(TORCH_PRODUCTS)
class TorchProducts(NumpyOps):  # type: ignore[misc]
    """thinc's NumpyOps; float32 products take as many threads as torch may use, and processors' widest instructions."""

    name: Any = TORCH_PRODUCTS

    def gemm(
        self,
        x: NDArray[numpy.float32],
        y: NDArray[numpy.float32],
        out: NDArray[numpy.float32] | None = None,
        trans1: bool = False,
        trans2: bool = False,
    ) -> NDArray[numpy.float32]:
        """The product of two matrices, each transposed first where asked for, in ``out`` where it is given."""
        first, second = _tensor(x, transposed=trans1), _tensor(y, transposed=trans2)
        if out is None:
            product: NDArray[numpy.float32] = torch.mm(first, second).numpy()
            return product
        torch.mm(first, second, out=torch.from_numpy(out))
        return out


def _tensor(array: NDArray[numpy.float32], *, transposed: bool) -> torch.Tensor:
    tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    return tensor.T if transposed else tensor

"""How near our attention is to transformers' eager attention, for each kernel that a device has.

The reference is eager attention in float32 with the same weights. Eager attention in the precision of the model is
measured beside it: what it loses is the price of the precision, not of the kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from transformers import PreTrainedModel

from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.attention.batching import RowLayout
from attribeam.attribution.attention.end_to_end_attention import (
    FLASH_ATTN,
    ROW_BY_ROW,
    TORCH_VARLEN,
    using_kernel,
    varlen_kernels,
)
from attribeam.attribution.options import MethodOptions, SoftmaxOver
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.lab.benchmarks.benchmark_model import BenchmarkModel
from attribeam.lab.benchmarks.latency_rows import LATENCY_SHAPES, latency_records
from attribeam.schemas import QARecord, RowFault
from attribeam.schemas.errors import RunError

HEADER = ("precision", "kernel", "rows lie", "largest error", "eager's error", "top 2 equal", "eager's", "verdict")
EXACT_ERROR = 1e-4
"""The largest error in float32. In half precision ours may be twice that of eager attention, and this beside."""
_EVERY_COLUMN = 2**31 - 1
_TOP = 2


@dataclass(frozen=True, slots=True)
class KernelExactness:
    """One kernel, or none if ``kernel`` is not there; all errors are of S, whose rows sum to at most 1.

    Attributes:
        layout: how the rows lay in the batch.
        error, eager_error: the largest difference from eager attention in float32, of ours and of eager attention in
            the same precision.
        top_equal, eager_top_equal: shares of response tokens whose two best columns are those of float32.
    """

    dtype: str
    kernel: str
    layout: str
    error: float
    eager_error: float
    top_equal: float
    eager_top_equal: float

    @property
    def is_exact(self) -> bool:
        """Whether the error is within bounds; NaN is not."""
        return self.error <= EXACT_ERROR + (0.0 if self.dtype == "float32" else 2 * self.eager_error)

    def cells(self) -> tuple[str, ...]:
        """The line in the table, below ``HEADER``."""
        return (
            self.dtype,
            self.kernel,
            self.layout,
            f"{self.error:.1e}",
            f"{self.eager_error:.1e}",
            f"{self.top_equal:.1%}",
            f"{self.eager_top_equal:.1%}",
            "within bounds" if self.is_exact else "OUT OF BOUNDS",
        )


def unmeasured_kernels(device: str, dtype: str, measured: Collection[str]) -> dict[str, str]:
    """The kernels for rows of variable length that are not ``measured``, and why; none takes float32."""
    if dtype == "float32":
        return {}
    there = _kernels(torch.device(device), getattr(torch, dtype))
    return {
        name: "cannot run this model, or failed on it" if name in there else _why_missing(name, device)
        for name in (FLASH_ATTN, TORCH_VARLEN)
        if name not in measured
    }


def _why_missing(kernel: str, device: str) -> str:
    if torch.device(device).type == "cpu":
        return "needs a GPU"
    return "not installed, not loadable, or this GPU is too old" if kernel == FLASH_ATTN else "not in this torch"


def measure_exactness(model: BenchmarkModel, *, rows: int = 2) -> Iterator[KernelExactness]:
    """Compare every kernel that is there with eager attention; of a model whose rows are padded, the one that it runs.

    The batch has ``rows`` rows each of the two shorter shapes of the latency table, and one that shares its prompt
    with another. At most one model is in memory at a time.

    Raises:
        RunError: if the model's softmax runs over the prompt alone, which eager attention has not, or a row fails.
    """
    eager = model.base(layers=model.layer, implementation="eager")
    encoder = model.encoder()
    records = [one for shape in LATENCY_SHAPES[:2] for one in latency_records(shape, rows)]
    records.append(replace(records[0], record_id="same prompt", answer=records[1].answer, target_spans=None))
    encoded = [encoder.encode_whole(one) for one in records]
    same = [_eager_attention(eager, row, model.layer) for row in encoded]
    exact = same
    if model.dtype != "float32":
        eager.float()  # type: ignore[no-untyped-call]
        exact = [_eager_attention(eager, row, model.layer) for row in encoded]
    del eager
    attributor = model.attributor(token_budget=2**20).with_method(MethodOptions(top_k=_EVERY_COLUMN))
    if attributor.softmax_over is not SoftmaxOver.VISIBLE:
        raise RunError("the model's softmax runs over the prompt alone, for which there is no eager attention")
    end_to_end = attributor.layout is RowLayout.END_TO_END
    for kernel in (*(_kernels(attributor.device, attributor.dtype) if end_to_end else ()), ROW_BY_ROW):
        with using_kernel(kernel):
            found = _similarities(attributor, encoded, records)
        positions = [_responses(attributor, row) for row in encoded]
        yield _compared(model.dtype, kernel, attributor, found, _cut(same, positions), _cut(exact, positions))


def _kernels(device: torch.device, dtype: torch.dtype) -> tuple[str, ...]:
    return varlen_kernels(device.index, device.type, dtype)


@torch.inference_mode()
def _eager_attention(model: PreTrainedModel, row: EncodedRow, layer: int) -> torch.Tensor:
    """The layer's attention, averaged over attention heads: float32 [tokens, prompt_length], on the CPU."""
    token_ids = torch.from_numpy(row.token_ids.astype(np.int64))[None].to(model.device)
    weights = model(input_ids=token_ids, output_attentions=True, use_cache=False).attentions[layer - 1]
    similarity: torch.Tensor = weights[0, :, :, : row.prompt_length].float().mean(0)
    return similarity.cpu()


def _responses(attributor: AttentionModel, row: EncodedRow) -> torch.Tensor:
    """The positions whose attention is S."""
    return attributor.request(row, int(row.column_passage.max()) + 1).query_positions.cpu()


def _cut(attentions: Sequence[torch.Tensor], positions: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [one[place] for one, place in zip(attentions, positions, strict=True)]


def _similarities(
    attributor: AttentionModel, rows: Sequence[EncodedRow], records: Sequence[QARecord]
) -> list[torch.Tensor]:
    """S of every row, with all of its columns: float32 [responses, prompt_length]."""
    found = []
    for row, tokens in zip(rows, attributor.attribute(rows, [len(one.passages) for one in records]), strict=True):
        if isinstance(tokens, RowFault):
            raise RunError(f"a row could not be attributed: {tokens}")
        similarity = torch.zeros(tokens.top_scores.shape)
        columns = torch.from_numpy(tokens.top_columns.astype(np.int64))
        found.append(similarity.scatter_(1, columns, torch.from_numpy(tokens.top_scores.copy())))
        assert similarity.shape[1] == row.prompt_length
    return found


def _compared(
    dtype: str,
    kernel: str,
    attributor: AttentionModel,
    found: Sequence[torch.Tensor],
    same: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor],
) -> KernelExactness:
    return KernelExactness(
        dtype=dtype,
        kernel=kernel,
        layout=str(attributor.layout),
        error=_largest_difference(found, exact),
        eager_error=_largest_difference(same, exact),
        top_equal=_share_of_equal_tops(found, exact),
        eager_top_equal=_share_of_equal_tops(same, exact),
    )


def _largest_difference(found: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float:
    """NaN if there is one."""
    return float(torch.stack([(one - other).abs().max() for one, other in zip(found, exact, strict=True)]).max())


def _share_of_equal_tops(found: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> float:
    pairs = zip(found, exact, strict=True)
    equal = torch.cat([(_tops(one) == _tops(other)).all(1) for one, other in pairs])
    return float(equal.float().mean())


def _tops(similarity: torch.Tensor) -> torch.Tensor:
    return similarity.topk(_TOP, dim=1).indices.sort(dim=1).values

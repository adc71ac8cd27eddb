"""Tensors on their way between host and device, without making either wait for the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from attribution.attention.row_attention import CapturedRow
from attribution.token_attribution import TokenAttribution
from schemas import Reason, RowFault


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``tensor`` on ``device``; to a GPU through pinned memory, so that the host goes on at once."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class RowsOnTheirWay:
    """The reduced rows of one forward pass, on their way to the host in one transfer; only ``outcome`` waits for it."""

    def __init__(self, captured: Sequence[CapturedRow]) -> None:
        self._shapes = [(*one.top_columns.shape, one.passage_mass.shape[1]) for one in captured]
        parts = [part.reshape(-1) for one in captured for part in _as_integers(one)]
        flat = torch.cat(parts)
        self._values = flat.to("cpu", non_blocking=True)
        self._arrived = torch.cuda.Event() if flat.is_cuda else None  # type: ignore[no-untyped-call]
        if self._arrived is not None:
            self._arrived.record(torch.cuda.current_stream(flat.device))
        self._starts = np.cumsum([0, *(_size(*shape) for shape in self._shapes)])

    def outcome(self, index: int) -> TokenAttribution | RowFault:
        """A row's attribution, or NON_FINITE_ATTENTION where its S has NaN or infinity."""
        if self._arrived is not None:
            self._arrived.synchronize()
        responses, top_k, passages = self._shapes[index]
        values = self._values.numpy()[self._starts[index] : self._starts[index + 1]]
        if not values[-1]:
            return RowFault(Reason.NON_FINITE_ATTENTION, "attention should be finite, has NaN or infinity; see --dtype")
        sizes = (responses * top_k, responses * top_k, responses * passages, responses)
        columns, scores, mass, outside = np.split(values[:-1], np.cumsum(sizes)[:-1])
        return TokenAttribution(
            top_columns=columns.reshape(responses, top_k),
            top_scores=scores.view(np.float32).reshape(responses, top_k),
            passage_mass=mass.view(np.float32).reshape(responses, passages),
            sink_mass=outside.view(np.float32),
        )


def _as_integers(one: CapturedRow) -> tuple[torch.Tensor, ...]:
    """The five tensors of a row as int32; the bits of floats stay as they are."""
    return (
        one.top_columns.to(torch.int32),
        one.top_scores.contiguous().view(torch.int32),
        one.passage_mass.contiguous().view(torch.int32),
        one.sink_mass.contiguous().view(torch.int32),
        one.finite.to(torch.int32),
    )


def _size(responses: int, top_k: int, passages: int) -> int:
    return responses * (2 * top_k + passages + 1) + 1

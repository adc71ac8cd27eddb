"""Tensors on their way between host and device, without making either wait for the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from attribution.attention.attention_capture import CapturedRow


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``tensor`` on ``device``; to a GPU through pinned memory, so that the host goes on at once."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class RowsOnTheirWay:
    """The reduced rows of one forward pass, copied to the host in one transfer that nobody waits for before ``row``."""

    def __init__(self, captured: Sequence[CapturedRow]) -> None:
        self._shapes = [(*one.top_columns.shape, one.passage_mass.shape[1]) for one in captured]
        parts = [part.reshape(-1) for one in captured for part in _as_integers(one)]
        flat = torch.cat(parts)
        self._values = flat.to("cpu", non_blocking=True)
        self._arrived = torch.cuda.Event() if flat.is_cuda else None  # type: ignore[no-untyped-call]
        if self._arrived is not None:
            self._arrived.record(torch.cuda.current_stream(flat.device))
        self._starts = np.cumsum([0, *(_size(*shape) for shape in self._shapes)])

    def row(self, index: int) -> tuple[bool, npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Whether S of the row is finite, its top columns and scores [responses, k], its mass [responses, passages]."""
        if self._arrived is not None:
            self._arrived.synchronize()
        responses, top_k, passages = self._shapes[index]
        values = self._values.numpy()[self._starts[index] : self._starts[index + 1]]
        border = responses * top_k
        return (
            bool(values[-1]),
            values[:border].reshape(responses, top_k),
            values[border : 2 * border].view(np.float32).reshape(responses, top_k),
            values[2 * border : -1].view(np.float32).reshape(responses, passages),
        )


def _as_integers(one: CapturedRow) -> tuple[torch.Tensor, ...]:
    """The four tensors of a row as int32; the bits of floats stay as they are."""
    return (
        one.top_columns.to(torch.int32),
        one.top_scores.contiguous().view(torch.int32),
        one.passage_mass.contiguous().view(torch.int32),
        one.finite.to(torch.int32),
    )


def _size(responses: int, top_k: int, passages: int) -> int:
    return responses * (2 * top_k + passages) + 1

"""One layer's attention of one model, taken for the rows of a batch in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from attribution.attention.capture_pass import Capture, is_observed
from attribution.attention.forward_pass import end_to_end_pass, padded_pass
from attribution.attention.modernbert_pass import modernbert_pass
from attribution.attention.modernbert_weights import EncoderWeights
from attribution.attention.row_attention import RowRequest
from attribution.attention.row_layout import RowLayout
from attribution.attention.row_requests import Job, row_requests
from attribution.settings import QueryPosition, SoftmaxOver


@dataclass(frozen=True, slots=True)
class RowCapture:
    """Whose attention is taken, and how.

    Attributes:
        network: the loaded layers, with ``capture_attention`` as their attention.
        layer: 1-based L*.
        query_position: whose attention row i of S is.
        softmax_over: which columns a row of the attention is normalised over.
        head_weights: float32 [attention heads] that sum to 1, None for the mean over attention heads.
        bidirectional: whether the layer's tokens see to the right as well.
        encoder: the same layers for a pass in few steps, None where there is none. Where somebody watches, by
            ``observing`` or by hooks on the network's modules, the network's own pass runs.
    """

    network: PreTrainedModel
    layer: int
    query_position: QueryPosition
    softmax_over: SoftmaxOver
    head_weights: torch.Tensor | None
    bidirectional: bool = False
    encoder: EncoderWeights | None = None

    def take(self, jobs: Sequence[Job], *, layout: RowLayout, top_k: int) -> Capture:
        """Run the pass; the rows in it are reduced, and still on the device."""
        rows = [row for row, _ in jobs]
        capture = Capture(
            layer_index=self.layer - 1,
            top_k=top_k,
            rows=self.requests(jobs),
            head_weights=self.head_weights,
            bidirectional=self.bidirectional,
        )
        if layout is RowLayout.PADDED:
            padded_pass(self.network, rows, capture)
        elif self.encoder is not None and not is_observed() and not _has_hooks(self.network):
            modernbert_pass(self.encoder, rows, capture)
        else:
            end_to_end_pass(self.network, rows, capture, share=not self.bidirectional)
        return capture

    def requests(self, jobs: Sequence[Job]) -> list[RowRequest]:
        """What of the layer's attention is S of each row."""
        return row_requests(
            jobs, query_position=self.query_position, softmax_over=self.softmax_over, device=self.network.device
        )


def _has_hooks(network: PreTrainedModel) -> bool:
    return any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())

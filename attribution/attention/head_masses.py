"""How much of each attention head of the captured layer lies on each passage."""

from __future__ import annotations

from functools import partial

import torch

from attribution.attention.attention_model import AttentionModel
from attribution.attention.capture_pass import observing
from attribution.attention.plain_attention import MAX_WEIGHTS
from attribution.attention.row_attention import RowAttention, RowRequest
from attribution.attention.top_columns import passage_mass
from attribution.token_attribution import EncodedRow
from schemas import Reason, RowFault


def head_masses(model: AttentionModel, row: EncodedRow, passage_count: int) -> torch.Tensor:
    """The attention mass of every attention head on every passage, titles included.

    float32 [attention heads, responses, passages] on the CPU, from one forward pass. Their mean over attention heads is
    ``TokenAttribution.passage_mass``.

    Raises:
        RowFault: if the row is longer than the model takes at once, does not fit into memory, or has NaN or infinity.
    """
    if row.windows:
        message = "a row should go through the model at once, is cut into windows; log fewer passages"
        raise RowFault(Reason.TOO_MANY_TOKENS, message)
    found: list[torch.Tensor] = []
    request = model.request(row, passage_count)
    with observing(partial(_take, model.layer - 1, request, found)):
        (outcome,) = model.attribute([row], [passage_count])
    if isinstance(outcome, RowFault):
        raise outcome
    return found[-1]


def _take(
    wanted_layer: int, request: RowRequest, found: list[torch.Tensor], layer_index: int, attention: RowAttention
) -> None:
    if layer_index == wanted_layer:
        found.append(_masses(attention, request))


def _masses(attention: RowAttention, request: RowRequest) -> torch.Tensor:
    """In slices of response rows, so that memory stays bounded."""
    attention_heads = attention.query.shape[0]
    rows_at_once = max(1, MAX_WEIGHTS // (attention_heads * request.token_count))
    slices = []
    for positions in torch.split(request.query_positions, rows_at_once):
        weights = attention.weights(positions, request.token_count)[..., : len(request.column_passage)]
        slices.append(passage_mass(weights, request.column_passage, request.passage_count))
    return torch.cat(slices, dim=1).cpu()

"""What the chosen methods need of the inside of a model, taken in one forward pass where the layers allow it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from attribution.token_attribution import EncodedRow, TokenAttribution
from evaluation.need import Need
from schemas import RowFault

if TYPE_CHECKING:
    import torch

    from attribution.attention_capture import RowAttention
    from attribution.attention_model import AttentionModel
    from attribution.hidden_similarity import HiddenSimilarity
    from attribution.response_attention import ResponseAttribution


@dataclass(frozen=True, slots=True)
class ModelInternals:
    """Of one row: token-wise attributions, those to the response's own tokens, and similarities of hidden states.

    None where the chosen methods do not need it.
    """

    attention: TokenAttribution | None = None
    response: ResponseAttribution | None = None
    hidden: HiddenSimilarity | None = None


def take_internals(
    model: AttentionModel, row: EncodedRow, *, passage_count: int, needs: frozenset[Need], hidden_layer: int | None
) -> ModelInternals:
    """Take what ``needs`` asks for; ``hidden_layer`` is 1-based, 0 the embeddings, None is floor(L/2).

    One forward pass gives everything where the hidden states lie below the captured layer, as they do by default; it
    ends at the captured layer, or without attention at the layer of the hidden states. Else there are two.

    Raises:
        RowFault: if the row does not fit into memory, or has NaN or infinity.
    """
    layer = model.layer_count // 2 if hidden_layer is None else hidden_layer
    hidden = layer if Need.HIDDEN_STATES in needs else None
    if not needs & {Need.ATTENTION, Need.RESPONSE_ATTENTION}:
        return ModelInternals(hidden=None if hidden is None else _hidden(model, row, passage_count, layer))
    if hidden is None or layer < model.layer:
        return _one_pass(model, row, passage_count, response=Need.RESPONSE_ATTENTION in needs, hidden_layer=hidden)
    first = _one_pass(model, row, passage_count, response=Need.RESPONSE_ATTENTION in needs, hidden_layer=None)
    return ModelInternals(first.attention, first.response, _hidden(model, row, passage_count, layer))


def _hidden(model: AttentionModel, row: EncodedRow, passage_count: int, layer: int) -> HiddenSimilarity:
    """The similarities from a pass of their own."""
    from attribution.hidden_similarity import HiddenSimilarity
    from attribution.hidden_states import hidden_states

    states = hidden_states(model.network, row.token_ids, layer=layer)
    return HiddenSimilarity(states, encoded=row, passage_count=passage_count)


def _one_pass(
    model: AttentionModel, row: EncodedRow, passage_count: int, *, response: bool, hidden_layer: int | None
) -> ModelInternals:
    from attribution.attention_capture import observing
    from attribution.hidden_similarity import HiddenSimilarity
    from attribution.hidden_states import keeping_hidden_states

    found: list[ResponseAttribution] = []
    states: list[torch.Tensor] = []
    with ExitStack() as stack:
        if response:
            stack.enter_context(observing(partial(_take_response, model, row, passage_count, found)))
        if hidden_layer is not None:
            states = stack.enter_context(keeping_hidden_states(model.network, layer=hidden_layer))
        (tokens,) = model.attribute([row], [passage_count])
    if isinstance(tokens, RowFault):
        raise tokens
    hidden = HiddenSimilarity(states[0], encoded=row, passage_count=passage_count) if states else None
    return ModelInternals(tokens, found[0] if found else None, hidden)


def _take_response(
    model: AttentionModel,
    row: EncodedRow,
    passage_count: int,
    found: list[ResponseAttribution],
    layer_index: int,
    attention: RowAttention,
) -> None:
    from attribution.response_attention import response_attribution

    if layer_index == model.layer - 1:
        found.append(
            response_attribution(
                attention,
                query_positions=model.request(row, passage_count).query_positions,
                prompt_length=row.prompt_length,
                top_k=model.settings.top_k,
                head_weights=model.head_weights,
            )
        )

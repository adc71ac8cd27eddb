"""What the chosen methods need of the inside of a model, taken in one forward pass where the layers allow it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from attribution.prompts.window_merge import attribute_with_windows
from attribution.token_attribution import EncodedRow, TokenAttribution
from evaluation.methods.need import Need
from schemas import RowFault

if TYPE_CHECKING:
    import torch

    from attribution.attention.attention_model import AttentionModel
    from attribution.attention.hidden_similarity import HiddenSimilarity
    from attribution.attention.row_attention import RowAttention


@dataclass(frozen=True, slots=True)
class ModelInternals:
    """Of one row: token-wise attributions, those to the response's own tokens, and similarities of hidden states.

    None where the chosen methods do not need it. ``attributed`` is bool [responses, responses], whether the row's token
    is attributed to the column's, an earlier one.
    """

    attention: TokenAttribution | None = None
    attributed: npt.NDArray[np.bool_] | None = None
    hidden: HiddenSimilarity | None = None


def take_internals(
    model: AttentionModel, row: EncodedRow, *, passage_count: int, needs: frozenset[Need], hidden_layer: int | None
) -> ModelInternals:
    """Take what ``needs`` asks for; ``hidden_layer`` is 1-based, 0 the embeddings, None is floor(L/2).

    One forward pass gives everything where the hidden states lie below the captured layer, as they do by default; it
    ends at the captured layer. Else the states take one of their own, which ends at theirs.

    Raises:
        RowFault: if the row does not fit into memory, or has NaN or infinity.
    """
    pass_ = _Pass(model, passage_count, response=Need.RESPONSE_ATTENTION in needs)
    if Need.HIDDEN_STATES in needs:
        pass_.hidden_layer = model.layer_count // 2 if hidden_layer is None else hidden_layer
    asked = needs & {Need.ATTENTION, Need.RESPONSE_ATTENTION}
    attention = pass_.attention(row) if asked or pass_.shares_states else None
    if pass_.hidden_layer is not None and not pass_.states:
        pass_.take_states(row)
    return ModelInternals(attention if asked else None, pass_.attributed(), pass_.hidden(row))


@dataclass(slots=True)
class _Pass:
    """The forward pass over a row, or over each of its windows, and what it left besides the attribution."""

    model: AttentionModel
    passage_count: int
    response: bool
    hidden_layer: int | None = None
    states: list[torch.Tensor] = field(default_factory=list)
    similarities: list[torch.Tensor] = field(default_factory=list)

    def attention(self, row: EncodedRow) -> TokenAttribution:
        """The attributions as the audit has them; its windows go one by one where more than that is asked for."""
        if not self.response and not self.shares_states:
            (found,) = self.model.attribute([row], [self.passage_count])
        else:
            top_k = self.model.settings.top_k
            (found,) = attribute_with_windows(
                [row], [self.passage_count], top_k=top_k, attribute=lambda rows, _: [*map(self._one, rows)]
            )
        if isinstance(found, RowFault):
            raise found
        return found

    def take_states(self, row: EncodedRow) -> None:
        """The hidden states from a pass of their own, which ends at their layer."""
        from attribution.attention.hidden_states import hidden_states
        from attribution.attention.out_of_memory import run_halving

        layer = 0 if self.hidden_layer is None else self.hidden_layer
        for part in [window.row for window in row.windows] or [row]:
            (states,) = run_halving(
                [part], lambda rows: [hidden_states(self.model.network, one.token_ids, layer=layer) for one in rows]
            )
            if isinstance(states, RowFault):
                raise states
            self.states.append(states)

    def attributed(self) -> npt.NDArray[np.bool_] | None:
        from attribution.attention.response_attention import attributed_tokens

        return attributed_tokens(self.similarities, top_k=self.model.settings.top_k) if self.similarities else None

    def hidden(self, row: EncodedRow) -> HiddenSimilarity | None:
        from attribution.attention.hidden_similarity import HiddenSimilarity

        if self.hidden_layer is None:
            return None
        return HiddenSimilarity(self.states, encoded=row, passage_count=self.passage_count)

    @property
    def shares_states(self) -> bool:
        """Whether the states lie below the captured layer: the audit's own pass, made for long rows, has them."""
        return self.hidden_layer is not None and self.hidden_layer < self.model.layer

    def _one(self, part: EncodedRow) -> TokenAttribution | RowFault:
        """One row without windows."""
        from attribution.attention.capture_pass import observing
        from attribution.attention.hidden_states import keeping_hidden_states

        def observe(layer_index: int, attention: RowAttention) -> None:
            if layer_index == self.model.layer - 1:
                self._keep_response(part, attention)

        with ExitStack() as stack:
            if self.response:
                stack.enter_context(observing(observe))
            if self.shares_states and self.hidden_layer is not None:
                stack.enter_context(keeping_hidden_states(self.model.network, self.states, layer=self.hidden_layer))
            (found,) = self.model.attribute([part], [self.passage_count])
        return found

    def _keep_response(self, part: EncodedRow, attention: RowAttention) -> None:
        from attribution.attention.response_attention import response_similarity

        self.similarities.append(
            response_similarity(
                attention,
                query_positions=self.model.request(part, self.passage_count).query_positions,
                prompt_length=part.prompt_length,
                head_weights=self.model.head_weights,
            )
        )

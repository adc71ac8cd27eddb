"""The methods that compare hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import AnswerContext, MethodSettings, Need
from attribeam.attribution.prompts.token_offsets import windows_or_whole
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.evaluation.methods.unions import AnswerTokens, Counts, paper_union_results
from attribeam.schemas import CharRange, EvidencePiece, Passage, RowFault

if TYPE_CHECKING:
    import torch

    from attribeam.attribution.attention.hidden_states import HiddenSimilarity

_NEEDS = frozenset({Need.PARSER, Need.HIDDEN_STATES})

WINDOW = 8
"""W, the tokens of a window (Section 4.1)."""


def hidden_similarity(context: AnswerContext) -> HiddenSimilarity:
    """The similarities of hidden states of the layer ``models.hidden_layer``; see ``AnswerContext.once``.

    One forward pass per window. Below the captured layer, as by default, it is the audit's own, built for long rows.

    Raises:
        RowFault: if the model refuses the row.
    """
    from attribeam.attribution.attention.batching import run_halving
    from attribeam.attribution.attention.hidden_states import HiddenSimilarity, hidden_states, keeping_hidden_states

    model, row, count = context.model, context.encoded, len(context.record.passages)
    layer = model.layer_count // 2 if context.models.hidden_layer is None else context.models.hidden_layer
    states: list[torch.Tensor] = []
    for part in windows_or_whole(row):
        found: object
        if layer < model.layer:
            with keeping_hidden_states(model.network, states, layer=layer):
                (found,) = model.attribute([part], [count])
        else:
            (found,) = run_halving(
                [part], lambda rows: [hidden_states(model.network, one.token_ids, layer=layer) for one in rows]
            )
            states += [found] if not isinstance(found, RowFault) else []
        if isinstance(found, RowFault):
            raise found
    return HiddenSimilarity(states, encoded=row, passage_count=count)


class HiddenUnion:
    """``hss-union``: Algorithm 1 with S_ij the cosine of the states of r_i and d_j (Section 3.4).

    Top-k, tau and the weight of a span's own tokens come from the options, else from the paper: a model directory's own
    values were chosen for its attention.
    """

    name = "hss-union"
    augmented = False
    needs = _NEEDS

    def __init__(self, settings: MethodSettings) -> None:
        self._settings = settings

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Sums of the similarities of each span's tokens, or of those of their atomic facts."""
        return self.results_of(context, context.once(hidden_similarity))

    def results_of(self, context: AnswerContext, similarity: HiddenSimilarity) -> list[SpanResult]:
        """The same from given similarities, of any layer."""
        settings = self._settings
        return paper_union_results(
            context,
            similarity.top_columns(settings.top_k),
            _counts(context, augmented=self.augmented, own_token_weight=settings.own_token_weight),
            settings=settings,
            passage_score=settings.passage_score,
        )


class HiddenUnionDep(HiddenUnion):
    """``hss-union-dep``: the same over the tokens of the atomic facts."""

    name = "hss-union-dep"
    augmented = True


class HiddenAverage:
    """``hss-avg``: the passage with the window most similar to the span's mean state.

    The evidence is the best window of the best passage.
    """

    name = "hss-avg"
    augmented = False
    needs = _NEEDS

    def __init__(self, settings: MethodSettings) -> None:
        """The settings have nothing for it."""

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """A passage's score is the cosine of its best window, 0 where it is negative."""
        counted = _counts(context, augmented=self.augmented) > 0
        inside = np.zeros((len(counted), len(context.encoded.response_char_start)), dtype=np.bool_)
        inside[:, context.once(AnswerTokens).covering] = counted
        found = context.once(hidden_similarity).best_windows(inside, window=WINDOW)
        scores = np.where(found.cosines > 0, found.cosines, 0.0).tolist()
        return [
            SpanResult(tuple(of_span), _window_piece(of_span, columns, context.encoded, context.record.passages))
            for of_span, columns in zip(scores, found.columns, strict=True)
        ]


class HiddenAverageDep(HiddenAverage):
    """``hss-avg-dep``: the span is first widened to the tokens of its atomic facts, each once (Section 4.2.3)."""

    name = "hss-avg-dep"
    augmented = True


def _counts(context: AnswerContext, *, augmented: bool, own_token_weight: int = 1) -> Counts:
    spans = context.spans
    if not augmented:
        return context.once(AnswerTokens).of_spans(spans)
    return context.once(AnswerTokens).of_facts(spans, own_token_weight=own_token_weight)


def _window_piece(
    scores: Sequence[float], columns: Sequence[npt.NDArray[np.int32]], encoded: EncodedRow, passages: Sequence[Passage]
) -> tuple[EvidencePiece, ...]:
    """The text of the best passage's window, titles apart; nothing where no passage scores."""
    best = int(np.argmax(scores))
    inside = columns[best][~encoded.column_in_title[columns[best]]]
    inside = inside[encoded.column_char_start[inside] < encoded.column_char_end[inside]]
    if scores[best] <= 0 or not len(inside):
        return ()
    chars = CharRange(int(encoded.column_char_start[inside].min()), int(encoded.column_char_end[inside].max()))
    passage = passages[best]
    return (EvidencePiece(best, passage.passage_id, False, chars, chars.of(passage.text), scores[best]),)

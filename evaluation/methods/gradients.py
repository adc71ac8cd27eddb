"""Contrastive context attribution (CCI): the gradient baseline of the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attribeam.attribution.evidence.passage_evidence import evidence_pieces, scaled_pieces
from attribeam.attribution.evidence.union import UnionScores
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import AnswerContext, MethodSettings, Need
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import Passage

_Floats = npt.NDArray[np.float64]


TOP_K = 3


class ContrastiveGradients:
    """``cci``: the three prompt tokens with the largest contrastive saliency of each target token, united.

    The saliency is the similarity S of Equation 1; the passage with the largest sum wins (Section 4.1). Isolated tokens
    stay.
    """

    name = "cci"
    needs = frozenset({Need.LANGUAGE_MODEL})

    def __init__(self, settings: MethodSettings) -> None:
        """The settings have nothing for it."""

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Take one backward pass per response token that lies in any span."""
        from attribeam.attribution.attention.reduction import top_columns
        from attribeam.evaluation.methods.language_context import language_of

        language, spans = context.once(language_of), context.spans
        tokens = {span: language.tokens_of(span) for span in spans}
        wanted = sorted({token for of_span in tokens.values() for token in of_span})
        columns, scores = top_columns(language.saliency(wanted), TOP_K)
        place = {token: index for index, token in enumerate(wanted)}
        results = []
        for span in spans:
            rows = [place[token] for token in tokens[span]]
            united = _united(columns.numpy()[rows], scores.numpy()[rows], language.encoded)
            results.append(_result(united, language.encoded, context.record.passages))
        return results


def _united(columns: npt.NDArray[np.int64], scores: npt.NDArray[np.float32], encoded: EncodedRow) -> _Floats:
    """w(t, d_j) of every prompt column: float64 [prompt_length], 0 outside passages and on white space alone."""
    united = np.zeros(encoded.prompt_length)
    np.add.at(united, columns.ravel(), scores.ravel().astype(np.float64))
    visible = (encoded.column_passage >= 0) & (encoded.column_char_start < encoded.column_char_end)
    return np.where(visible, united, 0.0)


def _result(united: _Floats, encoded: EncodedRow, passages: Sequence[Passage]) -> SpanResult:
    columns = np.flatnonzero(united)
    scores = UnionScores(np.zeros_like(columns), columns, united[columns], [False])
    sums = np.bincount(encoded.column_passage[columns], weights=united[columns], minlength=len(passages))
    (pieces,) = evidence_pieces(scores, encoded=encoded, passages=passages)
    return SpanResult(tuple(sums.tolist()), scaled_pieces(pieces, 1.0))

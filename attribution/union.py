"""The union of a span's token-wise attributions, and the filter of isolated tokens (Section 3.2, Algorithm 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribution.token_attribution import EncodedRow, TokenAttribution


@dataclass(frozen=True, slots=True)
class SpanScores:
    """The attribution scores w(t, d_j) of one span.

    Attributes:
        columns: intp [evidence], ascending prompt columns of the kept evidence, all of them within passages.
        scores: float64 [evidence], w(t, d_j) > 0 of each, in attention mass.
        evidence_isolated: True where the filter would have left nothing, so that the unfiltered evidence stands.
    """

    columns: npt.NDArray[np.intp]
    scores: npt.NDArray[np.float64]
    evidence_isolated: bool


class PassageScores:
    """The token-wise scores w(r_i, d_j) of one response, restricted to passage columns; reused by all of its spans.

    A passage token of white space alone is no evidence: there is nothing of it to show.
    """

    def __init__(self, *, encoded: EncodedRow, tokens: TokenAttribution) -> None:
        self._columns = tokens.top_columns.astype(np.intp)
        visible = (encoded.column_passage >= 0) & (encoded.column_char_start < encoded.column_char_end)
        self._scores = np.where(visible[self._columns], tokens.top_scores.astype(np.float64), 0.0)
        self._prompt_length = encoded.prompt_length

    def span_scores(self, multiplicity: npt.NDArray[np.int64], *, isolation_tau: float) -> SpanScores:
        """Unite the tokens of a span, then drop isolated evidence.

        Args:
            multiplicity: int64 [responses], how often a response token's attribution counts: the number of the span's
                tokens whose atomic fact it is in (Section 3.3, step 2), or 1 for the span's own tokens.
            isolation_tau: see ``keep_neighboured``.
        """
        used = np.flatnonzero(multiplicity)
        weights = self._scores[used] * multiplicity[used, None]
        summed = np.bincount(self._columns[used].ravel(), weights=weights.ravel(), minlength=self._prompt_length)
        united = summed.astype(np.float64, copy=False)
        columns = np.flatnonzero(united > 0)
        kept = keep_neighboured(columns, isolation_tau=isolation_tau)
        isolated = len(columns) > 0 and not kept.any()
        chosen = columns if isolated else columns[kept]
        return SpanScores(chosen, united[chosen], isolated)

    def mean_mass_on(self, columns: npt.NDArray[np.intp], *, span_tokens: npt.NDArray[np.intp]) -> float:
        """Mean over the span's own tokens of their top-k attention on these columns, in [0, 1]; 0 without tokens."""
        if not len(span_tokens):
            return 0.0
        wanted = np.zeros(self._prompt_length, dtype=np.bool_)
        wanted[columns] = True
        mass = self._scores[span_tokens][wanted[self._columns[span_tokens]]].sum() / len(span_tokens)
        return float(min(max(mass, 0.0), 1.0))


def keep_neighboured(columns: npt.NDArray[np.intp], *, isolation_tau: float) -> npt.NDArray[np.bool_]:
    """True for each evidence column with another within ``isolation_tau`` positions, both ends included (Algorithm 1).

    ``columns`` ascend without repetition. An infinite ``isolation_tau`` switches the filter off.
    """
    if math.isinf(isolation_tau):
        return np.ones(len(columns), dtype=np.bool_)
    near = columns[1:] - columns[:-1] <= isolation_tau
    kept = np.zeros(len(columns), dtype=np.bool_)
    kept[1:] |= near
    kept[:-1] |= near
    return kept

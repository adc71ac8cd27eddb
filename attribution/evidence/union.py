"""The union of a span's token-wise attributions, and what of it is dropped (Section 3.2, Algorithm 1).

First tokens without neighbours are dropped, then what lies far from a passage's best stretch and is there by
chance (an extension of ours). In a passage of thousands of words every answer finds some of its words somewhere.
Their small scores add up, so that the longest passage would win. A window of so many tokens makes passages of all
lengths comparable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from attribeam.attribution.token_attribution import EncodedRow, TokenAttribution

_Places = npt.NDArray[np.intp]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class UnionScores:
    """The attribution scores w(t, d_j) of some unions of one response, all kept evidence in one list.

    Attributes:
        unions: intp [evidence], whose evidence it is; ascending.
        columns: intp [evidence], prompt column of the kept evidence, ascending within a union, all within passages.
        scores: float64 [evidence], w(t, d_j) > 0 of each, in attention mass.
        evidence_isolated: for each union True where all evidence was isolated, so that the filter alone would leave
            nothing.
    """

    unions: _Places
    columns: _Places
    scores: npt.NDArray[np.float64]
    evidence_isolated: list[bool]


class PassageScores:
    """The token-wise scores w(r_i, d_j) of one response, restricted to passage columns; reused by all of its spans.

    A passage token of white space alone is no evidence: there is nothing of it to show. ``responses`` are the response
    tokens that count, by default all of them. ``columns`` are the distinct columns that any of them has, ascending.
    """

    def __init__(
        self, *, encoded: EncodedRow, tokens: TokenAttribution, responses: _Places | slice = slice(None)
    ) -> None:
        top_columns = tokens.top_columns[responses]
        self.columns, self._places = _distinct(top_columns)
        visible = (encoded.column_passage >= 0) & (encoded.column_char_start < encoded.column_char_end)
        self._scores = np.where(visible[top_columns], tokens.top_scores[responses].astype(np.float64), 0.0)

    def unite(self, weights: npt.NDArray[np.int64], *, isolation_tau: float, strict: bool = False) -> UnionScores:
        """Unite response tokens, then drop isolated evidence.

        Where all evidence of a union is isolated, all of it stays, or with ``strict`` none, as in Algorithm 1.

        Args:
            weights: int64 [unions, responses], how often a response token's attribution counts in each union.
            isolation_tau: see ``keep_neighboured``.
        """
        united = self.column_sums(weights)
        unions, places = united.nonzero()
        columns = self.columns[places]
        kept = keep_neighboured(columns, unions, isolation_tau=isolation_tau)
        left = np.zeros(len(weights), dtype=np.bool_)
        left[unions[kept]] = True
        isolated = (np.bincount(unions, minlength=len(weights)) > 0) & ~left
        if not strict:
            kept |= isolated[unions]
        unions, places = unions[kept], places[kept]
        return UnionScores(unions, columns[kept], united[unions, places], isolated.tolist())

    def mean_masses(
        self, scores: UnionScores, *, union_of_span: Sequence[int], firsts: Sequence[int], ends: Sequence[int]
    ) -> list[float]:
        """For each span the mean, over its tokens ``[first, end)``, of their top-k attention on its union's evidence.

        In [0, 1]; 0 without tokens.
        """
        wanted = np.zeros((len(scores.evidence_isolated), len(self.columns)), dtype=np.bool_)
        wanted[scores.unions, np.searchsorted(self.columns, scores.columns)] = True
        masses = []
        for union, first, end in zip(union_of_span, firsts, ends, strict=True):
            found = self._scores[first:end][wanted[union][self._places[first:end]]]
            masses.append(min(max(float(found.sum()) / (end - first), 0.0), 1.0) if first < end else 0.0)
        return masses

    def column_sums(self, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The sums of the response tokens' scores on each of ``columns``: float64 [unions, columns].

        ``weights`` int64 [unions, responses], how often each token counts.
        """
        size = (len(weights), len(self.columns))
        counted = np.flatnonzero(weights.any(axis=0))
        weighted = weights[:, counted, None] * self._scores[counted]
        places = np.arange(len(weights))[:, None, None] * len(self.columns) + self._places[counted]
        sums = np.bincount(places.ravel(), weights=weighted.ravel(), minlength=size[0] * size[1])
        return sums.astype(np.float64, copy=False).reshape(size)

    def run_sums(self, firsts: Sequence[int], ends: Sequence[int]) -> npt.NDArray[np.float64]:
        """The sums over runs ``[first, end)`` of response tokens on each of ``columns``: float64 [runs, columns]."""
        sums = np.zeros((len(firsts), len(self.columns)))
        for row, first, end in zip(sums, firsts, ends, strict=True):
            places, scores = self._places[first:end].ravel(), self._scores[first:end].ravel()
            row[:] = np.bincount(places, weights=scores, minlength=len(row))
        return sums


def keep_neighboured(columns: _Places, unions: _Places, *, isolation_tau: float) -> _Flags:
    """True for each evidence column with another of its union within ``isolation_tau`` positions (Algorithm 1).

    Both ends are included. Columns ascend within a union without repetition, and unions ascend. An infinite
    ``isolation_tau`` switches the filter off.
    """
    if math.isinf(isolation_tau):
        return np.ones(len(columns), dtype=np.bool_)
    near = (columns[1:] - columns[:-1] <= isolation_tau) & (unions[1:] == unions[:-1])
    kept = np.zeros(len(columns), dtype=np.bool_)
    kept[1:] |= near
    kept[:-1] |= near
    return kept


def _distinct(columns: npt.NDArray[np.int32]) -> tuple[_Places, _Places]:
    """The distinct columns, ascending, and the place of each given one among them, in the shape that was given."""
    distinct = np.unique(columns).astype(np.intp)
    return distinct, np.searchsorted(distinct, columns)


_Floats = npt.NDArray[np.float64]
ColumnContext: TypeAlias = tuple[_Places, _Floats]
"""Distinct ascending columns, and float64 [unions, columns], what each of them is worth besides the evidence."""


@dataclass(frozen=True, slots=True)
class WindowedScores:
    """The evidence of some unions that lies in the best window of its passage, or in its title, and each passage's
    score: float64 [unions, passages], the window's and the title's, context included."""

    evidence: UnionScores
    passage_scores: _Floats


def keep_best_windows(
    scores: UnionScores,
    *,
    encoded: EncodedRow,
    passage_count: int,
    window: float,
    context: ColumnContext | None = None,
) -> WindowedScores:
    """For each union and passage keep the ``window`` successive tokens with the largest sum, and the title.

    A window holds evidence of its own wherever its passage has any; of equal ones the first counts. An infinite
    ``window`` keeps everything. The ``context`` counts in the choice of the window and in the passage's score.
    """
    unions, columns, values, own = _with_context(scores, context)
    passages = encoded.column_passage[columns].astype(np.intp)
    kept = np.ones(len(columns), dtype=np.bool_)
    if not math.isinf(window):
        text = np.flatnonzero(~encoded.column_in_title[columns])
        groups = unions[text] * passage_count + passages[text]
        places = columns[text] + groups * (len(encoded.column_passage) + int(window))
        kept[text] = _in_best_window(places, groups, values[text], own[text], int(window))
    cells = unions[kept] * passage_count + passages[kept]
    sums = np.bincount(cells, weights=values[kept], minlength=len(scores.evidence_isolated) * passage_count)
    return WindowedScores(
        _restricted(scores, kept[own]), sums.astype(np.float64, copy=False).reshape(-1, passage_count)
    )


def _with_context(
    scores: UnionScores, context: ColumnContext | None
) -> tuple[_Places, _Places, _Floats, npt.NDArray[np.bool_]]:
    """Union, column, evidence and context together, and whether there is evidence; by union, then column."""
    if context is None:
        return scores.unions, scores.columns, scores.scores, np.ones(len(scores.columns), dtype=np.bool_)
    columns, values = context
    evidence = np.zeros(values.shape)
    evidence[scores.unions, np.searchsorted(columns, scores.columns)] = scores.scores
    total = values + evidence
    unions, places = total.nonzero()
    return unions, columns[places], total[unions, places], evidence[unions, places] > 0


def _in_best_window(
    places: _Places, groups: _Places, values: _Floats, own: npt.NDArray[np.bool_], window: int
) -> npt.NDArray[np.bool_]:
    """True for what lies in the best window of its group; groups lie more than ``window`` places apart."""
    kept = np.zeros(len(places), dtype=np.bool_)
    if len(places):
        order = np.argsort(places, kind="stable")
        kept[order] = _in_best_of_sorted(places[order], groups[order], values[order], own[order], window)
    return kept


def _in_best_of_sorted(
    places: _Places, groups: _Places, values: _Floats, own: npt.NDArray[np.bool_], window: int
) -> npt.NDArray[np.bool_]:
    ends = np.searchsorted(places, places + window)
    counts, sums = np.append(0, np.cumsum(own)), np.append(0.0, np.cumsum(values))
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    group_of = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(groups))))
    has_evidence = np.logical_or.reduceat(own, starts)[group_of]
    in_window = np.where((counts[ends] > counts[:-1]) | ~has_evidence, sums[ends] - sums[:-1], -1.0)
    best = np.maximum.reduceat(in_window, starts)[group_of]
    order = np.arange(len(places))
    first = np.minimum.reduceat(np.where(in_window == best, order, len(places)), starts)[group_of]
    return (order >= first) & (order < ends[first])


def _restricted(scores: UnionScores, kept: npt.NDArray[np.bool_]) -> UnionScores:
    return UnionScores(scores.unions[kept], scores.columns[kept], scores.scores[kept], scores.evidence_isolated)

"""Keeping evidence together: what lies far from a passage's best stretch is there by chance (an extension of ours).

In a passage of thousands of words every answer finds some of its words somewhere. Their small scores add up, so that
the longest passage would win. A window of so many tokens makes passages of all lengths comparable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from attribution.evidence.union import UnionScores
from attribution.token_attribution import EncodedRow

_Places = npt.NDArray[np.intp]
_Floats = npt.NDArray[np.float64]
ColumnContext: TypeAlias = tuple[_Places, _Floats]
"""Distinct ascending columns, and float64 [unions, columns], what each of them is worth besides the evidence."""


@dataclass(frozen=True, slots=True)
class WindowedScores:
    """The evidence of some unions that lies in the best window of its passage, or in its title, and each passage's
    score: float64 [unions, passages], the window's and the title's, context included."""

    evidence: UnionScores
    passage_scores: _Floats


def windowed(
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
    return WindowedScores(_only(scores, kept[own]), sums.astype(np.float64, copy=False).reshape(-1, passage_count))


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


def _only(scores: UnionScores, kept: npt.NDArray[np.bool_]) -> UnionScores:
    return UnionScores(scores.unions[kept], scores.columns[kept], scores.scores[kept], scores.evidence_isolated)

"""Thresholds chosen on other sources: each fold's threshold is the best one of all other folds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FOLDS = 5
FOLDS_FILE = "folds.json"
"""Which answer, by its id, is in which fold of a cross-validated verdict; beside the folders of the folds."""

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cuts:
    """What each possible threshold calls: marked and unmarked items, float64 [thresholds]; and how many there are."""

    hits: _Numbers
    alarms: _Numbers
    marked: float
    unmarked: float


Objective = Callable[[Cuts], _Numbers]
"""What a threshold should make large, [thresholds]."""


def f1(cuts: Cuts) -> _Numbers:
    """The harmonic mean of precision and recall, 0 to 1."""
    return 2 * cuts.hits / (cuts.hits + cuts.alarms + cuts.marked)


def balanced_accuracy(cuts: Cuts) -> _Numbers:
    """The mean of the shares of marked items that are called and of unmarked ones that are not."""
    return (cuts.hits / max(cuts.marked, 1) + 1 - cuts.alarms / max(cuts.unmarked, 1)) / 2


def source_folds(sources: Sequence[Hashable], *, seed: int) -> npt.NDArray[np.intp]:
    """intp [rows]: the fold of each row, 0 to ``FOLDS`` - 1; rows of one source share a fold. Deterministic."""
    numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
    folds = np.random.default_rng(seed).permutation(len(numbers)) % FOLDS
    return np.array([folds[numbers[source]] for source in sources], dtype=np.intp)


def best_threshold(scores: _Numbers, marked: npt.NDArray[np.bool_], objective: Objective) -> float:
    """The threshold, half-way between two scores, from which on items should be called; -inf to call all.

    Of several equally good ones it is the largest.

    Raises:
        ValueError: if there is no item.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, marks = scores[order], marked[order]
    lasts = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    hits, called = np.cumsum(marks)[lasts].astype(np.float64), (lasts + 1).astype(np.float64)
    total = float(marks.sum())
    best = int(np.argmax(objective(Cuts(hits, called - hits, total, len(ranked) - total))))
    return -np.inf if best == len(lasts) - 1 else float(ranked[lasts[best]] + ranked[lasts[best] + 1]) / 2


def fold_thresholds(
    scores: _Numbers, marked: npt.NDArray[np.bool_], folds: npt.NDArray[np.intp], objective: Objective
) -> dict[int, float] | None:
    """The threshold of each fold, chosen on the items of all others; None if all items are of one fold.

    Args:
        scores: float64 [items], larger for more suspicious ones.
        marked: bool [items].
        folds: intp [items].
        objective: what the threshold should make large.
    """
    own = np.unique(folds)
    if len(own) < 2:
        return None
    return {int(fold): best_threshold(scores[folds != fold], marked[folds != fold], objective) for fold in own}

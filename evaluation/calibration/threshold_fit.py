"""Fits one threshold to marked items, and says how well it does on items that it was not fitted on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.verdict_model import OperatingPoint
from attribeam.evaluation.calibration.marked_items import MarkedItems
from attribeam.evaluation.measures.bootstrap import (
    Interval,
    best_threshold,
    percentile_interval,
    row_draws,
    source_folds,
)

FEWEST = 20
"""The fewest items of each kind that a threshold is fitted to."""

_DRAWS = 400
_STEP = 1e-6
"""What is added to a suspicion that is not to be called; audits record them with 32 bits."""
_Numbers = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]
Chooser = Callable[[_Numbers, _Flags], float]
"""Chooses the suspicion from which on items are called, given suspicions and whether the items lack support."""


@dataclass(frozen=True, slots=True)
class CallFigures:
    """What calling items gives, as shares; ``missing`` shares of no items are 0."""

    precision: float
    recall: float
    false_alarms: float
    f1: float


@dataclass(frozen=True, slots=True)
class FittedThreshold:
    """A threshold of suspicion, and what it does.

    Attributes:
        threshold: items are called from this suspicion on.
        threshold_interval: over resamples of the answers, each with a threshold of its own.
        figures: on items of other answers than each threshold was fitted on (five folds).
        f1_interval, false_alarm_interval: of these figures, over resamples of the answers.
    """

    threshold: float
    threshold_interval: Interval
    figures: CallFigures
    f1_interval: Interval
    false_alarm_interval: Interval


@dataclass(frozen=True, slots=True)
class Need:
    """How many marked items of a kind there should be, and how many there are."""

    what: str
    needed: int
    found: int

    @property
    def more(self) -> int:
        """How many are to be marked yet."""
        return max(0, self.needed - self.found)


def needs(items: MarkedItems, what: str, false_alarm_rate: float | None) -> tuple[Need, Need]:
    """What fitting a threshold needs: items that lack support, and supported ones.

    A false-alarm rate is measured on supported items: where there are n, the smallest share but 0 is 1 / n.
    """
    supported = FEWEST if not false_alarm_rate else max(FEWEST, math.ceil(1 / false_alarm_rate))
    lacking = int(items.lacking.sum())
    return (
        Need(f"{what} that lack support", FEWEST, lacking),
        Need(f"{what} that are supported", supported, len(items) - lacking),
    )


def chooser(false_alarm_rate: float | None) -> Chooser:
    """The threshold with the best F1, or the lowest one with at most a share of false alarms."""
    if false_alarm_rate is None:
        return best_threshold
    return lambda suspicion, lacking: _within_rate(suspicion, lacking, false_alarm_rate)


def _within_rate(suspicion: _Numbers, lacking: _Flags, rate: float) -> float:
    """The lowest threshold that calls at most ``rate`` of the supported items; ties are called together."""
    supported = np.sort(suspicion[~lacking])[::-1]
    if not len(supported):
        return -np.inf
    allowed = math.floor(rate * len(supported))
    if allowed >= len(supported):
        return -np.inf
    limit = float(supported[allowed])
    above = suspicion[suspicion > limit]
    return (limit + float(above.min())) / 2 if len(above) else limit + _STEP


def fit_threshold(items: MarkedItems, choose: Chooser, *, seed: int) -> FittedThreshold:
    """Fit on all items; measure on folds of answers."""
    called = _out_of_fold_calls(items, choose, seed=seed)
    answers = np.unique(items.answers, return_inverse=True)[1]
    counts = row_draws(int(answers.max()) + 1, draws=_DRAWS, seed=seed)[:, answers]
    thresholds = np.array([_drawn_threshold(items, choose, draw) for draw in counts])
    finite = thresholds[np.isfinite(thresholds)]
    scored = [_figures(called, items.lacking, draw.astype(np.float64)) for draw in counts]
    return FittedThreshold(
        threshold=choose(items.suspicion, items.lacking),
        threshold_interval=percentile_interval(finite if len(finite) else np.zeros(1)),
        figures=call_figures(called, items.lacking),
        f1_interval=percentile_interval(np.array([one.f1 for one in scored])),
        false_alarm_interval=percentile_interval(np.array([one.false_alarms for one in scored])),
    )


def _drawn_threshold(items: MarkedItems, choose: Chooser, draw: npt.NDArray[np.int64]) -> float:
    suspicion, lacking = np.repeat(items.suspicion, draw), np.repeat(items.lacking, draw)
    return choose(suspicion, lacking) if lacking.any() and not lacking.all() else math.nan


def _out_of_fold_calls(items: MarkedItems, choose: Chooser, *, seed: int) -> _Flags:
    folds = source_folds(items.answers.tolist(), seed=seed)
    called = np.zeros(len(items), np.bool_)
    for fold in np.unique(folds):
        inside = folds == fold
        threshold = choose(items.suspicion[~inside], items.lacking[~inside])
        called[inside] = items.suspicion[inside] >= threshold
    return called


def call_figures(called: _Flags, lacking: _Flags) -> CallFigures:
    """The figures of some calls."""
    return _figures(called, lacking, np.ones(len(called)))


def _figures(called: _Flags, lacking: _Flags, weights: _Numbers) -> CallFigures:
    both, calls, marked = (float(weights[one].sum()) for one in (called & lacking, called, lacking))
    clean = float(weights.sum()) - marked
    return CallFigures(
        precision=both / calls if calls else 0.0,
        recall=both / marked if marked else 0.0,
        false_alarms=(calls - both) / clean if clean else 0.0,
        f1=2 * both / (calls + marked) if calls + marked else 0.0,
    )


_POINTS = 40


def operating_points(risks: npt.NDArray[np.float64], marked: _Flags) -> list[dict[str, float]]:
    """What thresholds over the whole range of the risks give, ascending, as ``OperatingPoint`` reads it."""
    levels = np.unique(np.round(np.quantile(risks, np.linspace(0, 1, _POINTS + 1)[1:-1]), 4))
    points = [
        OperatingPoint(
            answer_risk=float(level),
            precision=_mean(marked[risks >= level]),
            recall=_mean(risks[marked] >= level),
            false_alarms=_mean(risks[~marked] >= level),
        )
        for level in levels
    ]
    return [{name: round(value, 4) for name, value in asdict(point).items()} for point in points]


def _mean(items: _Flags) -> float:
    return float(items.mean()) if len(items) else 0.0

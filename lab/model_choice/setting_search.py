"""Chooses the setting that is right most often on labelled rows, with two guards against overfitting.

Of many settings tried on few rows the best one is partly lucky. So the layer is chosen first, all of them at their most
usual setting, one for each, which leaves few to be lucky. Of the settings of that layer one is only preferred to a more
usual one if it is better by more than one standard error. The choice itself is judged by cross-validation: made on four
fifths of the rows and scored on the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from attribeam.lab.evaluation.measures.bootstrap import Interval, RowBootstrap
from attribeam.lab.evaluation.measures.source_folds import source_folds

ROUNDS = 10
LEAST_SOURCES = 10
_ROUNDING = 1e-9
_Setting = TypeVar("_Setting", bound=Hashable)
_Numbers = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Spread:
    """An accuracy in percent by cross-validation: the mean of all rounds, the least and the most of one."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Choice(Generic[_Setting]):
    """The chosen setting.

    Attributes:
        setting: the choice on all rows.
        accuracy: of the choice on the rows that it was made on, in percent; partly luck.
        cross_validated: of choices on rows that they were not made on.
        usual, usual_accuracy: the setting that needs no choice, and its accuracy on all rows in percent.
        gain: the interval over rows of how much better than the usual setting the cross-validated choices are, in
            percent; it says more than the spread of the rounds, which share their rows.
        chosen: how often each setting was chosen in the folds of all rounds, the most frequent first.
        level: the settings that are behind the best of all by no more than a standard error, in the order given: what
            the rows cannot tell apart. The choice itself need not be one of them.
    """

    setting: _Setting
    accuracy: float
    cross_validated: Spread
    usual: _Setting
    usual_accuracy: float
    gain: Interval
    chosen: Mapping[_Setting, int]
    level: tuple[_Setting, ...]

    @property
    def is_gain(self) -> bool:
        """Whether the choices are better than the usual setting, beyond what the rows leave open."""
        return self.gain.low > 0


def choose(
    credits: Mapping[_Setting, Sequence[float]],
    *,
    layer_of: Callable[[_Setting], Hashable],
    spans: Sequence[int],
    sources: Sequence[Hashable],
    seed: int = 0,
) -> Choice[_Setting]:
    """The best setting of the best layer, and how good such choices are.

    Args:
        credits: for each setting the sum of its spans' credits per row, the more usual settings first; a layer is
            judged by its first one. Of equally good settings or layers an earlier one is chosen.
        layer_of: the layer that a setting belongs to.
        spans: the number of spans per row.
        sources: what each row is from; rows of one source are never on both sides of a fold.
        seed: of the folds.

    Raises:
        ValueError: if there is no setting, or there are fewer than ``LEAST_SOURCES`` sources.
    """
    count = len(set(sources))
    if not credits or count < LEAST_SOURCES:
        raise ValueError(
            f"a choice should have settings and {LEAST_SOURCES} sources of rows or more, had {len(credits)} and {count}"
        )
    settings, table = [*credits], np.array([*credits.values()], dtype=np.float64)
    sizes = np.array(spans, dtype=np.float64)
    layers = _layer_masks([layer_of(setting) for setting in settings])
    best = _best(table, layers, sizes)
    rounds, chosen = _cross_validated(table, layers, sizes, sources, seed)
    accuracies = [_percent(one, sizes) for one in rounds]
    ahead = np.mean(rounds, axis=0) - table[0]
    usual, *_ = settings
    return Choice(
        setting=settings[best],
        accuracy=_percent(table[best], sizes),
        cross_validated=Spread(float(np.mean(accuracies)), min(accuracies), max(accuracies)),
        usual=usual,
        usual_accuracy=_percent(table[0], sizes),
        gain=RowBootstrap(spans, seed=seed).interval(ahead.tolist()),
        chosen={settings[index]: count for index, count in chosen.most_common()},
        level=tuple(settings[index] for index in np.flatnonzero(_level(table, sizes))),
    )


def _cross_validated(
    table: _Numbers, layers: Sequence[_Flags], sizes: _Numbers, sources: Sequence[Hashable], seed: int
) -> tuple[list[_Numbers], Counter[int]]:
    """What the choices of each round scored, float64 [rows], and how often each setting was chosen."""
    rounds, chosen = [], Counter[int]()
    for round_number in range(ROUNDS):
        folds = source_folds(sources, seed=seed + round_number)
        scored = np.zeros(len(sizes))
        for fold in np.unique(folds):
            best = _best(table[:, folds != fold], layers, sizes[folds != fold])
            chosen[best] += 1
            scored[folds == fold] = table[best, folds == fold]
        rounds.append(scored)
    return rounds, chosen


def _layer_masks(layers: Sequence[Hashable]) -> list[_Flags]:
    """For each layer which settings are its own, bool [settings]; the layers in the order of their first setting."""
    return [np.array([one == layer for one in layers]) for layer in dict.fromkeys(layers)]


def _best(table: _Numbers, layers: Sequence[_Flags], sizes: _Numbers) -> int:
    """Of the layer that is best at its first setting, the first setting that is level with the layer's best one."""
    totals = table.sum(1)
    layer = max(layers, key=lambda mask: totals[np.argmax(mask)])
    own = np.flatnonzero(layer)
    return int(own[np.argmax(_level(table[own], sizes))])


def _level(table: _Numbers, sizes: _Numbers) -> _Flags:
    """Which settings are behind the best one by no more than a standard error of the difference, bool [settings].

    The standard error is that of a mean per span whose rows are drawn independently. One row more is just that, which
    rounding must not turn into more.
    """
    top = table[int(np.argmax(table.sum(1)))]
    behind = top - table
    rows = behind.shape[1]
    spread = behind - behind.sum(1, keepdims=True) / sizes.sum() * sizes
    errors = np.sqrt((spread**2).sum(1) * rows / max(rows - 1, 1))
    level: _Flags = behind.sum(1) <= errors * (1 + _ROUNDING)
    return level


def _percent(credits: _Numbers, sizes: _Numbers) -> float:
    return 100 * float(credits.sum() / sizes.sum())

"""What each signal of the verdict is worth: how much the order of held-out answers suffers when it is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.state_probe import ProbeShares
from attribeam.lab.evaluation.measures.bootstrap import RankedItems
from attribeam.lab.evaluation.measures.source_folds import source_folds
from attribeam.lab.training.verdict.cross_validation import Scored, fit_parts, scored
from attribeam.lab.training.verdict.verdict_rows import VerdictRow
from attribeam.lab.training.verdict.word_fitting import PROBE_SHARES


@dataclass(frozen=True, slots=True)
class SignalWorth:
    """What is lost without a signal, in points of AUROC times 100; below zero if shuffling it helps.

    Attributes:
        signal: its name.
        answers: loss in ranking answers by their risk.
        words: loss in ranking words by their log odds.
    """

    signal: str
    answers: float
    words: float


def signal_importance(
    rows: Sequence[VerdictRow],
    signals: Sequence[str],
    *,
    folds: int,
    seed: int,
    probe_shares: ProbeShares = PROBE_SHARES,
    progress: Callable[[str], object] = lambda _: None,
) -> list[SignalWorth]:
    """The worth of each of the ``signals``, greatest first, by permutation (Breiman 2001) on sources not fitted on.

    A signal is shuffled among all words of a fold, so a number that is the same for a whole answer is shuffled, too.
    Signals that say nearly the same stand in for each other, and each seems worth little.
    """
    columns = {name: rows[0].signals.names.index(name) for name in signals}
    outside = source_folds([row.source for row in rows], seed=seed)
    whole: list[Scored] = []
    shuffled: dict[str, list[Scored]] = {name: [] for name in signals}
    held_out: list[VerdictRow] = []
    draw = np.random.default_rng(seed)
    for fold in np.unique(outside).tolist():
        others = [row for row, one in zip(rows, outside, strict=True) if one != fold]
        parts = fit_parts(others, folds=folds, seed=seed, probe_shares=probe_shares)
        some = [row for row, one in zip(rows, outside, strict=True) if one == fold]
        held_out += some
        whole += scored(parts, some)
        for name, column in columns.items():
            shuffled[name] += scored(parts, _shuffled(some, column, draw))
            progress(name)
    answers, words = _auroc_of_answers(held_out, whole), _auroc_of_words(held_out, whole)
    found = [
        SignalWorth(
            name,
            answers=100 * (answers - _auroc_of_answers(held_out, scores)),
            words=100 * (words - _auroc_of_words(held_out, scores)),
        )
        for name, scores in shuffled.items()
    ]
    return sorted(found, key=lambda one: (-one.answers, one.signal))


def _shuffled(rows: Sequence[VerdictRow], column: int, draw: np.random.Generator) -> list[VerdictRow]:
    values = np.concatenate([row.signals.values for row in rows])
    values[:, column] = draw.permutation(values[:, column])
    ends = np.cumsum([len(row.signals.words) for row in rows])[:-1]
    return [
        replace(row, signals=replace(row.signals, values=part))
        for row, part in zip(rows, np.split(values, ends), strict=True)
    ]


def _auroc_of_answers(rows: Sequence[VerdictRow], scores: Sequence[Scored]) -> float:
    return _auroc([one.answer for one in scores], [row.is_marked for row in rows])


def _auroc_of_words(rows: Sequence[VerdictRow], scores: Sequence[Scored]) -> float:
    return _auroc(
        np.concatenate([one.words for one in scores]).tolist(),
        np.concatenate([row.marked_words for row in rows]).tolist(),
    )


def _auroc(numbers: Sequence[float], right: Sequence[bool]) -> float:
    once: npt.NDArray[np.int64] = np.ones((1, len(numbers)), dtype=np.int64)
    return RankedItems(numbers=numbers, right=right, rows=range(len(numbers))).auroc(once).value

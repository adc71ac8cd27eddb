"""What a fitted verdict is worth on sources, generators or tasks that it was not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.verdict_model import VerdictThresholds
from attribeam.lab.evaluation.measures.bootstrap import RankedItems, f1_figures, row_draws
from attribeam.lab.evaluation.report import text_table
from attribeam.lab.training.verdict.cross_validation import CrossValidation, Scored
from attribeam.lab.training.verdict.operating_points import called_words, choose_thresholds
from attribeam.lab.training.verdict.unmatched_claims import UnmatchedShares, unmatched_shares, with_unmatched
from attribeam.lab.training.verdict.verdict_rows import VerdictRow

_DRAWS = 1000
_HEADER = ("answers", "all", "marked", "AUROC", "precision %", "recall %", "F1 %", "false alarms %", "characters F1 %")


def report(rows: Sequence[VerdictRow], found: CrossValidation) -> str:
    """A table over all rows, each task and each generator; each fold's thresholds are chosen on the other folds."""
    scores = list(found.scores)
    called: list[npt.NDArray[np.bool_]] = [np.empty(0, dtype=bool)] * len(rows)
    for fold in range(len(found.parts)):
        limits = fold_thresholds(rows, found, fold)
        own = found.of(fold)
        shares = UnmatchedShares(limits.unmatched, limits.unmatched_risk)
        limited = with_unmatched([rows[one] for one in own], [scores[one] for one in own], shares)
        for place, one in zip(own, limited, strict=True):
            scores[place] = one
            called[place] = _called(rows[place], one, limits)
    groups = [("all", np.ones(len(rows), dtype=bool))]
    for name in ("group", "generator"):
        values = [getattr(row, name) for row in rows]
        groups += [(value, np.array([one == value for one in values])) for value in sorted(set(values))]
    return text_table(_HEADER, [_line(name, rows, scores, called, inside) for name, inside in groups])


def fold_thresholds(rows: Sequence[VerdictRow], found: CrossValidation, fold: int) -> VerdictThresholds:
    """The thresholds of one fold, chosen on what is said of all others."""
    others = found.others(fold)
    some, scores = [rows[one] for one in others], [found.scores[one] for one in others]
    shares = unmatched_shares(some)
    return choose_thresholds(some, with_unmatched(some, scores, shares), shares)


def _called(row: VerdictRow, one: Scored, limits: VerdictThresholds) -> npt.NDArray[np.bool_]:
    """The words that are named, none where the answer is not flagged; a flagged answer names at least one."""
    if 1 / (1 + np.exp(-one.answer)) < limits.answer_risk:
        return np.zeros(len(row.signals.words), dtype=bool)
    return called_words(row, one, limits)


def _line(
    name: str,
    rows: Sequence[VerdictRow],
    scores: Sequence[Scored],
    called: Sequence[npt.NDArray[np.bool_]],
    inside: npt.NDArray[np.bool_],
) -> tuple[Any, ...]:
    places = np.flatnonzero(inside).tolist()
    marked = np.array([rows[place].is_marked for place in places])
    draws = row_draws(len(places), draws=_DRAWS, seed=0)
    flagged = np.array([bool(called[place].any()) for place in places])
    hits = int((marked & flagged).sum())
    common = sum(int(rows[place].letters[called[place] & rows[place].marked_words].sum()) for place in places)
    letters = sum(
        int(rows[place].letters[called[place]].sum() + rows[place].letters[rows[place].marked_words].sum())
        for place in places
    )
    return (
        name,
        str(len(places)),
        str(int(marked.sum())),
        _auroc([scores[place].answer for place in places], marked, draws),
        f"{100 * hits / max(int(flagged.sum()), 1):.1f}",
        f"{100 * hits / max(int(marked.sum()), 1):.1f}",
        _f1(marked, flagged, draws),
        f"{100 * float(flagged[~marked].mean()) if (~marked).any() else 0:.1f}",
        f"{200 * common / max(letters, 1):.1f}",
    )


def _auroc(risks: Sequence[float], marked: npt.NDArray[np.bool_], draws: npt.NDArray[np.int64]) -> str:
    if marked.all() or not marked.any():
        return "-"
    found = RankedItems(numbers=risks, right=marked.tolist(), rows=range(len(risks))).auroc(draws)
    return f"{found.value:.3f} ({found.interval.low:.3f} to {found.interval.high:.3f})"


def _f1(marked: npt.NDArray[np.bool_], flagged: npt.NDArray[np.bool_], draws: npt.NDArray[np.int64]) -> str:
    found = f1_figures(
        common=(marked & flagged).tolist(), called=flagged.tolist(), marked=marked.tolist(), row_counts=draws
    )
    return f"{found.f1:.1f} ({found.f1_interval.low:.1f} to {found.f1_interval.high:.1f})"

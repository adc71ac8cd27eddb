"""What a cross-validated verdict is worth: its thresholds, what each risk gives, and tables by set and by length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from attribeam.attribution.verdict.verdict_model import VerdictThresholds
from attribeam.evaluation.measures import text_table
from attribeam.evaluation.thresholds import operating_points
from lab.training.verdict.fitting import Scored
from lab.training.verdict.verdict_rows import VerdictRow

LIMITS = VerdictThresholds(lenient=0.33, balanced=0.5, strict=0.58, supported=0.61, word=1.0, weak_word=1.0)
"""The thresholds of claims: scores are probabilities for an even prior, so they are the same for every fit."""
_SHORT = 3
"""Answers with so many claims, or fewer, are short."""
_LONG_SETS = frozenset({"ragtruth", "ragtruth_qa", "log", "web", "trades"})
_SHORT_SETS = frozenset({"trial", "begin", "factcg", "log", "everyday", "claim_rows"})
_WORD_SETS = frozenset({"ragtruth", "log"})
_WORD_CHOICES = np.arange(0.06, 0.4, 0.02)
_WEAK_WORD_CHOICES = np.arange(0.1, 0.7, 0.05)
_LENGTHS = (("1 claim", 1, 1), ("2 to 5 claims", 2, 5), ("more claims", 6, 10**6))
_HEADER = (
    "answers", "all", "unsupported", "AUROC", "F1 %", "precision %", "recall %", "false alarms %",
    "balanced accuracy %", "characters F1 %",
)  # fmt: skip
_RISK_HEADER = ("answers", "all", "mean risk", "share unsupported")
_RISK_LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8)
_Flags = npt.NDArray[np.bool_]


def points_by_length(rows: Sequence[VerdictRow], scores: Sequence[Scored]) -> dict[str, list[dict[str, float]]]:
    """The points of long and of short answers, by their names in a verdict's file; of all, where a kind has none."""
    risks = _probability([score.answer for score in scores])
    marked = np.array([row.is_marked for row in rows])
    points = {}
    for name, own in _by_length(rows).items():
        inside = own if own.any() else np.ones(len(rows), dtype=bool)
        points["short_" * (name == "short") + "operating_points"] = operating_points(risks[inside], marked[inside])
    return points


def choose_thresholds(rows: Sequence[VerdictRow], scores: Sequence[Scored]) -> VerdictThresholds:
    """The fixed thresholds of claims, and those of words with the best F1 of characters that people marked."""
    some = [pair for pair in zip(rows, scores, strict=True) if pair[0].set_name in _WORD_SETS and pair[0].has_marks]
    limits = LIMITS
    for name, choices in (("word", _WORD_CHOICES), ("weak_word", _WEAK_WORD_CHOICES)):
        tried = [replace(limits, **{name: round(float(choice), 4)}) for choice in choices]
        limits = max(tried, key=lambda limit: _character_f1(some or list(zip(rows, scores, strict=True)), limit))
    return limits


def _character_f1(some: Sequence[tuple[VerdictRow, Scored]], limits: VerdictThresholds) -> float:
    """From 0 to 1, over the words that people judged."""
    common = called = marked = 0
    for row, score in some:
        letters = row.letters * (row.word_weights > 0)
        chosen = called_words(row, score, limits)
        common += int(letters[chosen & row.marked_words].sum())
        called += int(letters[chosen].sum())
        marked += int(letters[row.marked_words].sum())
    return 2 * common / max(called + marked, 1)


def called_words(row: VerdictRow, scored: Scored, limits: VerdictThresholds) -> _Flags:
    """Which words an audit names: none where no claim is unsupported, at least one of each unsupported claim."""
    columns = {word: column for column, word in enumerate(row.signals.words)}
    chosen = np.zeros(len(columns), dtype=bool)
    support, suspicion = 1 - _probability(scored.claims), _probability(scored.words)
    if support.min() >= limits.balanced:
        return chosen
    for score, words in zip(support, row.claims, strict=True):
        own = np.array([columns[word] for word in words if word in columns], dtype=np.intp)
        if score < limits.balanced:
            chosen[own] |= suspicion[own] >= min(limits.word, float(suspicion[own].max()))
        elif score < limits.supported:
            chosen[own] |= suspicion[own] >= limits.weak_word
    return chosen


def tables(rows: Sequence[VerdictRow], scores: Sequence[Scored], limits: VerdictThresholds) -> str:
    """A line for each set, each of its parts and kinds of rows, and each number of claims; then how far risks hold."""
    from sklearn.metrics import roc_auc_score  # only the extra "training" brings it

    lines = []
    risks = _probability([score.answer for score in scores])
    for name, inside in _groups(rows):
        indices = np.flatnonzero(inside).tolist()
        marked = np.array([rows[index].is_marked for index in indices])
        own = risks[indices]
        flagged = own > 1 - limits.balanced
        hits, alarms = _share(flagged[marked]), _share(flagged[~marked])
        common = int((marked & flagged).sum())
        with_marks = [(rows[index], scores[index]) for index in indices if rows[index].has_marks]
        both = marked.any() and not marked.all()
        lines.append(
            (
                name,
                str(len(indices)),
                str(int(marked.sum())),
                f"{roc_auc_score(marked, own):.3f}" if both else "-",
                _percent(2 * common / max(int(marked.sum() + flagged.sum()), 1)),
                _percent(_share(marked[flagged])),
                _percent(hits),
                _percent(alarms),
                _percent((hits + 1 - alarms) / 2) if both else "-",
                _percent(_character_f1(with_marks, limits)) if with_marks else "-",
            )
        )
    return "\n\n".join([text_table(_HEADER, lines), text_table(_RISK_HEADER, [*_reliability(rows, risks)])])


def _groups(rows: Sequence[VerdictRow]) -> Iterator[tuple[str, _Flags]]:
    counts = np.array([len(row.claims) for row in rows])
    sets = np.array([row.set_name for row in rows])
    parts = np.array([row.part for row in rows])
    kinds = np.array([row.signals.kind.value for row in rows])
    for name in dict.fromkeys(sets.tolist()):
        own = sets == name
        groups = [(part, own & (parts == part)) for part in dict.fromkeys(parts[own].tolist())]
        groups += [(kind, own & (kinds == kind)) for kind in dict.fromkeys(kinds[own].tolist())]
        groups += [(length, own & (fewest <= counts) & (counts <= most)) for length, fewest, most in _LENGTHS]
        yield name, own
        yield from ((f"{name}: {part}", mask) for part, mask in groups if mask.any() and not np.array_equal(mask, own))


def _reliability(rows: Sequence[VerdictRow], risks: npt.NDArray[np.float64]) -> Iterator[tuple[str, ...]]:
    """For short and for long answers, by risk: how many there are, their mean risk and their share of unsupported."""
    marked = np.array([row.is_marked for row in rows])
    for length, own in _by_length(rows).items():
        for low in _RISK_LEVELS:
            inside = own & (low <= risks) & (risks < low + _RISK_LEVELS[1])
            if inside.any():
                numbers = (f"{risks[inside].mean():.2f}", f"{_share(marked[inside]):.2f}")
                yield f"{length}, risk from {low:.1f}", str(int(inside.sum())), *numbers


def _by_length(rows: Sequence[VerdictRow]) -> dict[str, _Flags]:
    return {
        name: np.array([row.set_name in sets and (len(row.claims) <= _SHORT) is is_short for row in rows])
        for name, sets, is_short in (("long", _LONG_SETS, False), ("short", _SHORT_SETS, True))
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _share(items: _Flags) -> float:
    return float(items.mean()) if len(items) else 0.0


def _probability(log_odds: npt.NDArray[np.float64] | Sequence[float]) -> npt.NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-np.asarray(log_odds, dtype=np.float64))))

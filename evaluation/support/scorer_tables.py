"""Scorers of the same answers compared: figures and tables.

The figures of several scorers of the same answers, under one protocol.

Intervals are over resamples of answers. A threshold that is chosen on the data is chosen for each fold of sources on
all other folds, and once for all groups; resamples keep it.

Tables of scorers: ranking, verdicts on answers, characters, and whether probabilities are what they say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from attribeam.evaluation.measures.bootstrap import (
    Auroc,
    F1Figures,
    Interval,
    RankedItems,
    f1_figures,
    row_draws,
    source_folds,
)
from attribeam.evaluation.measures.verdicts import (
    PrecisionAt,
    RankCorrelation,
    Reliability,
    Share,
    VerdictFigures,
    precision_at,
    rank_correlation,
    reliability,
    verdict_figures,
)
from attribeam.evaluation.report import interval_cell, text_table
from attribeam.evaluation.support.chosen_verdicts import Calls, Flags, ScoredAnswers, scored_answers
from attribeam.evaluation.support.judged_parts import JudgedPart, JudgedParts
from attribeam.evaluation.support.scorers import ScoredAnswer, Scorer

FIRST = (10, 50, 100)
"""The lengths of rankings whose precision is given."""

ALL = "all"

_Value = TypeVar("_Value")
_Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KindVerdicts:
    """Answers that are unsupported in one way, and the percentage of them that is called."""

    kind: str
    answers: int
    called: float


@dataclass(frozen=True, slots=True)
class GradeVerdicts:
    """Answers whose mean grade lies in [``grade``, ``grade`` + 1), the percentage called, and their mean risk."""

    grade: int
    answers: int
    called: float
    mean_risk: float


@dataclass(frozen=True, slots=True)
class ScorerFigures:
    """The figures of one scorer; None where the labels or the scorer have nothing to compare.

    Attributes:
        scorer: its name.
        verdict: answers, by the scorer's own threshold.
        chosen_verdict: answers, by the threshold with the best F1 on other sources.
        balanced_verdict: answers, by the threshold with the best balanced accuracy on other sources.
        answers, sentences, claims: AUROC, of unsupported ones against all others.
        precision_at: among the answers with the largest risks.
        rank_correlation: of the answer's risk and minus people's mean grade.
        characters: by the scorer's own threshold.
        chosen_characters: by the threshold on its parts' risks with the best F1 on other sources.
        claim_verdicts, chosen_claim_verdicts: the same for claims.
        answer_reliability, claim_reliability: whether risks are probabilities, if they are meant so.
        kinds: of unsupported answers, by the scorer's own threshold, else by the one with the best balanced accuracy.
        grades: of all answers, by the same threshold; empty where people gave no grades.
    """

    scorer: str
    verdict: VerdictFigures | None
    chosen_verdict: VerdictFigures | None
    balanced_verdict: VerdictFigures | None
    answers: Auroc | None
    sentences: Auroc | None
    claims: Auroc | None
    precision_at: tuple[PrecisionAt, ...]
    rank_correlation: RankCorrelation | None
    characters: F1Figures | None
    chosen_characters: F1Figures | None
    claim_verdicts: F1Figures | None
    chosen_claim_verdicts: F1Figures | None
    answer_reliability: Reliability | None
    claim_reliability: Reliability | None
    kinds: tuple[KindVerdicts, ...]
    grades: tuple[GradeVerdicts, ...]


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """All scorers on one group of answers, or on all."""

    group: str
    answers: int
    marked_answers: int
    sentences: int
    claims: int
    scorers: tuple[ScorerFigures, ...]


def compare_scorers(
    parts: Sequence[JudgedParts], scorers: Sequence[Scorer], *, draws: int, seed: int
) -> tuple[GroupComparison, ...]:
    """The figures of all answers, then of each group if there are several.

    Args:
        parts: the judged answers, at least one.
        scorers: what is compared, in the order of the tables.
        draws: number of resamples.
        seed: that of resamples and folds.

    Raises:
        ValueError: if there is no answer.
    """
    row_counts = row_draws(len(parts), draws=draws, seed=seed)
    folds = source_folds([one.source for one in parts], seed=seed)
    scored = [scored_answers(scorer, parts, folds) for scorer in scorers]
    groups = sorted({one.answer.group for one in parts if one.answer.group is not None})
    everything = list(range(len(parts)))
    compared = [_comparison(ALL, everything, parts, scored, row_counts)]
    for group in groups if len(groups) > 1 else ():
        own = [row for row in everything if parts[row].answer.group == group]
        compared.append(_comparison(group, own, parts, scored, row_counts))
    return tuple(compared)


def _comparison(
    name: str, own: Sequence[int], parts: Sequence[JudgedParts], scored: Sequence[ScoredAnswers], row_counts: _Counts
) -> GroupComparison:
    chosen = [parts[row] for row in own]
    return GroupComparison(
        group=name,
        answers=len(own),
        marked_answers=sum(one.is_marked for one in chosen),
        sentences=sum(len(one.sentences) for one in chosen),
        claims=sum(len(one.claims) for one in chosen),
        scorers=tuple(_GroupOfScorer(own, chosen, one, row_counts[:, own]).figures() for one in scored),
    )


class _GroupOfScorer:
    """The figures of one scorer on one group; ``own`` are the group's rows among all."""

    def __init__(
        self, own: Sequence[int], parts: Sequence[JudgedParts], scored: ScoredAnswers, row_counts: _Counts
    ) -> None:
        self._own = own
        self._parts = parts
        self._scored = scored
        self._row_counts = row_counts
        self._answers = [scored.answers[row] for row in own]
        self._marked = [one.is_marked for one in parts]
        self._risks = [one.risk for one in self._answers]

    def figures(self) -> ScorerFigures:
        """All figures of the group."""
        scored, counts = self._scored, self._row_counts
        own_calls = [one.called for one in self._answers if one.called is not None]
        has_verdict = len(own_calls) == len(self._answers)
        chosen = self._of_group(scored.calls)
        balanced = self._of_group(scored.balanced_calls)
        flagged = [one.flagged for one in self._answers if one.flagged is not None]
        ranked = [precision_at(first, self._risks, self._marked, counts) for first in FIRST]
        return ScorerFigures(
            scorer=scored.scorer.name,
            verdict=verdict_figures(own_calls, self._marked, counts) if has_verdict else None,
            chosen_verdict=None if chosen is None else verdict_figures(chosen, self._marked, counts),
            balanced_verdict=None if balanced is None else verdict_figures(balanced, self._marked, counts),
            answers=self._auroc(self._risks, self._marked, list(range(len(self._own)))),
            sentences=self._part_auroc(lambda one: one.sentences, lambda one: one.sentences),
            claims=self._part_auroc(lambda one: one.claims, lambda one: one.claims),
            precision_at=tuple(one for one in ranked if one is not None),
            rank_correlation=self._rank_correlation(),
            characters=self._characters(flagged) if len(flagged) == len(self._answers) else None,
            chosen_characters=self._characters(self._of_group(scored.flags)),
            claim_verdicts=self._claims([one.called_claims for one in self._answers]),
            chosen_claim_verdicts=self._claims(self._of_group(scored.claim_calls)),
            answer_reliability=self._answer_reliability(),
            claim_reliability=self._claim_reliability(),
            kinds=tuple(self._kinds(own_calls if has_verdict else balanced)),
            grades=tuple(self._grades(own_calls if has_verdict else balanced)),
        )

    def _of_group(self, values: Sequence[_Value] | None) -> list[_Value] | None:
        return None if values is None else [values[row] for row in self._own]

    def _auroc(self, risks: Sequence[float], marked: Sequence[bool], rows: Sequence[int]) -> Auroc | None:
        if all(marked) or not any(marked):
            return None
        if not self._scored.scorer.has_order:
            return Auroc(0.5, Interval(0.5, 0.5))
        return RankedItems(numbers=risks, right=marked, rows=rows).auroc(self._row_counts)

    def _part_auroc(
        self,
        parts: Callable[[JudgedParts], Sequence[JudgedPart]],
        risks: Callable[[ScoredAnswer], Sequence[float]],
    ) -> Auroc | None:
        return self._auroc(*self._items(parts, risks)) if self._scored.scorer.scores_parts else None

    def _items(
        self,
        parts: Callable[[JudgedParts], Sequence[JudgedPart]],
        risks: Callable[[ScoredAnswer], Sequence[float]],
    ) -> tuple[list[float], list[bool], list[int]]:
        """The risks, marks and rows of all parts that people judged."""
        items = [
            (risk, part.is_marked, row)
            for row, (one, answer) in enumerate(zip(self._parts, self._answers, strict=True))
            for part, risk in zip(parts(one), risks(answer), strict=True)
            if part.is_marked is not None
        ]
        return [risk for risk, _, _ in items], [mark for _, mark, _ in items], [row for _, _, row in items]

    def _rank_correlation(self) -> RankCorrelation | None:
        grades = [one.answer.faithfulness for one in self._parts if one.answer.faithfulness is not None]
        if len(grades) < len(self._parts):
            return None
        return rank_correlation(self._risks, [-grade for grade in grades], self._row_counts)

    def _characters(self, flags: Sequence[Flags] | None) -> F1Figures | None:
        marks = [one.marked for one in self._parts if one.marked is not None]
        if flags is None or len(marks) < len(self._parts):
            return None
        return f1_figures(
            common=[len(flag & mark) for flag, mark in zip(flags, marks, strict=True)],
            called=[len(flag) for flag in flags],
            marked=[len(mark) for mark in marks],
            row_counts=self._row_counts,
        )

    def _claims(self, calls: Sequence[Calls | None] | None) -> F1Figures | None:
        """Claims that are called compared with those that are marked."""
        if calls is None or not any(one.claims for one in self._parts):
            return None
        common, called, marked = [], [], []
        for one, own in zip(self._parts, calls, strict=True):
            marks = [part.is_marked for part in one.claims]
            if own is None or None in marks:
                return None
            common.append(sum(call and bool(mark) for call, mark in zip(own, marks, strict=True)))
            called.append(sum(own))
            marked.append(sum(map(bool, marks)))
        return f1_figures(common=common, called=called, marked=marked, row_counts=self._row_counts)

    def _answer_reliability(self) -> Reliability | None:
        if not self._scored.scorer.has_probabilities:
            return None
        return reliability(self._risks, self._marked, range(len(self._own)), self._row_counts)

    def _claim_reliability(self) -> Reliability | None:
        if not self._scored.scorer.has_probabilities:
            return None
        return reliability(*self._items(lambda one: one.claims, lambda one: one.claims), self._row_counts)

    def _kinds(self, calls: Sequence[bool] | None) -> list[KindVerdicts]:
        if calls is None:
            return []
        kinds = [set(one.answer.error_kinds) for one in self._parts]
        found = []
        for kind in sorted(set().union(*kinds)):
            own = [call for call, has in zip(calls, kinds, strict=True) if kind in has]
            found.append(KindVerdicts(kind, len(own), 100 * sum(own) / len(own)))
        return found

    def _grades(self, calls: Sequence[bool] | None) -> list[GradeVerdicts]:
        grades = [math.floor(one.answer.faithfulness) for one in self._parts if one.answer.faithfulness is not None]
        if calls is None or len(grades) < len(self._parts) or not self._scored.scorer.has_order:
            return []
        found = []
        for grade in sorted(set(grades)):
            own = [place for place, one in enumerate(grades) if one == grade]
            called, risk = (fmean(numbers[place] for place in own) for numbers in (calls, self._risks))
            found.append(GradeVerdicts(grade, len(own), 100 * called, risk))
        return found


_OWN = "its own"
_CHOSEN = "best F1 elsewhere"
_BALANCED = "best balance elsewhere"
_INTERVAL = "95% interval"
_VERDICT_HEADER = (
    *("answers", "threshold", "precision %", "recall %", "F1 %", _INTERVAL),
    *("balanced %", _INTERVAL, "false alarms %", _INTERVAL),
)
_CLAIM_HEADER = ("claims", "threshold", "precision %", "recall %", "F1 %", _INTERVAL)
_CHARACTER_HEADER = ("characters", *_CLAIM_HEADER[1:])
_RELIABILITY_HEADER = ("mean risk", "share marked", "number")
_NOTE = (
    "thresholds: 'elsewhere' means chosen in cross-validation, for each fifth of the sources on the other four, over "
    "all groups together; intervals do not include that choice"
)


def comparison_tables(dataset: str, groups: Sequence[GroupComparison]) -> list[str]:
    """The tables of all groups, then what their thresholds mean; nothing without groups."""
    tables = [table for group in groups for table in _group_tables(dataset, group)]
    return [*tables, _NOTE] if tables else []


def _group_tables(dataset: str, group: GroupComparison) -> Iterator[str]:
    names = ", ".join(one.scorer for one in group.scorers)
    yield f"{dataset}, {group.group}: {group.marked_answers} of {group.answers} answers unsupported; {names}"
    yield text_table(*_ranking(group))
    if group.answers >= FIRST[0]:
        yield text_table(*_precisions(group))
    yield text_table(_VERDICT_HEADER, [line for one in group.scorers for line in _verdict_lines(one)])
    for header, lines in (
        (_CLAIM_HEADER, [line for one in group.scorers for line in _claim_lines(one)]),
        (_CHARACTER_HEADER, [line for one in group.scorers for line in _character_lines(one)]),
    ):
        if lines:
            yield text_table(header, lines)
    if any(one.kinds for one in group.scorers):
        yield text_table(*_kinds(group))
    if any(one.grades for one in group.scorers):
        yield text_table(*_grades(group))
    for one in group.scorers:
        yield from _reliability_tables(one)
        yield from _false_alarm_lines(one, clean=group.answers - group.marked_answers)


def _ranking(group: GroupComparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    header = ["AUROC", "answers", _INTERVAL]
    has_sentences = any(one.sentences is not None for one in group.scorers)
    has_claims = any(one.claims is not None for one in group.scorers)
    has_grades = any(one.rank_correlation is not None for one in group.scorers)
    header += [f"{group.sentences} sentences", _INTERVAL] if has_sentences else []
    header += [f"{group.claims} claims", _INTERVAL] if has_claims else []
    header += ["Spearman", _INTERVAL] if has_grades else []
    lines = []
    for one in group.scorers:
        cells = _number_cells(one.answers)
        cells += _number_cells(one.sentences) if has_sentences else ()
        cells += _number_cells(one.claims) if has_claims else ()
        cells += _number_cells(one.rank_correlation) if has_grades else ()
        lines.append((one.scorer, *cells))
    return tuple(header), lines


def _precisions(group: GroupComparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    firsts = [first for first in FIRST if first <= group.answers]
    header = ["precision among the first", *(cell for first in firsts for cell in (f"{first}, %", _INTERVAL))]
    lines = [
        (one.scorer, *(cell for found in one.precision_at for cell in _share_cells(found.precision)))
        for one in group.scorers
    ]
    return tuple(header), lines


def _verdict_lines(one: ScorerFigures) -> Iterator[tuple[str, ...]]:
    thresholds = ((_OWN, one.verdict), (_CHOSEN, one.chosen_verdict), (_BALANCED, one.balanced_verdict))
    for threshold, verdict in thresholds:
        if verdict is not None:
            yield (one.scorer, threshold, *_verdict_cells(verdict))


def _verdict_cells(verdict: VerdictFigures) -> tuple[str, ...]:
    return (
        *(_share_cells(share)[0] for share in (verdict.precision, verdict.recall)),
        *(
            cell
            for share in (verdict.f1, verdict.balanced_accuracy, verdict.false_alarms)
            for cell in _share_cells(share)
        ),
    )


def _claim_lines(one: ScorerFigures) -> Iterator[tuple[str, ...]]:
    for threshold, figures in ((_OWN, one.claim_verdicts), (_CHOSEN, one.chosen_claim_verdicts)):
        if figures is not None:
            yield (one.scorer, threshold, *_f1_cells(figures))


def _character_lines(one: ScorerFigures) -> Iterator[tuple[str, ...]]:
    for threshold, figures in ((_OWN, one.characters), (_CHOSEN, one.chosen_characters)):
        if figures is not None:
            yield (one.scorer, threshold, *_f1_cells(figures))


def _f1_cells(figures: F1Figures) -> tuple[str, ...]:
    shares = [f"{share:.1f}" for share in (figures.precision, figures.recall, figures.f1)]
    return (*shares, interval_cell(figures.f1_interval))


def _reliability_tables(one: ScorerFigures) -> Iterator[str]:
    for what, found in (("answers", one.answer_reliability), ("claims", one.claim_reliability)):
        if found is not None:
            yield f"risks of {what} as probabilities, {one.scorer}: {_reliability_sums(found)}"
            lines = [(f"{part.mean_score:.3f}", f"{part.marked_share:.3f}", str(part.items)) for part in found.bins]
            yield text_table(_RELIABILITY_HEADER, lines)


def _reliability_sums(found: Reliability) -> str:
    errors = (
        ("calibration error", found.calibration_error, found.calibration_error_interval),
        ("Brier score", found.brier_score, found.brier_score_interval),
    )
    return ", ".join(f"{name} {value:.3f} ({interval_cell(interval, digits=3)})" for name, value, interval in errors)


def _kinds(group: GroupComparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    scorers = [one for one in group.scorers if one.kinds]
    header = ("called of the unsupported ones", "answers", *(f"{one.scorer}, %" for one in scorers))
    lines = [
        (kinds[0].kind, str(kinds[0].answers), *(f"{kind.called:.1f}" for kind in kinds))
        for kinds in zip(*(one.kinds for one in scorers), strict=True)
    ]
    return header, lines


def _grades(group: GroupComparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    scorers = [one for one in group.scorers if one.grades]
    columns = [(f"{one.scorer}: called %", "mean risk") for one in scorers]
    header = ("mean grade from", "answers", *(name for names in columns for name in names))
    lines = [
        (
            *(str(of_grade[0].grade), str(of_grade[0].answers)),
            *(cell for one in of_grade for cell in (f"{one.called:.1f}", f"{one.mean_risk:.3f}")),
        )
        for of_grade in zip(*(one.grades for one in scorers), strict=True)
    ]
    return header, lines


def _false_alarm_lines(one: ScorerFigures, *, clean: int) -> Iterator[str]:
    """The headline of a scorer that decides by itself and not always in the same way."""
    if one.verdict is not None and one.chosen_verdict is not None and one.verdict.false_alarms is not None:
        share, interval = _share_cells(one.verdict.false_alarms)
        yield f"{one.scorer} calls {share}% ({interval}) of the {clean} answers unsupported that people found clean"


def _share_cells(share: Share | None) -> tuple[str, str]:
    return ("", "") if share is None else (f"{share.value:.1f}", interval_cell(share.interval))


def _number_cells(figure: Auroc | RankCorrelation | None) -> tuple[str, ...]:
    return ("", "") if figure is None else (f"{figure.value:.3f}", interval_cell(figure.interval, digits=3))

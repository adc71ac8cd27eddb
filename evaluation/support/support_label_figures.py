"""How well the flags of an audit agree with what a person found unsupported, for all answers and for each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.measures.auroc import Auroc, RankedItems
from evaluation.measures.bootstrap import row_draws
from evaluation.measures.f1_figures import F1Figures, f1_figures
from evaluation.support.support_labels import LEVELS, AuditedAnswer

ALL = "all"


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """The figures of one way to read the flag.

    Attributes:
        level: one of ``LEVELS``.
        characters: of the characters called unsupported against those that a person marked, over all answers.
        answers: of the answers with an alarm against those in which a person marked something.
    """

    level: str
    characters: F1Figures
    answers: F1Figures


@dataclass(frozen=True, slots=True)
class KindRecall:
    """How many percent of the characters that a person marked as one kind are called unsupported, by level."""

    kind: str
    characters: int
    recall: dict[str, float]


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The figures of one group of answers, or of all.

    Attributes:
        answers, marked_answers: how many there are, and in how many a person marked something.
        levels: one for each of ``LEVELS``.
        answer_mass, answer_flag: AUROC of an answer's smallest number, for answers without marks against those with;
            None where one side is missing.
        span_mass, span_flag: the same for the audited spans.
        kinds: recall by the kind of mark.
    """

    group: str
    answers: int
    marked_answers: int
    levels: tuple[LevelFigures, ...]
    answer_mass: Auroc | None
    answer_flag: Auroc | None
    span_mass: Auroc | None
    span_flag: Auroc | None
    kinds: tuple[KindRecall, ...]


def group_figures(answers: Sequence[AuditedAnswer], *, draws: int, seed: int) -> tuple[GroupFigures, ...]:
    """The figures of all answers, then of each group where there are several.

    Raises:
        ValueError: if there is no answer.
    """
    row_counts = row_draws(len(answers), draws=draws, seed=seed)
    groups = sorted({answer.group for answer in answers if answer.group is not None})
    found = [_figures(ALL, answers, row_counts)]
    for group in groups if len(groups) > 1 else ():
        own = [place for place, answer in enumerate(answers) if answer.group == group]
        found.append(_figures(group, [answers[place] for place in own], row_counts[:, own]))
    return tuple(found)


def _figures(name: str, answers: Sequence[AuditedAnswer], row_counts: npt.NDArray[np.int64]) -> GroupFigures:
    right = [not answer.marked for answer in answers]
    spans = [(place, span) for place, answer in enumerate(answers) for span in answer.spans]
    span_right, span_rows = [not span.marked for _, span in spans], [place for place, _ in spans]
    rows = range(len(answers))
    return GroupFigures(
        group=name,
        answers=len(answers),
        marked_answers=len(answers) - sum(right),
        levels=tuple(_level(level, answers, row_counts) for level in LEVELS),
        answer_mass=_auroc([answer.lowest_mass for answer in answers], right, rows, row_counts),
        answer_flag=_auroc([answer.lowest_flag for answer in answers], right, rows, row_counts),
        span_mass=_auroc([span.evidence_mass for _, span in spans], span_right, span_rows, row_counts),
        span_flag=_auroc([span.flag for _, span in spans], span_right, span_rows, row_counts),
        kinds=tuple(_kind(kind, answers) for kind in sorted({kind for answer in answers for kind in answer.kinds})),
    )


def _level(level: str, answers: Sequence[AuditedAnswer], row_counts: npt.NDArray[np.int64]) -> LevelFigures:
    overlaps = [answer.overlaps[level] for answer in answers]
    return LevelFigures(
        level=level,
        characters=f1_figures(
            common=[one.common for one in overlaps],
            called=[one.called for one in overlaps],
            marked=[one.marked for one in overlaps],
            row_counts=row_counts,
        ),
        answers=f1_figures(
            common=[answer.calls[level] and answer.marked for answer in answers],
            called=[answer.calls[level] for answer in answers],
            marked=[answer.marked for answer in answers],
            row_counts=row_counts,
        ),
    )


def _kind(kind: str, answers: Sequence[AuditedAnswer]) -> KindRecall:
    overlaps = [answer.kinds[kind] for answer in answers if kind in answer.kinds]
    marked = sum(next(iter(one.values())).marked for one in overlaps)
    found = {level: sum(one[level].common for one in overlaps) for level in LEVELS}
    return KindRecall(
        kind, marked, {level: 100 * common / marked if marked else 0.0 for level, common in found.items()}
    )


def _auroc(
    numbers: Sequence[float], right: Sequence[bool], rows: Sequence[int], row_counts: npt.NDArray[np.int64]
) -> Auroc | None:
    if all(right) or not any(right):
        return None
    return RankedItems(numbers=numbers, right=right, rows=rows).auroc(row_counts)

"""The audit beside baselines without a model: how well each ranks answers, sentences and claims by their risk.

A larger risk means more likely unsupported. Intervals are over resamples of answers. A threshold on risks is chosen for
each fold of sources on all other folds, and once for all groups; resamples keep it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, zip_longest
from statistics import fmean

import numpy as np
import numpy.typing as npt

from attribeam.evaluation.measures import (
    Counts,
    Estimate,
    F1Figures,
    PrecisionAt,
    Reliability,
    VerdictFigures,
    auroc,
    best_threshold,
    estimate_cells,
    interval_cell,
    precision_at,
    rank_correlation,
    reliability,
    row_draws,
    source_folds,
    text_table,
    verdict_figures,
    visible,
)
from attribeam.evaluation.measures.judged_answers import (
    LEVELS,
    Calls,
    GroupFigures,
    JudgedPart,
    JudgedParts,
    Marks,
    audit_calls,
    flag_order,
    part_verdicts,
    rows_of_groups,
)
from attribeam.schemas import CharRange, ClaimKind, Passage

FIRST = (10, 50, 100)
"""The lengths of rankings whose precision is given."""
_NO_VERDICT = Calls()


@dataclass(frozen=True, slots=True)
class Scores:
    """What a scorer says about one answer: its risk, those of its parts in their order, None if it scores none.

    ``calls`` are its own verdicts.
    """

    risk: float
    sentences: tuple[float, ...] | None = None
    claims: tuple[float, ...] | None = None
    characters: tuple[float, ...] | None = None
    calls: Calls = _NO_VERDICT


@dataclass(frozen=True, slots=True)
class Scorer:
    """What tables call it, and how it scores an answer; risks may be meant as probabilities, or may have no order."""

    name: str
    score: Callable[[JudgedParts], Scores]
    has_probabilities: bool = False
    has_order: bool = True


def audit_scorers(method: str, parts: Sequence[JudgedParts]) -> list[Scorer]:
    """The audit by its risks, and by the share of an answer that no passage supports, if claims have scores.

    ``answer_risk`` is an answer's risk, 1 - ``support_score`` that of a claim; a span inside a claim has the claim's.
    Without them an answer's risk is that of its worst span: by flag, level first and mass second. What claims nothing
    or was not judged has no risk, and so has an answer in which there is nothing else.
    """
    evidence = [span for part in parts for span in part.evidence]
    has_risks = any(span.answer_risk is not None for span in evidence)
    has_scores = any(span.support_score is not None for span in evidence)
    audit = Scorer(method, lambda part: _audit_scores(part, has_risks=has_risks, has_scores=has_scores), has_risks)
    return [audit, Scorer(f"{method} share", _share_scores)] if has_scores else [audit]


def _audit_scores(parts: JudgedParts, *, has_risks: bool, has_scores: bool) -> Scores:
    spans = parts.evidence
    support = {span.span_index: span.support_score for span in spans}
    risks: dict[int, float] = {}
    for span in spans:
        score = support.get(span.span_index if span.claim_index is None else span.claim_index)
        by_flag = 1 - flag_order(span.support, span.measured_mass) / 7.0  # the highest flag
        risks[span.span_index] = by_flag if not has_scores else 0.0 if score is None else 1 - score
    at: dict[int, float] = {}
    for span in spans:
        for position in visible([span.chars], parts.text):
            at[position] = max(at.get(position, 0.0), risks[span.span_index])
    risk_of_claim = {span.chars: risks[span.span_index] for span in spans if span.is_claim}
    risk = next((span.answer_risk for span in spans if span.answer_risk is not None), 0.0)
    return Scores(
        risk=risk if has_risks else max(risks.values(), default=0.0),
        sentences=tuple(
            max(at.get(position, 0.0) for position in range(part.chars.char_start, part.chars.char_end))
            for part in parts.sentences
        ),
        claims=tuple(risk_of_claim[part.chars] for part in parts.claims),
        characters=tuple(at.get(position, 0.0) for position in parts.characters),
        calls=audit_calls(parts),
    )


def _share_scores(parts: JudgedParts) -> Scores:
    """The share, 0 to 1, of what an answer claims or refuses that no passage supports, counted in visible characters.

    A claim counts with 1 - ``support_score``, and where claims overlap, the largest counts. A refusal counts with 1: it
    says nothing that is in the passages. Headings, words about the answer and what was not judged are left out.
    """
    ungrounded: dict[int, float] = {}
    for span in parts.evidence:
        is_refusal = span.claim_kind is ClaimKind.REFUSAL
        if is_refusal or (span.is_claim and span.support_score is not None):
            share = 1.0 if is_refusal or span.support_score is None else 1 - span.support_score
            for position in visible([span.chars], parts.text):
                ungrounded[position] = max(ungrounded.get(position, 0.0), share)
    return Scores(sum(ungrounded.values()) / len(ungrounded) if ungrounded else 0.0)


_WORD = re.compile(r"[^\W_]+")
_STEM_LETTERS = 6


def novelty(text: str, passages: Iterable[Passage], counted: frozenset[int]) -> Callable[[CharRange], float]:
    """The share of content words in a range whose first six letters begin no word of the passages or their titles.

    Content words are runs of letters and digits that are longer than three; one counts if it begins at one of the
    positions ``counted``. Of "Ada polished lamps" over "Ada lit the lamp", "polished" and "lamps" are unseen.
    """
    seen = {
        word[:length]
        for passage in passages
        for source in (passage.title or "", passage.text)
        for word in _WORD.findall(source.lower())
        for length in range(1, _STEM_LETTERS + 1)
    }
    words = [word for word in _WORD.finditer(text) if len(word.group()) > 3 and word.start() in counted]
    starts, ends = [word.start() for word in words], [word.end() for word in words]
    unseen = [0, *accumulate(word.group().lower()[:_STEM_LETTERS] not in seen for word in words)]

    def share(chars: CharRange) -> float:
        first, last = bisect_right(ends, chars.char_start), bisect_left(starts, chars.char_end)
        return (unseen[last] - unseen[first]) / (last - first) if last > first else 0.0

    return share


def _novelty_scores(parts: JudgedParts) -> Scores:
    """A character has the risk of its sentence."""
    record = parts.answer.record
    share = novelty(record.answer, record.passages, frozenset(parts.characters))
    sentences, claims = (tuple(share(part.chars) for part in some) for some in (parts.sentences, parts.claims))
    at = {
        position: risk
        for part, risk in zip(parts.sentences, sentences, strict=True)
        for position in range(part.chars.char_start, part.chars.char_end)
    }
    characters = tuple(at.get(position, 0.0) for position in parts.characters)
    return Scores(share(CharRange(0, len(record.answer))), sentences, claims, characters)


def _flag_all(parts: JudgedParts) -> Scores:
    sentences, claims, characters = ((1.0,) * len(some) for some in (parts.sentences, parts.claims, parts.characters))
    return Scores(1.0, sentences, claims, characters, Calls(True, (True,) * len(claims), (True,) * len(characters)))


BASELINES = {
    item.name: item for item in (Scorer("novelty", _novelty_scores), Scorer("flag-all", _flag_all, has_order=False))
}
"""The scorers that need no model, by name."""


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

    ``verdict``, ``characters`` and ``claim_verdicts`` are by the scorer's own threshold, ``chosen_*`` by the one with
    the best F1 on other sources, ``balanced_verdict`` by the one with the best balanced accuracy there. ``answers``,
    ``sentences`` and ``claims`` are AUROC. ``kinds`` (of unsupported answers) and ``grades`` (of all) are by the own
    threshold, else the balanced one. ``rank_correlation`` is that of risk and minus people's mean grade.
    """

    scorer: str
    verdict: VerdictFigures | None
    chosen_verdict: VerdictFigures | None
    balanced_verdict: VerdictFigures | None
    answers: Estimate | None
    sentences: Estimate | None
    claims: Estimate | None
    precision_at: tuple[PrecisionAt, ...]
    rank_correlation: Estimate | None
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
    group: str
    answers: int
    marked_answers: int
    sentences: int
    claims: int
    scorers: tuple[ScorerFigures, ...]


@dataclass(frozen=True, slots=True)
class _Scored:
    parts: JudgedParts
    scores: Scores
    chosen: Calls
    balanced: bool | None


def compare_scorers(
    parts: Sequence[JudgedParts], scorers: Sequence[Scorer], *, draws: int, seed: int
) -> tuple[GroupComparison, ...]:
    """The figures of all answers, of which there is at least one, then of each group if there are several."""
    row_counts = row_draws(len(parts), draws=draws, seed=seed)
    folds = source_folds([tuple(passage.text for passage in part.answer.record.passages) for part in parts], seed=seed)
    scored = [(scorer, _scored(scorer, parts, folds)) for scorer in scorers]
    return tuple(
        GroupComparison(
            group=group,
            answers=len(rows),
            marked_answers=sum(parts[row].is_marked for row in rows),
            sentences=sum(len(parts[row].sentences) for row in rows),
            claims=sum(len(parts[row].claims) for row in rows),
            scorers=tuple(
                _figures(scorer, [answers[row] for row in rows], row_counts[:, rows]) for scorer, answers in scored
            ),
        )
        for group, rows in rows_of_groups(parts)
    )


def _scored(scorer: Scorer, parts: Sequence[JudgedParts], folds: npt.NDArray[np.intp]) -> list[_Scored]:
    """Score all answers, and call them by thresholds chosen on the sources of other folds; ``folds`` has one a row."""
    scores = [scorer.score(part) for part in parts]
    folds = folds if scorer.has_order else np.zeros_like(folds)  # one fold: nothing to choose on
    risks, marked = [(score.risk,) for score in scores], [(part.is_marked,) for part in parts]
    called = [
        _chosen_calls(risks, marked, folds),
        _chosen_calls(risks, marked, folds, balanced=True),
        _chosen_calls([score.claims for score in scores], list(map(_claim_marks, parts)), folds),
        _chosen_calls([score.characters for score in scores], [part.marked for part in parts], folds),
    ]
    return [
        _Scored(part, own, Calls(answer and answer[0], claims, characters), balanced and balanced[0])
        for part, own, answer, balanced, claims, characters in zip(parts, scores, *called, strict=True)
    ]


def _chosen_calls(
    risks: Sequence[tuple[float, ...] | None], marks: Marks, folds: npt.NDArray[np.intp], *, balanced: bool = False
) -> Marks:
    """The verdict on each item of each answer; None if scores or marks are missing, or all items are of one fold."""
    known = [
        (answer_risks, answer_marks)
        for answer_risks, answer_marks in zip(risks, marks, strict=True)
        if answer_risks is not None and answer_marks is not None
    ]
    owners = (
        np.repeat(folds, [len(answer_risks) for answer_risks, _ in known]) if len(known) == len(folds) else folds[:0]
    )
    if len(np.unique(owners)) < 2:
        return [None] * len(folds)
    items = np.array([risk for answer_risks, _ in known for risk in answer_risks])
    marked = np.array([mark for _, answer_marks in known for mark in answer_marks], dtype=np.bool_)
    thresholds = {
        fold: best_threshold(items[owners != fold], marked[owners != fold], balanced=balanced)
        for fold in np.unique(owners).tolist()
    }
    pairs = zip(known, folds.tolist(), strict=True)
    return [tuple(bool(risk >= thresholds[fold]) for risk in answer_risks) for (answer_risks, _), fold in pairs]


def _claim_marks(parts: JudgedParts) -> tuple[bool, ...] | None:
    """Whether people marked each claim; None if they did not judge each."""
    marks = tuple(part.is_marked for part in parts.claims if part.is_marked is not None)
    return marks if len(marks) == len(parts.claims) else None


def _figures(scorer: Scorer, answers: Sequence[_Scored], counts: Counts) -> ScorerFigures:
    parts, scores = [answer.parts for answer in answers], [answer.scores for answer in answers]
    marked, risks, rows = [part.is_marked for part in parts], [score.risk for score in scores], range(len(parts))
    called, chosen, balanced = (
        [call for call in calls if call is not None]
        for calls in zip(*((row.scores.calls.answer, row.chosen.answer, row.balanced) for row in answers), strict=True)
    )
    sentences = _items([part.sentences for part in parts], [score.sentences for score in scores])
    claims = _items([part.claims for part in parts], [score.claims for score in scores])
    claim_marks, marks = list(map(_claim_marks, parts)), [part.marked for part in parts]
    ranked = [precision_at(first, risks, marked, counts) for first in FIRST]
    grades = [part.answer.faithfulness for part in parts if part.answer.faithfulness is not None]
    has_grades, calls = len(grades) == len(parts), called or balanced
    kinds, levels = [], []
    for kind in sorted(set(chain.from_iterable(part.answer.error_kinds for part in parts))) if calls else ():
        of_kind = [call for call, part in zip(calls, parts, strict=True) if kind in part.answer.error_kinds]
        kinds.append(KindVerdicts(kind, len(of_kind), 100 * sum(of_kind) / len(of_kind)))
    for grade in sorted(set(map(math.floor, grades))) if calls and has_grades and scorer.has_order else ():
        own_rows = [row for row in rows if math.floor(grades[row]) == grade]
        share, risk = (fmean(numbers[row] for row in own_rows) for numbers in (calls, risks))
        levels.append(GradeVerdicts(grade, len(own_rows), 100 * share, risk))
    return ScorerFigures(
        scorer=scorer.name,
        verdict=verdict_figures(called, marked, counts) if called else None,
        chosen_verdict=verdict_figures(chosen, marked, counts) if chosen else None,
        balanced_verdict=verdict_figures(balanced, marked, counts) if balanced else None,
        answers=auroc(risks, marked, rows, counts),
        sentences=auroc(*sentences, counts),
        claims=auroc(*claims, counts),
        precision_at=tuple(figure for figure in ranked if figure is not None),
        rank_correlation=rank_correlation(risks, [-grade for grade in grades], counts) if has_grades else None,
        characters=part_verdicts([score.calls.characters for score in scores], marks, counts),
        chosen_characters=part_verdicts([answer.chosen.characters for answer in answers], marks, counts),
        claim_verdicts=part_verdicts([score.calls.claims for score in scores], claim_marks, counts),
        chosen_claim_verdicts=part_verdicts([answer.chosen.claims for answer in answers], claim_marks, counts),
        answer_reliability=reliability(risks, marked, rows, counts) if scorer.has_probabilities else None,
        claim_reliability=reliability(*claims, counts) if scorer.has_probabilities else None,
        kinds=tuple(kinds),
        grades=tuple(levels),
    )


def _items(
    parts: Sequence[Sequence[JudgedPart]], risks: Sequence[Sequence[float] | None]
) -> tuple[list[float], list[bool], list[int]]:
    """The risks, marks and rows of all parts that people judged; nothing if they have no risks."""
    items = [
        (risk, part.is_marked, row)
        for row, (own, scores) in enumerate(zip(parts, risks, strict=True))
        for part, risk in zip(own, scores or (), strict=scores is not None)
        if part.is_marked is not None
    ]
    return [item[0] for item in items], [item[1] for item in items], [item[2] for item in items]


_INTERVAL = "95% interval"


def comparison_tables(
    dataset: str, groups: Sequence[GroupComparison], flags: Sequence[GroupFigures] = ()
) -> Iterator[str]:
    """For each group a title and tables of its scorers; ``flags`` adds the audit's other figures of the same groups."""
    for group, flag in zip_longest(groups, flags):
        names = ", ".join(scorer.scorer for scorer in group.scorers)
        yield f"{dataset}, {group.group}: {group.marked_answers} of {group.answers} answers unsupported; {names}"
        yield _areas(group, flag)
        if group.answers >= FIRST[0]:
            firsts = [cell for count in FIRST if count <= group.answers for cell in (f"{count}, %", _INTERVAL)]
            lines = [(item.scorer, *_cells(ranked.precision for ranked in item.precision_at)) for item in group.scorers]
            yield text_table(("precision among the first", *firsts), lines)
        yield from _verdicts(group, flag)
        yield from _kinds(group, flag)


def _areas(group: GroupComparison, flag: GroupFigures | None) -> str:
    """The AUROC of scorers, of evidence mass and of the flag; what has none but of answers has no column."""
    names = ("answers", f"{group.sentences} sentences", f"{group.claims} claims", "spans")
    lines: list[tuple[str, tuple[Estimate | None, ...]]] = [
        (scorer.scorer, (scorer.answers, scorer.sentences, scorer.claims, None)) for scorer in group.scorers
    ]
    if flag is not None:
        lines.append(("mass", (flag.answer_mass, None, None, flag.span_mass)))
        lines.append(("flag", (flag.answer_flag, None, None, flag.span_flag)))
    shown = [column for column in range(len(names)) if column == 0 or any(areas[column] for _, areas in lines)]
    header = [cell for column in shown for cell in (names[column], _INTERVAL)]
    cells = [(name, *_cells([areas[column] for column in shown], digits=3)) for name, areas in lines]
    return text_table(("AUROC", *header), cells)


def _verdicts(group: GroupComparison, flag: GroupFigures | None) -> Iterator[str]:
    """How answers, claims and characters are called: by the scorers' own verdicts, and by weak claims of the audit."""
    scorers = group.scorers
    answers = [(item.scorer, *_verdict_cells(item.verdict)) for item in scorers if item.verdict is not None]
    claims = [(item.scorer, *_f1_cells(item.claim_verdicts)) for item in scorers if item.claim_verdicts is not None]
    characters = [(item.scorer, *_f1_cells(item.characters)) for item in scorers if item.characters is not None]
    if flag is not None:
        name, or_weak = f"{scorers[0].scorer}, or weak", flag.levels[-1]
        answers.insert(1, (name, *_f1_cells(or_weak.answers), "", "", "", ""))
        characters[1:1] = [(name, *_f1_cells(or_weak.characters))] if or_weak.characters is not None else []
    more = ("balanced %", _INTERVAL, "false alarms %", _INTERVAL)
    for header, lines in ((("answers", more), answers), (("claims", ()), claims), (("characters", ()), characters)):
        if lines:
            yield text_table((header[0], "precision %", "recall %", "F1 %", _INTERVAL, *header[1]), lines)


def _kinds(group: GroupComparison, flag: GroupFigures | None) -> Iterator[str]:
    """The shares called of unsupported answers and of marked characters, by kind."""
    of_answers = [scorer for scorer in group.scorers if scorer.kinds]
    if of_answers:
        names = [f"{scorer.scorer}{', %' if scorer.verdict else ' at best balance, %'}" for scorer in of_answers]
        lines = [
            (kinds[0].kind, str(kinds[0].answers), *(f"{kind.called:.1f}" for kind in kinds))
            for kinds in zip(*(scorer.kinds for scorer in of_answers), strict=True)
        ]
        yield text_table(("called of the unsupported ones", "answers", *names), lines)
    if flag is not None and flag.kinds:
        lines = [
            (row.kind, str(row.characters), *(f"{share:.1f}" for share in row.recall.values())) for row in flag.kinds
        ]
        yield text_table(("called of the marked ones", "characters", *(f"{level}, %" for level in LEVELS)), lines)


def _verdict_cells(figures: VerdictFigures) -> list[str]:
    first = [estimate_cells(share)[0] for share in (figures.precision, figures.recall)]
    return [*first, *_cells((figures.f1, figures.balanced_accuracy, figures.false_alarms))]


def _f1_cells(figures: F1Figures) -> list[str]:
    shares = [f"{share:.1f}" for share in (figures.precision, figures.recall, figures.f1)]
    return [*shares, interval_cell(figures.f1_interval)]


def _cells(estimates: Iterable[Estimate | None], *, digits: int = 1) -> list[str]:
    return [cell for estimate in estimates for cell in estimate_cells(estimate, digits=digits)]

"""The audit beside baselines without a model: how well each ranks answers, sentences and claims by their risk.

A larger risk means more likely unsupported. Intervals are over resamples of answers. A threshold on risks is chosen for
each fold of sources on all other folds, and once for all groups; resamples keep it.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

import numpy as np
import numpy.typing as npt

from attribeam.evaluation.measures.bootstrap import (
    Counts,
    Estimate,
    F1Figures,
    PrecisionAt,
    Reliability,
    VerdictFigures,
    auroc,
    best_threshold,
    f1_figures,
    precision_at,
    rank_correlation,
    reliability,
    row_draws,
    source_folds,
    verdict_figures,
)
from attribeam.evaluation.measures.judged_answers import (
    JudgedPart,
    JudgedParts,
    called_places,
    f1_cells,
    flag_order,
    named_places,
    rows_of_groups,
    visible,
)
from attribeam.evaluation.report import estimate_cells, text_table
from attribeam.schemas import CharRange, ClaimKind, Passage, SpanEvidence, Support

FIRST = (10, 50, 100)
"""The lengths of rankings whose precision is given."""
_LOWEST_RISK = 0.0
_HIGHEST_FLAG = 7.0


@dataclass(frozen=True, slots=True)
class Calls:
    """What a threshold calls unsupported; None where there is no threshold.

    Attributes:
        answer: the verdict on the answer.
        claims, characters: on each of its claims and of its visible characters, in the order of ``JudgedParts``.
    """

    answer: bool | None = None
    claims: tuple[bool, ...] | None = None
    characters: tuple[bool, ...] | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """What a scorer says about one answer.

    Attributes:
        risk: that of the answer.
        sentences, claims, characters: the risk of each of the answer's parts, in their order; None if it scores none.
        calls: its own verdicts.
    """

    risk: float
    sentences: tuple[float, ...] | None = None
    claims: tuple[float, ...] | None = None
    characters: tuple[float, ...] | None = None
    calls: Calls = Calls()


@dataclass(frozen=True, slots=True)
class Scorer:
    """What tables call it, and how it scores an answer.

    Attributes:
        has_probabilities: whether the risks of answers and claims are meant as probabilities.
        has_order: whether its risks differ, so that a threshold on them can be chosen.
    """

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
    evidence = [span for one in parts for span in one.evidence]
    has_risks = any(span.answer_risk is not None for span in evidence)
    has_scores = any(span.support_score is not None for span in evidence)
    audit = Scorer(method, lambda one: _audit_scores(one, has_risks=has_risks, has_scores=has_scores), has_risks)
    return [audit, Scorer(f"{method} share", _share_scores)] if has_scores else [audit]


def _audit_scores(parts: JudgedParts, *, has_risks: bool, has_scores: bool) -> Scores:
    text, found = parts.answer.record.answer, parts.evidence
    risks = _score_risks(found) if has_scores else {span.span_index: _flag_risk(span) for span in found}
    of_place: dict[int, float] = {}
    for span in found:
        for place in visible([span.chars], text):
            of_place[place] = max(of_place.get(place, _LOWEST_RISK), risks[span.span_index])
    alarms = called_places(found, text, frozenset({Support.UNSUPPORTED}))
    worst = max(risks.values(), default=_LOWEST_RISK)
    risk = next((span.answer_risk for span in found if span.answer_risk is not None), _LOWEST_RISK)
    risk_of_claim = {span.chars: risks[span.span_index] for span in found if span.is_claim}
    called_claims = {span.chars for span in found if span.is_claim and span.support is Support.UNSUPPORTED}
    flagged = alarms | named_places(found, text)
    return Scores(
        risk=risk if has_risks else worst,
        sentences=tuple(
            max(of_place.get(place, _LOWEST_RISK) for place in range(one.chars.char_start, one.chars.char_end))
            for one in parts.sentences
        ),
        claims=tuple(risk_of_claim[one.chars] for one in parts.claims),
        characters=tuple(of_place.get(place, _LOWEST_RISK) for place in parts.characters),
        calls=Calls(
            answer=not alarms.isdisjoint(parts.characters),
            claims=tuple(one.chars in called_claims for one in parts.claims),
            characters=tuple(place in flagged for place in parts.characters),
        ),
    )


def _flag_risk(span: SpanEvidence) -> float:
    return 1 - flag_order(span.support, span.measured_mass) / _HIGHEST_FLAG


def _score_risks(found: Sequence[SpanEvidence]) -> Mapping[int, float]:
    scores = {span.span_index: span.support_score for span in found}
    owners = {span.span_index: span.claim_index for span in found}
    of_spans = {index: scores.get(index if owner is None else owner) for index, owner in owners.items()}
    return {index: _LOWEST_RISK if score is None else 1 - score for index, score in of_spans.items()}


def _share_scores(parts: JudgedParts) -> Scores:
    share = ungrounded_share(parts.evidence, parts.answer.record.answer)
    return Scores(_LOWEST_RISK if share is None else share)


def ungrounded_share(found: Sequence[SpanEvidence], answer: str) -> float | None:
    """The share, 0 to 1, of what an answer claims or refuses that no passage supports, counted in visible characters.

    A claim counts with 1 - ``support_score``, and where claims overlap, the largest counts. A refusal counts with 1: it
    says nothing that is in the passages. Headings, words about the answer and what was not judged are left out.

    Returns:
        None if there is neither a claim with a score nor a refusal.
    """
    ungrounded: dict[int, float] = {}
    for span in found:
        if span.claim_kind is ClaimKind.REFUSAL:
            share = 1.0
        elif span.is_claim and span.support_score is not None:
            share = 1 - span.support_score
        else:
            continue
        for place in visible([span.chars], answer):
            ungrounded[place] = max(ungrounded.get(place, 0.0), share)
    return sum(ungrounded.values()) / len(ungrounded) if ungrounded else None


_WORD = re.compile(r"[^\W_]+")
_STEM_LETTERS = 6
_SHORTEST = 4


class Novelty:
    """The share of content words whose first six letters begin no word of the passages or their titles.

    Content words are runs of letters and digits that are longer than three.

    Example: of "Ada polished lamps" over the passage "Ada lit the lamp", "polished" and "lamps" are content words, and
    both are unseen, because no word of the passage begins with "lamps".
    """

    def __init__(self, text: str, passages: Iterable[Passage], counted: frozenset[int]) -> None:
        """``counted`` are the places at which a word of the text may begin to count."""
        seen = {
            word[:length]
            for passage in passages
            for source in (passage.title or "", passage.text)
            for word in _WORD.findall(source.lower())
            for length in range(1, _STEM_LETTERS + 1)
        }
        words = [one for one in _WORD.finditer(text) if len(one.group()) >= _SHORTEST and one.start() in counted]
        self._starts, self._ends = [one.start() for one in words], [one.end() for one in words]
        self._unseen = [0, *accumulate(one.group().lower()[:_STEM_LETTERS] not in seen for one in words)]

    def share(self, chars: CharRange) -> float:
        """The share among the words that reach into the range, 0 to 1; 0 without words."""
        first, last = bisect_right(self._ends, chars.char_start), bisect_left(self._starts, chars.char_end)
        return (self._unseen[last] - self._unseen[first]) / (last - first) if last > first else 0.0


def _novelty_scores(parts: JudgedParts) -> Scores:
    """A character has the risk of its sentence."""
    record = parts.answer.record
    novelty = Novelty(record.answer, record.passages, frozenset(parts.characters))
    sentences, claims = (tuple(novelty.share(one.chars) for one in some) for some in (parts.sentences, parts.claims))
    of_place = {
        place: share
        for one, share in zip(parts.sentences, sentences, strict=True)
        for place in range(one.chars.char_start, one.chars.char_end)
    }
    characters = tuple(of_place.get(place, _LOWEST_RISK) for place in parts.characters)
    return Scores(novelty.share(CharRange(0, len(record.answer))), sentences, claims, characters)


def _flag_all(parts: JudgedParts) -> Scores:
    sentences, claims, characters = ((1.0,) * len(some) for some in (parts.sentences, parts.claims, parts.characters))
    return Scores(1.0, sentences, claims, characters, Calls(True, (True,) * len(claims), (True,) * len(characters)))


BASELINES = {
    one.name: one for one in (Scorer("novelty", _novelty_scores), Scorer("flag-all", _flag_all, has_order=False))
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

    Attributes:
        scorer: its name.
        verdict: answers, by the scorer's own threshold, as are ``characters`` and ``claim_verdicts``.
        chosen_verdict: by the threshold with the best F1 on other sources, as are ``chosen_characters`` and
            ``chosen_claim_verdicts``.
        balanced_verdict: by the threshold with the best balanced accuracy on other sources.
        answers, sentences, claims: AUROC, of unsupported ones against all others.
        precision_at: among the answers with the largest risks.
        rank_correlation: of the answer's risk and minus people's mean grade.
        answer_reliability, claim_reliability: whether risks are probabilities, if they are meant so.
        kinds: of unsupported answers, by the scorer's own threshold, else by the one with the best balanced accuracy.
        grades: of all answers, by the same threshold; empty where people gave no grades.
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
    """The figures of all answers, of which there is at least one, then of each group if there are several."""
    row_counts = row_draws(len(parts), draws=draws, seed=seed)
    folds = source_folds([tuple(one.text for one in part.answer.record.passages) for part in parts], seed=seed)
    scored = [(scorer, _scored(scorer, parts, folds)) for scorer in scorers]
    found = []
    for group, own in rows_of_groups([one.answer.group for one in parts]):
        chosen = [parts[row] for row in own]
        figures = [_figures(scorer, [answers[row] for row in own], row_counts[:, own]) for scorer, answers in scored]
        found.append(
            GroupComparison(
                group=group,
                answers=len(own),
                marked_answers=sum(one.is_marked for one in chosen),
                sentences=sum(len(one.sentences) for one in chosen),
                claims=sum(len(one.claims) for one in chosen),
                scorers=tuple(figures),
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Scored:
    """One answer's parts and scores, and the verdicts by thresholds chosen on other sources."""

    parts: JudgedParts
    scores: Scores
    chosen: Calls
    balanced: bool | None


def _scored(scorer: Scorer, parts: Sequence[JudgedParts], folds: npt.NDArray[np.intp]) -> list[_Scored]:
    """Score all answers, and call them by thresholds chosen on the sources of other folds; ``folds`` has one a row."""
    scores = [scorer.score(one) for one in parts]
    folds = folds if scorer.has_order else np.zeros_like(folds)  # one fold: nothing to choose on
    risks, marked = [(one.risk,) for one in scores], [(one.is_marked,) for one in parts]
    called = [
        _chosen_calls(risks, marked, folds),
        _chosen_calls(risks, marked, folds, balanced=True),
        _chosen_calls([one.claims for one in scores], list(map(_claim_marks, parts)), folds),
        _chosen_calls([one.characters for one in scores], [one.marked for one in parts], folds),
    ]
    return [
        _Scored(part, own, Calls(answer and answer[0], claims, characters), balanced and balanced[0])
        for part, own, answer, balanced, claims, characters in zip(parts, scores, *called, strict=True)
    ]


def _chosen_calls(
    risks: Sequence[tuple[float, ...] | None],
    marks: Sequence[tuple[bool, ...] | None],
    folds: npt.NDArray[np.intp],
    *,
    balanced: bool = False,
) -> Sequence[tuple[bool, ...] | None]:
    """The verdict on each item of each answer; None if scores or marks are missing, or all items are of one fold."""
    known = [
        (own, of_answer)
        for own, of_answer in zip(risks, marks, strict=True)
        if own is not None and of_answer is not None
    ]
    owners = np.repeat(folds, [len(own) for own, _ in known]) if len(known) == len(folds) else folds[:0]
    if len(np.unique(owners)) < 2:
        return [None] * len(folds)
    items = np.array([risk for own, _ in known for risk in own])
    marked = np.array([mark for _, of_answer in known for mark in of_answer], dtype=np.bool_)
    thresholds = {
        fold: best_threshold(items[owners != fold], marked[owners != fold], balanced=balanced)
        for fold in np.unique(owners).tolist()
    }
    return [
        tuple(bool(risk >= thresholds[fold]) for risk in own)
        for (own, _), fold in zip(known, folds.tolist(), strict=True)
    ]


def _claim_marks(parts: JudgedParts) -> tuple[bool, ...] | None:
    """Whether people marked each claim; None if they did not judge each."""
    marks = tuple(one.is_marked for one in parts.claims if one.is_marked is not None)
    return marks if len(marks) == len(parts.claims) else None


def _figures(scorer: Scorer, answers: Sequence[_Scored], counts: Counts) -> ScorerFigures:
    parts, scores = [one.parts for one in answers], [one.scores for one in answers]
    marked, risks, rows = [one.is_marked for one in parts], [one.risk for one in scores], range(len(parts))
    own, chosen, balanced = (
        [call for call in calls if call is not None]
        for calls in zip(*((one.scores.calls.answer, one.chosen.answer, one.balanced) for one in answers), strict=True)
    )
    sentences = _items([one.sentences for one in parts], [one.sentences for one in scores])
    claims = _items([one.claims for one in parts], [one.claims for one in scores])
    claim_marks, marks = list(map(_claim_marks, parts)), [one.marked for one in parts]
    ranked = [precision_at(first, risks, marked, counts) for first in FIRST]
    grades = [one.answer.faithfulness for one in parts if one.answer.faithfulness is not None]
    has_grades = len(grades) == len(parts)
    return ScorerFigures(
        scorer=scorer.name,
        verdict=verdict_figures(own, marked, counts) if own else None,
        chosen_verdict=verdict_figures(chosen, marked, counts) if chosen else None,
        balanced_verdict=verdict_figures(balanced, marked, counts) if balanced else None,
        answers=auroc(risks, marked, rows, counts),
        sentences=auroc(*sentences, counts),
        claims=auroc(*claims, counts),
        precision_at=tuple(one for one in ranked if one is not None),
        rank_correlation=rank_correlation(risks, [-one for one in grades], counts) if has_grades else None,
        characters=_part_verdicts([one.calls.characters for one in scores], marks, counts),
        chosen_characters=_part_verdicts([one.chosen.characters for one in answers], marks, counts),
        claim_verdicts=_part_verdicts([one.calls.claims for one in scores], claim_marks, counts),
        chosen_claim_verdicts=_part_verdicts([one.chosen.claims for one in answers], claim_marks, counts),
        answer_reliability=reliability(risks, marked, rows, counts) if scorer.has_probabilities else None,
        claim_reliability=reliability(*claims, counts) if scorer.has_probabilities else None,
        kinds=tuple(_kinds(parts, own or balanced)),
        grades=tuple(_grades(grades, own or balanced, risks)) if has_grades and scorer.has_order else (),
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
    return [one[0] for one in items], [one[1] for one in items], [one[2] for one in items]


def _part_verdicts(
    calls: Sequence[tuple[bool, ...] | None], marks: Sequence[tuple[bool, ...] | None], counts: Counts
) -> F1Figures | None:
    """Claims or characters that are called compared with those that are marked; None if there are none."""
    known = [(own, some) for own, some in zip(calls, marks, strict=True) if own is not None and some is not None]
    if len(known) < len(calls) or not any(own for own, _ in known):
        return None
    common = [sum(call and mark for call, mark in zip(own, some, strict=True)) for own, some in known]
    items = [(both, sum(own), sum(some)) for both, (own, some) in zip(common, known, strict=True)]
    return f1_figures(items, counts)


def _kinds(parts: Sequence[JudgedParts], calls: Sequence[bool]) -> Iterator[KindVerdicts]:
    kinds = [set(one.answer.error_kinds) for one in parts] if calls else []
    for kind in sorted(set().union(*kinds)):
        own = [call for call, some in zip(calls, kinds, strict=True) if kind in some]
        yield KindVerdicts(kind, len(own), 100 * sum(own) / len(own))


def _grades(grades: Sequence[float], calls: Sequence[bool], risks: Sequence[float]) -> Iterator[GradeVerdicts]:
    floors = list(map(math.floor, grades)) if calls else []
    for grade in sorted(set(floors)):
        own = [row for row, floor in enumerate(floors) if floor == grade]
        called, risk = (fmean(numbers[row] for row in own) for numbers in (calls, risks))
        yield GradeVerdicts(grade, len(own), 100 * called, risk)


_INTERVAL = "95% interval"
_VERDICT_HEADER = (
    *("answers", "precision %", "recall %", "F1 %", _INTERVAL),
    *("balanced %", _INTERVAL, "false alarms %", _INTERVAL),
)
_PART_HEADER = ("precision %", "recall %", "F1 %", _INTERVAL)


def comparison_tables(dataset: str, groups: Sequence[GroupComparison]) -> list[str]:
    """The tables of all groups."""
    return [table for group in groups for table in _group_tables(dataset, group)]


def _group_tables(dataset: str, group: GroupComparison) -> Iterator[str]:
    scorers = group.scorers
    names = ", ".join(one.scorer for one in scorers)
    yield f"{dataset}, {group.group}: {group.marked_answers} of {group.answers} answers unsupported; {names}"
    header = ("AUROC", "answers", _INTERVAL, f"{group.sentences} sentences", _INTERVAL, f"{group.claims} claims")
    areas = [
        (
            one.scorer,
            *(cell for area in (one.answers, one.sentences, one.claims) for cell in estimate_cells(area, digits=3)),
        )
        for one in scorers
    ]
    yield text_table((*header, _INTERVAL), areas)
    if group.answers >= FIRST[0]:
        firsts = [cell for one in FIRST if one <= group.answers for cell in (f"{one}, %", _INTERVAL)]
        lines = [
            (one.scorer, *(cell for found in one.precision_at for cell in estimate_cells(found.precision)))
            for one in scorers
        ]
        yield text_table(("precision among the first", *firsts), lines)
    verdicts = [(one.scorer, *_verdict_cells(one.verdict)) for one in scorers if one.verdict is not None]
    if verdicts:
        yield text_table(_VERDICT_HEADER, verdicts)
    for what, name in (("claims", "claim_verdicts"), ("characters", "characters")):
        lines = [(one.scorer, *f1_cells(getattr(one, name))) for one in scorers if getattr(one, name) is not None]
        if lines:
            yield text_table((what, *_PART_HEADER), lines)
    kinds = [(f"{one.scorer}, %", one.kinds) for one in scorers if one.kinds]
    if kinds:
        lines = [
            (some[0].kind, str(some[0].answers), *(f"{kind.called:.1f}" for kind in some))
            for some in zip(*(own for _, own in kinds), strict=True)
        ]
        yield text_table(("called of the unsupported ones", "answers", *(name for name, _ in kinds)), lines)


def _verdict_cells(verdict: VerdictFigures) -> tuple[str, ...]:
    with_intervals = (verdict.f1, verdict.balanced_accuracy, verdict.false_alarms)
    return (
        *(estimate_cells(share)[0] for share in (verdict.precision, verdict.recall)),
        *(cell for share in with_intervals for cell in estimate_cells(share)),
    )

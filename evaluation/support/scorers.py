"""The audit beside baselines without a model: how well each ranks answers, sentences and claims by their risk.

A larger risk means more likely unsupported. Intervals are over resamples of answers.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from attribeam.evaluation.measures.bootstrap import (
    Auroc,
    F1Figures,
    PrecisionAt,
    RankedItems,
    Share,
    VerdictFigures,
    f1_figures,
    precision_at,
    row_draws,
    verdict_figures,
)
from attribeam.evaluation.report import interval_cell, text_table
from attribeam.evaluation.support.judged_answers import (
    ALL,
    JudgedPart,
    JudgedParts,
    called_places,
    f1_cells,
    flag_order,
    named_places,
    visible,
)
from attribeam.schemas import CharRange, ClaimKind, Passage, SpanEvidence, Support

NOVELTY = "novelty"
BASELINES = (NOVELTY,)
FIRST = (10, 50, 100)
"""The lengths of rankings whose precision is given."""
_LOWEST_RISK = 0.0
_HIGHEST_FLAG = 7.0


@dataclass(frozen=True, slots=True)
class Scores:
    """What a scorer says about one answer.

    Attributes:
        risk: that of the answer.
        sentences, claims: the risk of each of the answer's parts, in their order; None if it scores none.
        called: its own verdict on the answer; None, as in the next two, if it has no threshold of its own.
        flagged: places of the visible characters that it calls unsupported.
        called_claims: its own verdict on each claim.
    """

    risk: float
    sentences: tuple[float, ...] | None = None
    claims: tuple[float, ...] | None = None
    called: bool | None = None
    flagged: frozenset[int] | None = None
    called_claims: tuple[bool, ...] | None = None


@dataclass(frozen=True, slots=True)
class Scorer:
    """What tables call it, and how it scores an answer."""

    name: str
    score: Callable[[JudgedParts], Scores]


def audit_scorers(method: str, parts: Sequence[JudgedParts]) -> list[Scorer]:
    """The audit by its risks, and by the share of an answer that no passage supports, if claims have scores.

    ``answer_risk`` is an answer's risk, 1 - ``support_score`` that of a claim; a span inside a claim has the claim's.
    Without them an answer's risk is that of its worst span: by flag, level first and mass second. What claims nothing
    or was not judged has no risk, and so has an answer in which there is nothing else.
    """
    evidence = [span for one in parts for span in one.evidence]
    has_risks = any(span.answer_risk is not None for span in evidence)
    has_scores = any(span.support_score is not None for span in evidence)
    audit = Scorer(method, lambda one: _audit_scores(one, has_risks=has_risks, has_scores=has_scores))
    return [audit, Scorer(f"{method} share", _share_scores)] if has_scores else [audit]


def _audit_scores(parts: JudgedParts, *, has_risks: bool, has_scores: bool) -> Scores:
    text, found = parts.answer.record.answer, parts.evidence
    risks = _score_risks(found) if has_scores else {span.span_index: _flag_risk(span) for span in found}
    of_place: dict[int, float] = {}
    for span in found:
        for place in visible([span.chars], text):
            of_place[place] = max(of_place.get(place, _LOWEST_RISK), risks[span.span_index])
    seen = frozenset(parts.characters)
    alarms = called_places(found, text, frozenset({Support.UNSUPPORTED}))
    worst = max(risks.values(), default=_LOWEST_RISK)
    risk = next((span.answer_risk for span in found if span.answer_risk is not None), _LOWEST_RISK)
    risk_of_claim = {span.chars: risks[span.span_index] for span in found if span.is_claim}
    called_claims = {span.chars for span in found if span.is_claim and span.support is Support.UNSUPPORTED}
    return Scores(
        risk=risk if has_risks else worst,
        sentences=tuple(
            max(of_place.get(place, _LOWEST_RISK) for place in range(one.chars.char_start, one.chars.char_end))
            for one in parts.sentences
        ),
        claims=tuple(risk_of_claim[one.chars] for one in parts.claims),
        called=bool(alarms & seen),
        flagged=(alarms | named_places(found, text)) & seen,
        called_claims=tuple(one.chars in called_claims for one in parts.claims),
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
    record = parts.answer.record
    novelty = Novelty(record.answer, record.passages, frozenset(parts.characters))
    sentences, claims = (tuple(novelty.share(one.chars) for one in some) for some in (parts.sentences, parts.claims))
    return Scores(novelty.share(CharRange(0, len(record.answer))), sentences, claims)


novelty_scorer = Scorer(NOVELTY, _novelty_scores)


@dataclass(frozen=True, slots=True)
class KindVerdicts:
    """Answers that are unsupported in one way, and the percentage of them that is called."""

    kind: str
    answers: int
    called: float


@dataclass(frozen=True, slots=True)
class ScorerFigures:
    """The figures of one scorer; None where the labels or the scorer have nothing to compare.

    Attributes:
        scorer: its name.
        verdict: answers, by the scorer's own threshold, as are ``characters``, ``claim_verdicts`` and ``kinds``.
        answers, sentences, claims: AUROC, of unsupported ones against all others.
        precision_at: among the answers with the largest risks.
    """

    scorer: str
    verdict: VerdictFigures | None
    answers: Auroc | None
    sentences: Auroc | None
    claims: Auroc | None
    precision_at: tuple[PrecisionAt, ...]
    characters: F1Figures | None
    claim_verdicts: F1Figures | None
    kinds: tuple[KindVerdicts, ...]


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
    scored = [(scorer.name, [scorer.score(one) for one in parts]) for scorer in scorers]
    groups = sorted({one.answer.group for one in parts if one.answer.group is not None})
    found = []
    for group in [ALL, *(groups if len(groups) > 1 else ())]:
        own = [row for row, one in enumerate(parts) if group == ALL or one.answer.group == group]
        chosen, counts = [parts[row] for row in own], row_counts[:, own]
        found.append(
            GroupComparison(
                group=group,
                answers=len(own),
                marked_answers=sum(one.is_marked for one in chosen),
                sentences=sum(len(one.sentences) for one in chosen),
                claims=sum(len(one.claims) for one in chosen),
                scorers=tuple(_figures(name, chosen, [scores[row] for row in own], counts) for name, scores in scored),
            )
        )
    return tuple(found)


def _figures(
    name: str, parts: Sequence[JudgedParts], scores: Sequence[Scores], counts: npt.NDArray[np.int64]
) -> ScorerFigures:
    marked, risks = [one.is_marked for one in parts], [one.risk for one in scores]
    calls = [one.called for one in scores if one.called is not None]
    ranked = [precision_at(first, risks, marked, counts) for first in FIRST]
    return ScorerFigures(
        scorer=name,
        verdict=verdict_figures(calls, marked, counts) if calls else None,
        answers=_auroc(risks, marked, range(len(parts)), counts),
        sentences=_part_auroc([one.sentences for one in parts], [one.sentences for one in scores], counts),
        claims=_part_auroc([one.claims for one in parts], [one.claims for one in scores], counts),
        precision_at=tuple(one for one in ranked if one is not None),
        characters=_characters(parts, scores, counts),
        claim_verdicts=_claim_verdicts(parts, scores, counts),
        kinds=tuple(_kinds(parts, calls)) if calls else (),
    )


def _auroc(
    risks: Sequence[float], marked: Sequence[bool], rows: Sequence[int], counts: npt.NDArray[np.int64]
) -> Auroc | None:
    if all(marked) or not any(marked):
        return None
    return RankedItems(numbers=risks, right=marked, rows=rows).auroc(counts)


def _part_auroc(
    parts: Sequence[Sequence[JudgedPart]],
    risks: Sequence[Sequence[float] | None],
    counts: npt.NDArray[np.int64],
) -> Auroc | None:
    items = [
        (risk, part.is_marked, row)
        for row, (own, scores) in enumerate(zip(parts, risks, strict=True))
        for part, risk in zip(own, scores or (), strict=scores is not None)
        if part.is_marked is not None
    ]
    return _auroc([one[0] for one in items], [one[1] for one in items], [one[2] for one in items], counts)


def _characters(
    parts: Sequence[JudgedParts], scores: Sequence[Scores], counts: npt.NDArray[np.int64]
) -> F1Figures | None:
    pairs = [(own.flagged, one.marked) for own, one in zip(scores, parts, strict=True)]
    known = [(flags, marks) for flags, marks in pairs if flags is not None and marks is not None]
    if len(known) < len(pairs):
        return None
    return f1_figures(
        common=[len(flags & marks) for flags, marks in known],
        called=[len(flags) for flags, _ in known],
        marked=[len(marks) for _, marks in known],
        row_counts=counts,
    )


def _claim_verdicts(
    parts: Sequence[JudgedParts], scores: Sequence[Scores], counts: npt.NDArray[np.int64]
) -> F1Figures | None:
    """Claims that are called compared with those that are marked."""
    calls = [own.called_claims for own in scores]
    marks = [[part.is_marked for part in one.claims] for one in parts]
    if None in calls or any(None in own for own in marks) or not any(marks):
        return None
    pairs = [(own or (), of_answer) for own, of_answer in zip(calls, marks, strict=True)]
    return f1_figures(
        common=[sum(call and bool(mark) for call, mark in zip(own, some, strict=True)) for own, some in pairs],
        called=[sum(own) for own, _ in pairs],
        marked=[sum(map(bool, some)) for _, some in pairs],
        row_counts=counts,
    )


def _kinds(parts: Sequence[JudgedParts], calls: Sequence[bool]) -> Iterator[KindVerdicts]:
    kinds = [set(one.answer.error_kinds) for one in parts]
    for kind in sorted(set().union(*kinds)):
        own = [call for call, some in zip(calls, kinds, strict=True) if kind in some]
        yield KindVerdicts(kind, len(own), 100 * sum(own) / len(own))


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
        (one.scorer, *(cell for area in (one.answers, one.sentences, one.claims) for cell in _area_cells(area)))
        for one in scorers
    ]
    yield text_table((*header, _INTERVAL), areas)
    if group.answers >= FIRST[0]:
        firsts = [cell for one in FIRST if one <= group.answers for cell in (f"{one}, %", _INTERVAL)]
        lines = [
            (one.scorer, *(cell for found in one.precision_at for cell in _share_cells(found.precision)))
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
    for one in scorers:
        lines = [(kind.kind, str(kind.answers), f"{kind.called:.1f}") for kind in one.kinds]
        if lines:
            yield text_table(("called of the unsupported ones", "answers", f"{one.scorer}, %"), lines)


def _verdict_cells(verdict: VerdictFigures) -> tuple[str, ...]:
    with_intervals = (verdict.f1, verdict.balanced_accuracy, verdict.false_alarms)
    return (
        *(_share_cells(share)[0] for share in (verdict.precision, verdict.recall)),
        *(cell for share in with_intervals for cell in _share_cells(share)),
    )


def _share_cells(share: Share | None) -> tuple[str, str]:
    return ("", "") if share is None else (f"{share.value:.1f}", interval_cell(share.interval))


def _area_cells(area: Auroc | None) -> tuple[str, str]:
    return ("", "") if area is None else (f"{area.value:.3f}", interval_cell(area.interval, digits=3))

"""Scorers of answers, their sentences and their claims: the audit, and baselines that need no model.

All scores are risks: larger for what is more likely to be unsupported. So one protocol compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from attribeam.evaluation.support.judged_answers import flag_order
from attribeam.evaluation.support.judged_parts import JudgedParts, called_places, named_places, visible
from attribeam.evaluation.support.unseen_words import Novelty, content_words, word_beginnings
from attribeam.schemas import CharRange, ClaimKind, SpanEvidence, Support

NOVELTY = "novelty"
FLAG_ALL = "flag-all"
BASELINES = (NOVELTY, FLAG_ALL)

_LOWEST_RISK = 0.0
_HIGHEST_FLAG = 7.0


@dataclass(frozen=True, slots=True)
class ScoredAnswer:
    """What a scorer says about one answer.

    Attributes:
        risk: that of the answer.
        called: its own verdict on the answer; None if it has no threshold of its own.
        flagged: places of the visible characters that it calls unsupported; None if it has no threshold of its own.
        called_claims: its own verdict on each claim; None if it has no threshold of its own.
        sentences, claims: the risk of each of the answer's parts, in their order.
        characters: the risk of each visible character of the answer's ``JudgedParts.characters``, in their order.
    """

    risk: float
    called: bool | None
    flagged: frozenset[int] | None
    called_claims: tuple[bool, ...] | None
    sentences: tuple[float, ...]
    claims: tuple[float, ...]
    characters: tuple[float, ...]


class Scorer(Protocol):
    """Scores answers.

    Attributes:
        name: how tables call it.
        has_probabilities: whether the risks of answers and claims are meant as probabilities.
        has_order: whether its risks differ, so that a threshold on them can be chosen.
        scores_parts: whether it scores sentences, claims and characters, too; else their scores are empty.
    """

    name: str
    has_probabilities: bool
    has_order: bool
    scores_parts: bool

    def score(self, parts: JudgedParts) -> ScoredAnswer:
        """The scores of one answer."""


class AuditScorer:
    """The audit itself, by its own probabilities if it gives them, else by its flags: level first, then mass.

    ``answer_risk`` is an answer's risk, 1 - ``support_score`` that of a claim; a span inside a claim has the claim's.
    Without them an answer's risk is that of its worst span. What claims nothing or was not judged has no risk, and so
    has an answer in which there is nothing else. The audit calls an answer unsupported if it calls any span so.
    """

    def __init__(self, name: str, audited: Sequence[Sequence[SpanEvidence]]) -> None:
        """``audited`` is all evidence of the data set, which says whether there are probabilities."""
        self.name = name
        self.has_order = True
        self.scores_parts = True
        self.has_probabilities = any(span.answer_risk is not None for found in audited for span in found)
        self.has_scores = any(span.support_score is not None for found in audited for span in found)

    def score(self, parts: JudgedParts) -> ScoredAnswer:
        """The scores of one answer."""
        text, found = parts.answer.record.answer, parts.evidence
        risks = self._span_risks(found)
        places = {span.span_index: visible([span.chars], text) for span in found}
        of_place: dict[int, float] = {}
        for span in found:
            for place in places[span.span_index]:
                of_place[place] = max(of_place.get(place, _LOWEST_RISK), risks[span.span_index])
        seen = frozenset(parts.characters)
        alarms = called_places(found, text, frozenset({Support.UNSUPPORTED}))
        answer_risk = self._answer_risk(found, risks)
        risk_of_claim = {span.chars: risks[span.span_index] for span in found if span.is_claim}
        called_claims = {span.chars for span in found if span.is_claim and span.support is Support.UNSUPPORTED}
        return ScoredAnswer(
            risk=answer_risk,
            called=bool(alarms & seen),
            flagged=(alarms | named_places(found, text)) & seen,
            called_claims=tuple(part.chars in called_claims for part in parts.claims),
            sentences=tuple(_largest(of_place, part.chars) for part in parts.sentences),
            claims=tuple(risk_of_claim[part.chars] for part in parts.claims),
            characters=tuple(of_place.get(place, _LOWEST_RISK) for place in parts.characters),
        )

    def _span_risks(self, found: Sequence[SpanEvidence]) -> Mapping[int, float]:
        if not self.has_scores:
            return {span.span_index: _flag_risk(span) for span in found}
        scores = {span.span_index: span.support_score for span in found}
        owners = {span.span_index: span.claim_index for span in found}
        return {index: _score_risk(scores.get(index if owner is None else owner)) for index, owner in owners.items()}

    def _answer_risk(self, found: Sequence[SpanEvidence], risks: Mapping[int, float]) -> float:
        if self.has_probabilities:
            return next((span.answer_risk for span in found if span.answer_risk is not None), _LOWEST_RISK)
        return max(risks.values(), default=_LOWEST_RISK)


def _flag_risk(span: SpanEvidence) -> float:
    return 1 - flag_order(span.support, span.measured_mass) / _HIGHEST_FLAG


def _score_risk(support_score: float | None) -> float:
    return _LOWEST_RISK if support_score is None else 1 - support_score


def _largest(of_place: Mapping[int, float], chars: CharRange) -> float:
    return max((of_place.get(place, _LOWEST_RISK) for place in range(chars.char_start, chars.char_end)), default=0.0)


class ShareScorer:
    """The audit by how much of an answer its passages do not support; see ``ungrounded_share``."""

    has_probabilities = False
    has_order = True
    scores_parts = False

    def __init__(self, method: str) -> None:
        """``method`` is that of the audit."""
        self.name = f"{method} share"

    def score(self, parts: JudgedParts) -> ScoredAnswer:
        """The share of the answer, 0 where it neither claims nor refuses."""
        share = ungrounded_share(parts.evidence, parts.answer.record.answer)
        return ScoredAnswer(_LOWEST_RISK if share is None else share, None, None, None, (), (), ())


class NoveltyScorer:
    """The share of content words whose first six letters begin no word of the passages; characters have the sentence's.

    Example: of "Ada polished lamps" over the passage "Ada lit the lamp", "polished" and "lamps" are content words, and
    both are unseen, because no word of the passage begins with "lamps".
    """

    name = NOVELTY
    has_probabilities = False
    has_order = True
    scores_parts = True

    def score(self, parts: JudgedParts) -> ScoredAnswer:
        """The scores of one answer."""
        record = parts.answer.record
        beginnings, seen = word_beginnings(record.passages), frozenset(parts.characters)
        words = [word for word in content_words(record.answer) if word.char_start in seen]
        novelty = Novelty(record.answer, words, beginnings)
        sentences = tuple(novelty.share(part.chars) for part in parts.sentences)
        of_place = {
            place: of_sentence
            for part, of_sentence in zip(parts.sentences, sentences, strict=True)
            for place in range(part.chars.char_start, part.chars.char_end)
        }
        return ScoredAnswer(
            risk=novelty.share(CharRange(0, len(record.answer))),
            called=None,
            flagged=None,
            called_claims=None,
            sentences=sentences,
            claims=tuple(novelty.share(part.chars) for part in parts.claims),
            characters=tuple(of_place.get(place, _LOWEST_RISK) for place in parts.characters),
        )


class FlagAllScorer:
    """Calls every answer, sentence, claim and character unsupported."""

    name = FLAG_ALL
    has_probabilities = False
    has_order = False
    scores_parts = True

    def score(self, parts: JudgedParts) -> ScoredAnswer:
        """The scores of one answer."""
        return ScoredAnswer(
            risk=1.0,
            called=True,
            flagged=frozenset(parts.characters),
            called_claims=(True,) * len(parts.claims),
            sentences=(1.0,) * len(parts.sentences),
            claims=(1.0,) * len(parts.claims),
            characters=(1.0,) * len(parts.characters),
        )


def baseline_scorers() -> tuple[Scorer, ...]:
    """All scorers that need no model, in the order of ``BASELINES``."""
    return NoveltyScorer(), FlagAllScorer()


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

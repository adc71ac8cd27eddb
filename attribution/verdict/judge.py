"""Gives the evidence records of one answer their verdict: what each claim is called, and the answer's risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from attribeam.attribution.answers.markup import hide_ranges
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.option_types import MASS_VERDICT, SHIPPED_VERDICTS, VERDICT_FILE, Strictness
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.answer_words import AnswerWords
from attribeam.attribution.verdict.claim_kinds import word_kinds
from attribeam.attribution.verdict.claims import SpanClaim, answer_claims, label_words, words_in
from attribeam.attribution.verdict.premises import PassageSentences, Premise, Premises, is_attended
from attribeam.attribution.verdict.reasons import NO_REASON, Reasons, Why
from attribeam.attribution.verdict.signals import AnswerRow, Signals, answer_signals
from attribeam.attribution.verdict.state_probe import StateProbe
from attribeam.attribution.verdict.verbatim import LiteralIndex
from attribeam.attribution.verdict.verdict_model import (
    VerdictModel,
    load_verdict_model,
    log_odds,
    verdict_directory,
)
from attribeam.schemas import AnswerKind, CharRange, ClaimKind, QARecord, SpanEvidence, Support, TargetSpan
from attribeam.schemas.errors import ModelLoadError

_COPIED_SHARE = 0.8
"""The share of a span in a language that is not read from which on it counts as copied from a passage."""
_LARGEST_EXPONENT = 700.0
_EVEN = 0.5
"""The prior unless told: half of the answers have an unsupported claim."""


@dataclass(frozen=True, slots=True)
class _ClaimVerdict:
    support: Support
    score: float
    words: tuple[int, ...]
    why: Why = NO_REASON
    evidence_agrees: bool | None = None


def judge_of(options: MethodOptions) -> VerdictJudge | None:
    """The judge that the options ask for, None where claims are judged by their evidence mass.

    Raises:
        ModelLoadError: if the verdict's directory cannot be read.
    """
    if options.judges_by_mass:
        return None
    return _judge(
        options.verdict,
        options.strictness or Strictness.BALANCED,
        _EVEN if options.prior is None else options.prior,
        assume_language=options.assume_language,
    )


def probe_of(options: MethodOptions) -> StateProbe | None:
    """The probe of the verdict that the options ask for, None where it has none or is no fitted one.

    Raises:
        ModelLoadError: if the verdict's file cannot be read.
    """
    directory = verdict_directory(options.verdict)
    is_fitted = not options.judges_by_mass and (directory / VERDICT_FILE).is_file()
    return load_verdict_model(directory).probe if is_fitted else None


@lru_cache(maxsize=4)
def _judge(verdict: str, strictness: Strictness, prior: float, *, assume_language: bool) -> VerdictJudge:
    directory = verdict_directory(verdict)
    if not directory.is_dir():
        names = ", ".join((*SHIPPED_VERDICTS, MASS_VERDICT))
        raise ModelLoadError(f"verdict should be {names} or a directory of a fitted one, was: {verdict!r}")
    return VerdictJudge(load_verdict_model(directory), strictness, prior=prior, assume_language=assume_language)


class VerdictJudge:
    """Judges answers with one fitted model.

    ``prior`` is the share of answers that are expected to have an unsupported claim; ``assume_language`` judges every
    language.
    """

    def __init__(
        self,
        model: VerdictModel,
        strictness: Strictness = Strictness.BALANCED,
        *,
        prior: float = _EVEN,
        assume_language: bool = False,
    ) -> None:
        self._model = model
        self._strictness = strictness
        self._prior = prior
        self._unsupported = model.thresholds.unsupported(strictness)
        self._assume_language = assume_language

    def provenance(self) -> dict[str, str]:
        """The model's digest, the thresholds in force, and what was measured with it."""
        return {**self._model.provenance(self._strictness, self._prior)}

    def judged(
        self,
        record: QARecord,
        parsed: ParsedAnswer,
        spans: Sequence[TargetSpan],
        found: Sequence[SpanEvidence],
        matcher: ValueMatcher | None = None,
        probed: Sequence[float] | None = None,
    ) -> tuple[SpanEvidence, ...]:
        """The records ``found`` of the ``spans``, in order, with kinds, claims, scores, reasons and the answer's risk.

        Each claim is held against its premise: the sentences that its evidence and its words point to. Its support
        score is a probability, and decides alone whether it is supported, weak or unsupported; that of the riskiest
        claim is one minus the answer's risk. The words that speak most against an unsupported claim are named, and the
        suspicious ones of weak claims beside it. A span without a word that can be judged is no claim. A mention has
        the verdict of its claim. ``matcher`` is one for this answer and its passages, where the caller has it already.
        ``probed`` is what the verdict's probe says of each word of the answer, if it has one, or ``UNREAD``.
        """
        kinds = word_kinds(parsed, record, assume_language=self._assume_language)
        claims = answer_claims(parsed, record.answer, spans, kinds)
        matcher = matcher or ValueMatcher(answer=record.answer, parsed=parsed, passages=record.passages)
        answer = AnswerWords(parsed, record.answer)
        (signals,) = answer_signals([AnswerRow(record, answer, kinds, matcher)], self._model.table)
        literal = LiteralIndex(record.passages)
        stated = hide_ranges(record.answer, parsed.marked)
        risk, verdicts = None, dict[int, _ClaimVerdict]()
        judged = frozenset(signals.words)
        own = {
            index: one.words
            for index, one in enumerate(claims.spans)
            if one.claim_index == index and not judged.isdisjoint(one.words)
        }
        if own:
            sentences = PassageSentences(record.passages)
            premises = Premises(record, answer, sentences, self._model.table, matcher)
            of_claims = {
                index: premises.of_claim(
                    words,
                    _fact_words(parsed, found[index]),
                    found[index],
                    label_words(parsed, record.answer, words),
                )
                for index, words in own.items()
            }
            risk, verdicts = self._verdicts(own, of_claims, signals, probed)
            reasons = Reasons(record, parsed, sentences, matcher, literal)
            verdicts = {
                index: replace(
                    one,
                    why=reasons.why(own[index], of_claims[index], one.support, spans[index].chars),
                    evidence_agrees=is_attended(of_claims[index].numbers),
                )
                for index, one in verdicts.items()
            }
        whole = _JudgedAnswer(record, stated, parsed.words, claims.kind, risk, verdicts, literal)
        return tuple(whole.with_verdict(one, claim) for one, claim in zip(found, claims.spans, strict=True))

    def _verdicts(
        self,
        claims: Mapping[int, Sequence[int]],
        premises: Mapping[int, Premise],
        signals: Signals,
        probed: Sequence[float] | None,
    ) -> tuple[float, dict[int, _ClaimVerdict]]:
        """The answer's risk, and the verdict of each claim by its index."""
        numbers = [premises[index].numbers for index in claims]
        scored = self._model.scored(signals, [*claims.values()], numbers, probed)
        shift = log_odds(self._prior)
        scores = [1 - _probability(one + shift) for one in scored.claims.tolist()]
        flagged = min(scores) < self._unsupported
        of_words = dict(zip(signals.words, scored.words.tolist(), strict=True))
        verdicts: dict[int, _ClaimVerdict] = {}
        for (index, words), score in zip(claims.items(), scores, strict=True):
            support = self._support(score)
            named = self._named(words, of_words, support) if flagged else ()
            verdicts[index] = _ClaimVerdict(support, score, named)
        return _probability(scored.answer + shift), verdicts

    def _support(self, score: float) -> Support:
        if score < self._unsupported:
            return Support.UNSUPPORTED
        return Support.SUPPORTED if score >= self._model.thresholds.supported else Support.WEAK

    def _named(self, claimed: Sequence[int], of_words: Mapping[int, float], support: Support) -> tuple[int, ...]:
        """The claim's words that speak most against it: of an unsupported one at least one, if any is judged."""
        limits = self._model.thresholds
        if support is Support.SUPPORTED:
            return ()
        level = limits.word if support is Support.UNSUPPORTED else limits.weak_word
        judged = [word for word in claimed if word in of_words]
        named = tuple(word for word in judged if _probability(of_words[word]) >= level)
        if named or support is Support.WEAK:
            return named
        return tuple(sorted(judged, key=of_words.__getitem__)[-1:])


def _fact_words(parsed: ParsedAnswer, found: SpanEvidence) -> list[int]:
    """The words of the claim's atomic fact."""
    return [word for chars in found.atomic_fact for word in words_in(parsed, chars)]


@dataclass(frozen=True, slots=True)
class _JudgedAnswer:
    """What is known of an answer once its claims are judged.

    ``stated`` is its text with blanks for citation marks. ``risk`` is None where no word is judged; ``verdicts`` lie by
    the index of the claim.
    """

    record: QARecord
    stated: str
    words: Sequence[CharRange]
    kind: AnswerKind
    risk: float | None
    verdicts: Mapping[int, _ClaimVerdict]
    literal: LiteralIndex

    def with_verdict(self, found: SpanEvidence, claim: SpanClaim) -> SpanEvidence:
        """The record of a span with its kind, its claim and the claim's verdict."""
        fields: dict[str, Any] = {"claim_kind": claim.kind, "claim_index": claim.claim_index}
        if claim.claim_index is not None:
            fields |= self._of_claim(found, claim.claim_index)
        elif claim.kind is ClaimKind.LANGUAGE:
            fields |= self._in_another_language(found)
        else:
            fields["support"] = Support.NO_CLAIM if claim.kind.is_judgeable else Support.NOT_JUDGED
        return replace(found, answer_kind=self.kind, answer_risk=self.risk, **fields)

    def _of_claim(self, found: SpanEvidence, claim_index: int) -> dict[str, Any]:
        verdict = self.verdicts.get(claim_index)
        if verdict is None:
            return {"claim_kind": ClaimKind.DISCOURSE, "claim_index": None, "support": Support.NO_CLAIM}
        words = _joined([self.words[word] for word in verdict.words], self.record.answer)
        return {
            "support": verdict.support,
            "support_score": verdict.score,
            "reason": verdict.why.reason,
            "expected": verdict.why.expected,
            "how": verdict.why.how,
            "evidence_agrees": verdict.evidence_agrees,
            "unsupported_words": _within(words, found.chars),
        }

    def _in_another_language(self, found: SpanEvidence) -> dict[str, Any]:
        """Supported by the passage that the span copies, which becomes its best; else not judged."""
        copied = self.literal.copied(found.chars.of(self.stated), preferred=found.top_passage_index)
        if copied.passage_index is None or copied.share < _COPIED_SHARE:
            return {"support": Support.NOT_JUDGED}
        index = copied.passage_index
        margin = found.margin if index == found.top_passage_index else 0.0
        return {
            "support": Support.SUPPORTED,
            "top_passage_index": index,
            "top_passage_id": self.record.passages[index].passage_id,
            "margin": margin,
        }


def _joined(words: Sequence[CharRange], answer: str) -> tuple[CharRange, ...]:
    """The ranges of the words; those with only white space, marks or one short word between them are one."""
    ranges: list[CharRange] = []
    for word in words:
        if ranges and len(answer[ranges[-1].char_end : word.char_start].split()) <= 1:
            ranges[-1] = CharRange(ranges[-1].char_start, word.char_end)
        else:
            ranges.append(word)
    return tuple(ranges)


def _within(ranges: Sequence[CharRange], chars: CharRange) -> tuple[CharRange, ...]:
    """The parts of the ranges that lie in a span."""
    return tuple(
        CharRange(max(one.char_start, chars.char_start), min(one.char_end, chars.char_end))
        for one in ranges
        if one.overlaps(chars)
    )


def _probability(log_odds: float) -> float:
    return float(1 / (1 + np.exp(min(-log_odds, _LARGEST_EXPONENT))))

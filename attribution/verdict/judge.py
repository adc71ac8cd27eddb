"""Gives the evidence records of one answer their verdict: what each claim is called, and the answer's risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from attribeam.attribution.answers.markup import hide_ranges
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.option_types import MASS_VERDICT, SHIPPED_VERDICTS, VERDICT_FILE
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.claim_kinds import word_kinds
from attribeam.attribution.verdict.claims import AnswerClaims, SpanClaim, answer_claims
from attribeam.attribution.verdict.signals import Signals, answer_signals
from attribeam.attribution.verdict.state_probe import StateProbe
from attribeam.attribution.verdict.verbatim import LiteralIndex, comparable_units
from attribeam.attribution.verdict.verdict_model import (
    VerdictModel,
    claim_numbers,
    load_verdict_model,
    unmatched_claims,
    verdict_directory,
)
from attribeam.schemas import AnswerKind, CharRange, ClaimKind, QARecord, SpanEvidence, Support, TargetSpan
from attribeam.schemas.errors import ModelLoadError

_COPIED_SHARE = 0.8
"""The share of a span in a language that is not read from which on it counts as copied from a passage."""
_LITERAL_UNITS = 3
"""The fewest words of a claim that is supported because it stands literally in a passage."""
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, slots=True)
class _ClaimVerdict:
    support: Support
    score: float | None
    words: tuple[int, ...]


def judge_of(options: MethodOptions) -> VerdictJudge | None:
    """The judge that the options ask for, None where claims are judged by their evidence mass.

    Raises:
        ModelLoadError: if the verdict's directory cannot be read.
    """
    if options.judges_by_mass:
        return None
    return _judge(options.verdict, options.false_alarm_rate, assume_language=options.assume_language)


def probe_of(options: MethodOptions) -> StateProbe | None:
    """The probe of the verdict that the options ask for, None where it has none or is no fitted one.

    Raises:
        ModelLoadError: if the verdict's file cannot be read.
    """
    directory = verdict_directory(options.verdict)
    is_fitted = not options.judges_by_mass and (directory / VERDICT_FILE).is_file()
    return load_verdict_model(directory).probe if is_fitted else None


@lru_cache(maxsize=4)
def _judge(verdict: str, false_alarm_rate: float | None, *, assume_language: bool) -> VerdictJudge:
    directory = verdict_directory(verdict)
    if not directory.is_dir():
        names = ", ".join((*SHIPPED_VERDICTS, MASS_VERDICT))
        raise ModelLoadError(f"verdict should be {names} or a directory of a fitted one, was: {verdict!r}")
    model = load_verdict_model(directory)
    threshold = None if false_alarm_rate is None else model.risk_of_false_alarms(false_alarm_rate)
    return VerdictJudge(model, risk_threshold=threshold, assume_language=assume_language)


class VerdictJudge:
    """Judges answers with one fitted model.

    ``risk_threshold`` replaces the model's own; ``assume_language`` judges every language.
    """

    def __init__(
        self, model: VerdictModel, *, risk_threshold: float | None = None, assume_language: bool = False
    ) -> None:
        self._model = model
        self._risk_threshold = model.thresholds.answer_risk if risk_threshold is None else risk_threshold
        self._assume_language = assume_language

    def provenance(self) -> dict[str, str]:
        """The model's digest, the threshold in force, and what was measured with it."""
        return {**self._model.provenance(self._risk_threshold)}

    def judged(
        self,
        record: QARecord,
        parsed: ParsedAnswer,
        spans: Sequence[TargetSpan],
        found: Sequence[SpanEvidence],
        matcher: ValueMatcher | None = None,
        probed: Sequence[float] | None = None,
    ) -> tuple[SpanEvidence, ...]:
        """The records ``found`` of the ``spans``, in order, with kinds, claims, scores and the answer's risk.

        An answer is said to have an unsupported claim if its risk reaches the threshold. Then those of its claims with
        a low score are unsupported, and in any case the one with the lowest unless it stands literally in a passage; in
        other answers none is. The words that speak most against an unsupported claim are named, and the suspicious
        ones of weak claims beside it. A span without a word that can be judged is no claim. A number, date or name that
        neither passages nor question have lowers its claim's score and raises the answer's risk. A claim that stands
        literally in a passage has a high score. A mention has the verdict of its claim. ``matcher`` is one for this
        answer and its passages, where the caller has it already. ``probed`` is what the verdict's probe says of each
        word of the answer, if it has one, or ``UNREAD``.
        """
        kinds = word_kinds(parsed, record, assume_language=self._assume_language)
        claims = answer_claims(parsed, record.answer, spans, kinds)
        signals = answer_signals(record, parsed, kinds, self._model.table, matcher)
        literal = LiteralIndex(record.passages)
        stated = hide_ranges(record.answer, parsed.marked)
        risk, verdicts = self._verdicts([one.chars.of(stated) for one in spans], claims, signals, literal, probed)
        judged = _JudgedAnswer(record, stated, parsed.words, claims.kind, risk, verdicts, literal)
        return tuple(judged.with_verdict(one, claim) for one, claim in zip(found, claims.spans, strict=True))

    def _verdicts(
        self,
        texts: Sequence[str],
        claims: AnswerClaims,
        signals: Signals,
        literal: LiteralIndex,
        probed: Sequence[float] | None,
    ) -> tuple[float | None, dict[int, _ClaimVerdict]]:
        """The answer's risk, None where no word is judged, and the verdict of each claim by its index.

        ``texts`` are those of the spans without citation marks.
        """
        judged = frozenset(signals.words)
        own = {
            index: one.words
            for index, one in enumerate(claims.spans)
            if one.claim_index == index and not judged.isdisjoint(one.words)
        }
        if not own:
            return None, {}
        words = self._model.word_log_odds(signals, probed)
        answer = self._model.answers.log_odds(signals, words)
        odds = self._model.claims.log_odds(*claim_numbers(signals, words, [*own.values()], answer))
        unmatched = unmatched_claims(signals, [*own.values()])
        limits = self._model.thresholds
        risk = max(_probability(answer), limits.unmatched_risk if unmatched.any() else 0.0)
        copied = [self._is_literal(texts[index], literal) for index in own]
        scores = [1 - _probability(one) for one in odds]
        for place, is_unmatched in enumerate(unmatched):
            if is_unmatched:
                scores[place] = min(scores[place], limits.unmatched)
            elif copied[place]:
                scores[place] = max(scores[place], limits.literal)
        worst = min(range(len(scores)), key=scores.__getitem__)
        log_odds = dict(zip(signals.words, words.tolist(), strict=True))
        verdicts: dict[int, _ClaimVerdict] = {}
        for place, (index, claimed) in enumerate(own.items()):
            is_worst = place == worst and not (copied[place] and not unmatched[place])
            flagged = risk >= self._risk_threshold
            support = self._support(scores[place], flagged=flagged, is_worst=is_worst)
            named = self._named(claimed, log_odds, support) if flagged else ()
            verdicts[index] = _ClaimVerdict(support, scores[place], named)
        return risk, verdicts

    def _support(self, score: float, *, flagged: bool, is_worst: bool) -> Support:
        limits = self._model.thresholds
        if flagged and (is_worst or score < limits.unsupported):
            return Support.UNSUPPORTED
        return Support.SUPPORTED if score >= limits.supported else Support.WEAK

    def _named(self, claimed: Sequence[int], log_odds: Mapping[int, float], support: Support) -> tuple[int, ...]:
        """The claim's words that speak most against it: of an unsupported one at least one, if any is judged."""
        limits = self._model.thresholds
        if support is Support.SUPPORTED:
            return ()
        level = limits.word if support is Support.UNSUPPORTED else limits.weak_word
        judged = [word for word in claimed if word in log_odds]
        named = tuple(word for word in judged if _probability(log_odds[word]) >= level)
        if named or support is Support.WEAK:
            return named
        return tuple(sorted(judged, key=log_odds.__getitem__)[-1:])

    @staticmethod
    def _is_literal(text: str, literal: LiteralIndex) -> bool:
        return len(comparable_units(text)) >= _LITERAL_UNITS and bool(literal.literal_passages(text))


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
        judged = replace(
            found,
            claim_kind=claim.kind,
            claim_index=claim.claim_index,
            answer_kind=self.kind,
            answer_risk=self.risk,
        )
        if claim.claim_index is not None:
            return self._with_claim(judged, claim.claim_index)
        if claim.kind is ClaimKind.LANGUAGE:
            return self._in_another_language(judged)
        return replace(judged, support=Support.NO_CLAIM if claim.kind.is_judgeable else Support.NOT_JUDGED)

    def _with_claim(self, found: SpanEvidence, claim_index: int) -> SpanEvidence:
        verdict = self.verdicts.get(claim_index)
        if verdict is None:
            return replace(found, claim_kind=ClaimKind.DISCOURSE, claim_index=None, support=Support.NO_CLAIM)
        words = _joined([self.words[word] for word in verdict.words], self.record.answer)
        return replace(
            found,
            support=verdict.support,
            support_score=verdict.score,
            unsupported_words=_within(words, found.chars),
        )

    def _in_another_language(self, found: SpanEvidence) -> SpanEvidence:
        """Supported by the passage that the span copies, which becomes its best; else not judged."""
        copied = self.literal.copied(found.chars.of(self.stated), preferred=found.top_passage_index)
        if copied.passage_index is None or copied.share < _COPIED_SHARE:
            return replace(found, support=Support.NOT_JUDGED)
        index = copied.passage_index
        margin = found.margin if index == found.top_passage_index else 0.0
        return replace(
            found,
            support=Support.SUPPORTED,
            top_passage_index=index,
            top_passage_id=self.record.passages[index].passage_id,
            margin=margin,
        )


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

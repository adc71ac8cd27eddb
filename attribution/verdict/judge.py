"""Gives the evidence records of one answer their verdict: what each claim is called, why, and the answer's risk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from attribeam.attribution.answers.answer_names import AnswerName
from attribeam.attribution.answers.markup import hide_ranges
from attribeam.attribution.answers.numbers_and_dates import MONTHS, NUMBER, worded_numbers
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.unmatched_values import AnswerValue, ValueMatcher
from attribeam.attribution.option_declaration import MASS_VERDICT, SHIPPED_VERDICTS, VERDICT_FILE, Strictness
from attribeam.attribution.options import MethodOptions
from attribeam.attribution.verdict.citations import LiteralIndex
from attribeam.attribution.verdict.claim_reader import ClaimReader
from attribeam.attribution.verdict.claims import AnswerClaims, SpanClaim, answer_claims, word_kinds
from attribeam.attribution.verdict.fitted_parts import StateProbe
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS, Premise, claim_premises, is_attended
from attribeam.attribution.verdict.signals import AnswerRow, Signals, answer_signals
from attribeam.attribution.verdict.texts import NEGATIONS, WEEKDAYS, PassageSentences, carries_content, stem
from attribeam.attribution.verdict.verdict_model import (
    AnswerToScore,
    ScoredAnswer,
    VerdictModel,
    load_verdict_model,
    log_odds,
    verdict_directory,
)
from attribeam.schemas import (
    AnswerKind,
    CharRange,
    ClaimKind,
    QARecord,
    SpanEvidence,
    Support,
    SupportedHow,
    TargetSpan,
    UnsupportedReason,
)
from attribeam.schemas.errors import ModelLoadError

_ABOUT_THE_SAME = 0.5
"""The share of a claim that its premise must cover, alike words included, to have something *instead* of the rest."""
_QUOTED_SHARE = 0.85
_COVERED, _ADDED = 0.8, 0.15
"""A claim of which one premise covers less than the first share, and a second sentence adds the second, is combined."""
_MOSTLY_INVERTED = 0.5
_NEGATED_THERE = NEGATIONS | {"false"}
_MONTH = "|".join(name.capitalize() for name in MONTHS if len(name) > 3 or name == "may")
_TIMES = re.compile(
    rf"(?:\d{{1,2}}\s+)?\b(?:{_MONTH})\b(?:\s+\d{{1,2}}(?!\d))?(?:,?\s+\d{{4}})?|\b\d{{1,2}}[:.]\d\d(?:\s?[ap]\.?m\b\.?)?"
    rf"|\b\d{{1,2}}\s?[ap]\.?m\b\.?|\b(?:1[0-9]|20)\d\d\b(?!\s*%)"
    rf"|\b(?:{'|'.join(day.capitalize() for day in WEEKDAYS)})s?\b|\bnoon\b|\bmidnight\b"
)
_NAME = re.compile(r"[A-Z][\w’'.-]*\w(?:[ -](?:(?:of|the|de|von|van|and|&) )?[A-Z0-9][\w’'-]*)*")
_NUMBER_WITH_UNIT = re.compile(r"\s?(?:%|percent\b|per cent\b)")
_BEFORE_AMOUNT = "$€£"
_WORD_BEHIND = re.compile(r"[\s-]*([^\W\d_]+)")


@dataclass(frozen=True, slots=True)
class Why:
    """What stands beside a verdict: the reason of an unsupported claim with what its evidence has instead, or how."""

    reason: UnsupportedReason | None = None
    expected: str | None = None
    how: SupportedHow | None = None


NO_REASON = Why()
_NOT_THERE = Why(UnsupportedReason.NOT_IN_PASSAGES)


class Reasons:
    """Finds the reasons of one answer's claims; ``sentences`` are those that the premises point into."""

    def __init__(
        self,
        record: QARecord,
        parsed: ParsedAnswer,
        sentences: PassageSentences,
        matcher: ValueMatcher,
        literal: LiteralIndex,
    ) -> None:
        self._answer, self._parsed, self._sentences = record.answer, parsed, sentences
        self._matcher, self._literal = matcher, literal

    def why(self, words: Sequence[int], premise: Premise, support: Support, chars: CharRange) -> Why:
        """The reason of the claim with these words of the answer, which stands at ``chars``; none for a weak one."""
        if support is Support.SUPPORTED:
            return Why(how=self._how(premise, chars))
        if support is not Support.UNSUPPORTED or premise.sentence is None:
            return _NOT_THERE if support is Support.UNSUPPORTED else NO_REASON
        numbers = dict(zip(PREMISE_NUMBERS, premise.numbers.tolist(), strict=True))
        if numbers["soft"] < _ABOUT_THE_SAME:
            return _NOT_THERE
        return self._other_value(words, premise, chars) or self._turned(words, premise, numbers) or _NOT_THERE

    def _how(self, premise: Premise, chars: CharRange) -> SupportedHow:
        numbers = dict(zip(PREMISE_NUMBERS, premise.numbers.tolist(), strict=True))
        if numbers["run"] >= _QUOTED_SHARE or self._literal.literal_passages(chars.of(self._answer)):
            return SupportedHow.QUOTED
        if numbers["window"] < _COVERED and numbers["pair"] - numbers["window"] >= _ADDED:
            return SupportedHow.COMBINED
        return SupportedHow.PARAPHRASED

    def _other_value(self, words: Sequence[int], premise: Premise, chars: CharRange) -> Why | None:
        """The first value or name of the claim that its premise has another of, with that other one."""
        own = [one for one in self._matcher.values_in(chars) if self._is_of(one.chars, words)]
        content = self._sentences.content_of(premise.window)
        told = {stem(word) for word in re.findall(r"\w+", self._answer)}
        for one in own:
            if isinstance(one, AnswerValue) and not one.is_repeated_by(one.parts_in(content)):
                reason, rivals = self._rivals_of(one, premise)
                behind = _word_behind(self._answer, one.chars.char_end)
                expected = _best(rivals, behind, told)
                if expected is not None:
                    return Why(reason, expected)
        main = self._sentences.content_of([*self._sentences.titles_of(premise.sentence or 0), premise.sentence or 0])
        for one in own:
            if isinstance(one, AnswerName) and not one.is_repeated_by(one.parts_in(main)):
                names = [name for name in self._names(premise) if told.isdisjoint(map(stem, name.split()))]
                as_long = [name for name in names if len(name.split()) == len(one.parts)]
                if names:
                    return Why(UnsupportedReason.OTHER_ENTITY, next(iter(as_long), names[0]))
        return None

    def _turned(self, words: Sequence[int], premise: Premise, numbers: dict[str, float]) -> Why | None:
        """The opposite of what the premise says, or its roles exchanged."""
        sentence = self._sentences.all[premise.sentence or 0]
        expected = sentence.text
        told = (self._parsed.words[word].of(self._answer).lower() for word in words)
        if numbers["denied"] > 0 and NEGATIONS.isdisjoint(told) is not _NEGATED_THERE.isdisjoint(sentence.lowered):
            return Why(UnsupportedReason.NEGATED, expected)
        names = sum(self._parsed.universal_tags[word] == "PROPN" for word in words)
        if numbers["opposed"] > 0 or (numbers["inverted"] >= _MOSTLY_INVERTED and names and not premise.missing):
            return Why(UnsupportedReason.REVERSED, expected)
        return None

    def _is_of(self, chars: CharRange, words: Sequence[int]) -> bool:
        return any(self._parsed.words[word].overlaps(chars) for word in words)

    def _texts(self, premise: Premise) -> Iterator[str]:
        """The main sentence of the premise, then its others."""
        places = dict.fromkeys([premise.sentence or 0, *premise.window])
        return (self._sentences.all[place].text for place in places)

    def _rivals_of(self, value: AnswerValue, premise: Premise) -> tuple[UnsupportedReason, Iterator[tuple[str, str]]]:
        """Which kind of value it is, and those of its kind in the premise, each with the word behind it."""
        if _TIMES.fullmatch(value.chars.of(self._answer).strip()) or value.is_time:
            times = ((match.group().strip(), "") for text in self._texts(premise) for match in _TIMES.finditer(text))
            return UnsupportedReason.OTHER_TIME, times
        return UnsupportedReason.OTHER_VALUE, chain.from_iterable(map(_amounts_in, self._texts(premise)))

    def _names(self, premise: Premise) -> Iterator[str]:
        """The names in the main sentence of the premise; its first word only where it is part of a longer name."""
        for match in _NAME.finditer(self._sentences.all[premise.sentence or 0].text):
            name = match.group()
            if match.start() or " " in name or carries_content(name):
                yield name


def _amounts_in(text: str) -> Iterator[tuple[str, str]]:
    for match in sorted((*NUMBER.finditer(text), *worded_numbers(text)), key=lambda one: one.start()):
        start, end = match.span()
        start -= text[start - 1 : start] in tuple(_BEFORE_AMOUNT) if start else 0
        unit = _NUMBER_WITH_UNIT.match(text, end)
        end = unit.end() if unit else end
        if not _TIMES.fullmatch(text[start:end]):
            yield text[start:end].strip(), _word_behind(text, end)


def _word_behind(text: str, end: int) -> str:
    match = _WORD_BEHIND.match(text, end)
    return stem(match.group(1)) if match else ""


def _best(rivals: Iterator[tuple[str, str]], behind: str, told: set[str]) -> str | None:
    """The first rival that counts the same thing, else the first one that the answer does not have."""
    others = [
        (text, unit) for text, unit in rivals if text and not told.issuperset(map(stem, re.findall(r"\w+", text)))
    ]
    same = [text for text, unit in others if behind and unit == behind]
    return next(iter(same), others[0][0] if others else None)


_COPIED_SHARE = 0.8
"""The share of a span in a language that is not read from which on it counts as copied from a passage."""
_LARGEST_EXPONENT = 700.0
_AT_ONCE = 16
"""How many answers are measured at once."""
_EVEN = 0.5
"""The prior unless told: half of the answers have an unsupported claim."""


@dataclass(frozen=True, slots=True)
class _ClaimVerdict:
    support: Support
    score: float
    words: tuple[int, ...]
    why: Why = NO_REASON
    evidence_agrees: bool | None = None


@dataclass(frozen=True, slots=True)
class RowToJudge:
    """A row and the records that were ``found`` of its ``spans``, in order.

    ``matcher`` is one for its answer and passages, where the caller has it already. ``probed`` is what the verdict's
    probe says of each word of the answer, if it has one, or ``UNREAD``.
    """

    record: QARecord
    parsed: ParsedAnswer
    spans: Sequence[TargetSpan]
    found: Sequence[SpanEvidence]
    matcher: ValueMatcher | None = None
    probed: Sequence[float] | None = None


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
        self._model, self._reader = model, model.reader
        self._strictness = strictness
        self._prior = prior
        self._unsupported = model.thresholds.unsupported(strictness)
        self._assume_language = assume_language

    def provenance(self) -> dict[str, str]:
        """The model's digest, the thresholds in force, and what was measured with it."""
        return {**self._model.provenance(self._strictness, self._prior)}

    def judged(self, rows: Sequence[RowToJudge]) -> list[tuple[SpanEvidence, ...]]:
        """The records of each row's spans, in order, with kinds, claims, scores, reasons and the answer's risk.

        Each claim is held against its premise: the sentences that its evidence and its words point to. Its support
        score is a probability, and decides alone whether it is supported, weak or unsupported; that of the riskiest
        claim is one minus the answer's risk. The words that speak most against an unsupported claim are named, and the
        suspicious ones of weak claims beside it. A span without a word that can be judged is no claim. A mention has
        the verdict of its claim.
        """
        return [one for at in range(0, len(rows), _AT_ONCE) for one in self._judged_at_once(rows[at : at + _AT_ONCE])]

    def _judged_at_once(self, rows: Sequence[RowToJudge]) -> Iterator[tuple[SpanEvidence, ...]]:
        kinds = [word_kinds(row.parsed, row.record, assume_language=self._assume_language) for row in rows]
        answers = [AnswerRow.of(row.record, row.parsed, one, row.matcher) for row, one in zip(rows, kinds, strict=True)]
        signals = answer_signals(answers, self._model.table)
        claims = [_claims_of(*one, self._model, self._reader) for one in zip(rows, answers, signals, strict=True)]
        odds = iter(self._model.scored([one.to_score for one in claims if one.own]))
        for row, one in zip(rows, claims, strict=True):
            stated = hide_ranges(row.record.answer, row.parsed.marked)
            literal = LiteralIndex(row.record.passages)
            risk, verdicts = self._verdicts(one, next(odds), literal) if one.own else (None, {})
            whole = _JudgedAnswer(row.record, stated, row.parsed.words, one.all.kind, risk, verdicts, literal)
            yield tuple(whole.with_verdict(*pair) for pair in zip(row.found, one.all.spans, strict=True))

    def _verdicts(
        self, of: _Claims, odds: ScoredAnswer, literal: LiteralIndex
    ) -> tuple[float, dict[int, _ClaimVerdict]]:
        """The answer's risk, and the verdict of each claim by its index."""
        shift = log_odds(self._prior)
        scores = [1 - _probability(one + shift) for one in odds.claims.tolist()]
        flagged = min(scores) < self._unsupported
        of_words = dict(zip(of.to_score.signals.words, odds.words.tolist(), strict=True))
        record, parsed, spans = of.row.record, of.row.parsed, of.row.spans
        reasons = Reasons(record, parsed, of.sentences, of.answer.matcher, literal)
        verdicts: dict[int, _ClaimVerdict] = {}
        for (index, words), premise, score in zip(of.own.items(), of.premises, scores, strict=True):
            support = self._support(score)
            named = self._named(words, of_words, support) if flagged else ()
            why = reasons.why(words, premise, support, spans[index].chars)
            verdicts[index] = _ClaimVerdict(support, score, named, why, is_attended(premise.numbers))
        return _probability(odds.answer + shift), verdicts

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


@dataclass(frozen=True, slots=True)
class _Claims:
    """The claims of one answer with a judged word, by the index of their span, and their premises in the same order."""

    row: RowToJudge
    answer: AnswerRow
    all: AnswerClaims
    own: Mapping[int, Sequence[int]]
    sentences: PassageSentences
    premises: Sequence[Premise]
    to_score: AnswerToScore


def _claims_of(
    row: RowToJudge, answer: AnswerRow, signals: Signals, model: VerdictModel, reader: ClaimReader | None
) -> _Claims:
    every = answer_claims(row.parsed, row.record.answer, row.spans, answer.kinds)
    judged = frozenset(signals.words)
    own = {
        index: one.words
        for index, one in enumerate(every.spans)
        if one.claim_index == index and not judged.isdisjoint(one.words)
    }
    sentences = PassageSentences(row.record.passages if own else ())
    pairs = [(words, row.found[index]) for index, words in own.items()]
    premises = claim_premises(answer, sentences, pairs, model.table)
    read = None
    if reader is not None:
        claims = [*zip(own.values(), premises, strict=True)]
        read = reader.log_odds(reader.inputs(row.record.answer, row.parsed, claims, sentences))
    to_score = AnswerToScore(signals, [*own.values()], [one.numbers for one in premises], read, row.probed)
    return _Claims(row, answer, every, own, sentences, premises, to_score)


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
        copied_share, index = self.literal.copied(found.chars.of(self.stated), preferred=found.top_passage_index)
        if index is None or copied_share < _COPIED_SHARE:
            return {"support": Support.NOT_JUDGED}
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

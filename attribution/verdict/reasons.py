"""Why a claim is unsupported, and what its premise has instead; how a supported one is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from attribeam.attribution.answers.answer_names import AnswerName
from attribeam.attribution.answers.answer_values import AnswerValue
from attribeam.attribution.answers.numbers_and_dates import MONTHS, NUMBER, worded_numbers
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.attribution.verdict.passage_sentences import PassageSentences
from attribeam.attribution.verdict.premises import PREMISE_NUMBERS, Premise
from attribeam.attribution.verdict.record_fields import WEEKDAYS
from attribeam.attribution.verdict.verbatim import LiteralIndex
from attribeam.attribution.verdict.word_forms import NEGATIONS, carries_content, stem
from attribeam.schemas import CharRange, QARecord, Support, SupportedHow, UnsupportedReason

_ABOUT_THE_SAME = 0.5
"""The share of a claim that its premise must cover, alike words included, to have something *instead* of the rest."""
_COPIED_SHARE = 0.85
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
        if numbers["run"] >= _COPIED_SHARE or self._literal.literal_passages(chars.of(self._answer)):
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

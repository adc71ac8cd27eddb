"""Sentences of the passages that say something else in the place of a claim's words, and the same around it.

"Winds turn easterly in the evening" stands against "Winds turn westerly in the evening and bring rain": both are the
same around one place, and the words there exclude each other. The share of words in common cannot tell this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations, takewhile
from typing import NamedTuple

from attribeam.attribution.answers.answer_names import TITLES
from attribeam.attribution.answers.plain_text import MONTHS, ORDINAL_WORDS, numbers_in_word
from attribeam.attribution.verdict.texts import (
    NEGATIONS,
    OPPOSITES,
    WEEKDAYS,
    AnswerWords,
    PassageSentences,
    Sentence,
    carries_content,
    word_set,
)
from attribeam.schemas import UnsupportedReason

_EXCLUSIVE = (
    ORDINAL_WORDS,
    WEEKDAYS,
    tuple(name for name in MONTHS if len(name) > 3),
    ("spring", "summer", "autumn", "winter"),
    ("morning", "afternoon", "evening", "night"),
    ("breakfast", "lunch", "dinner"),
    ("hourly", "daily", "weekly", "monthly", "quarterly", "yearly"),
    ("north", "south", "east", "west"),
    ("northern", "southern", "eastern", "western"),
    ("northerly", "southerly", "easterly", "westerly"),
    ("red", "green", "blue", "yellow", "black", "white", "brown", "orange", "purple", "pink"),
    ("gold", "silver", "bronze"),
    ("mother", "father", "brother", "sister", "son", "daughter", "husband", "wife", "uncle", "aunt", "cousin"),
)
"""Words of which only one can be right in one place."""
_OTHERS = {word: frozenset(group) - {word} for group in _EXCLUSIVE for word in group}
_LEFT_OUT = frozenset(["a", "an", "the", "'s", "’s"])
_BREAKS = frozenset([";", "while", "whereas", "but"])
_SYMMETRIC = word_set("and or with married marries met meets plus versus vs between like resembles borders")
"""Words between two names that mean the same when these change places."""
_LEAST_AROUND, _LEAST_COVERED = 2, 0.75
"""How many words around a place must be the same, and which share of the claim's other content words."""
_CLEARLY, _ELSEWHERE = 2, 0.5
"""How many words more than around the claim's own words elsewhere in the sentence, and the share of the others from
which on another sentence with the claim's own words says that these are right."""
_ALIKE_LETTERS, _ALIKE = 4, 0.8
_LONGER_NAME = 3
"""How many words more than in the claim a name may have in a sentence."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Words of a claim, by place in the answer, and what a sentence of the passages has instead of them."""

    reason: UnsupportedReason
    words: tuple[int, ...]
    expected: str


class _Word(NamedTuple):
    """A word of a claim or sentence, which is at ``position`` there.

    ``is_joined`` is whether it follows another word, ``clause`` the number of its part between ";", "but" and the like.
    Articles and "'s" are left out, and do not part words.
    """

    position: int
    text: str
    lowered: str
    stem: str
    content: bool
    is_capital: bool
    is_joined: bool
    clause: int

    @property
    def is_number(self) -> bool:
        return any(map(str.isdigit, self.text))

    @property
    def is_name(self) -> bool:
        return self.is_capital and self.lowered not in WEEKDAYS and self.lowered not in MONTHS


_Words = Sequence[_Word]


class _Slot(NamedTuple):
    """Some words in a row: the first, and the end."""

    start: int
    end: int

    def of(self, words: _Words) -> _Words:
        return words[self.start : self.end]


def find_contradiction(
    answer: AnswerWords, words: Sequence[int], sentences: PassageSentences, places: Sequence[int]
) -> Contradiction | None:
    """What the first of some sentences, by place, has instead of words of a claim, if it is the claim but for these.

    Names, numbers and opposites exclude each other. There is no contradiction where the same stands around the claim's
    own words, or another sentence has them with much of the rest of the claim. A sentence may also have two names or
    numbers of the claim the other way round.
    """
    claim = [*_claim_words(answer, words)]
    slots = [*_slots(claim)]
    texts = [[*_sentence_words(sentences.all[place])] for place in places] if slots else []
    for slot in slots:
        beside = [_Beside(claim, slot, text) for text in texts]
        most = max((text.most_around_own for text in beside), default=0)
        if most == len(claim) - (slot.end - slot.start):
            return None
        for text in beside:
            rival = text.rival(most)
            if rival and not text.is_said_elsewhere(sentences):
                return text.contradiction(rival)
    for first, second in combinations(slots, 2):
        for place, read in zip(places, texts, strict=True):
            if _is_exchanged(claim, first, second, read):
                exchanged = tuple(word.position for word in (*first.of(claim), *second.of(claim)))
                return Contradiction(UnsupportedReason.REVERSED, exchanged, sentences.all[place].text)
    return None


def _claim_words(answer: AnswerWords, words: Sequence[int]) -> Iterator[_Word]:
    """The words of a claim; the first one of a sentence is a name only before another word with a capital."""
    starts = {start for start, _ in answer.bounds}
    capitals = [answer.texts[word][:1].isupper() and answer.content[word] for word in words]
    before = clause = -1
    for number, word in enumerate(words):
        text, lowered, content = answer.texts[word], answer.lowered[word], answer.content[word]
        clause += lowered in _BREAKS
        if lowered not in _LEFT_OUT:
            if not (answer.is_word[word] and answer.states[word]):
                continue
            is_capital = capitals[number] and (word not in starts or any(capitals[number + 1 : number + 2]))
            yield _Word(word, text, lowered, answer.stems[word], content, is_capital, before == word - 1, clause)
        elif before != word - 1:
            continue
        before = word


def _sentence_words(sentence: Sentence) -> Iterator[_Word]:
    before = clause = -1
    for index, (text, lowered, own) in enumerate(zip(sentence.words, sentence.lowered, sentence.stems, strict=True)):
        clause += lowered in _BREAKS
        if lowered not in _LEFT_OUT:
            if not text[0].isalnum():
                continue
            content = carries_content(text)
            yield _Word(index, text, lowered, own, content, content and text[0].isupper(), before == index - 1, clause)
        elif before != index - 1:
            continue
        before = index


def _slots(claim: _Words) -> Iterator[_Slot]:
    """The names, numbers, and words with opposites of a claim."""
    yield from _names(claim)
    for place, word in enumerate(claim):
        if word.lowered in OPPOSITES or word.lowered in _OTHERS or word.is_number:
            yield _Slot(place, place + 1)


def _names(words: _Words) -> Iterator[_Slot]:
    """Words with capitals in a row."""
    start = 0
    for place, word in enumerate(words):
        if not word.is_name:
            continue
        if not place or not (word.is_joined and words[place - 1].is_name):
            start = place
        if place + 1 == len(words) or not (words[place + 1].is_joined and words[place + 1].is_name):
            yield _Slot(start, place + 1)


class _Beside:
    """Some words of a claim, and one sentence."""

    def __init__(self, claim: _Words, slot: _Slot, text: _Words) -> None:
        self._claim, self._slot, self._text = claim, slot, text
        self._own, self._first = slot.of(claim), claim[slot.start]
        last, size = claim[slot.end - 1].stem, slot.end - slot.start
        # of a name the last word is enough
        self._same = [_Slot(max(end - size, 0), end) for end, word in enumerate(text, 1) if word.stem == last]

    @property
    def most_around_own(self) -> int:
        """How many words are the same around the claim's own ones, where the sentence has most; 0 if it lacks them."""
        return max((sum(self._around(same)) for same in self._same), default=0)

    def rival(self, most_around_own: int) -> _Slot | None:
        """Words that stand in the place of the claim's own ones."""
        for slot in self._rivals():
            before, behind = self._around(slot)
            if self._is_same_place(slot, before, behind, most_around_own) and self._covered(slot) >= _LEAST_COVERED:
                return slot
        return None

    def contradiction(self, rival: _Slot) -> Contradiction:
        reason = UnsupportedReason.OTHER_ENTITY if self._first.is_name else UnsupportedReason.REVERSED
        if self._first.is_number:
            reason = UnsupportedReason.OTHER_VALUE
        elif self._first.lowered in WEEKDAYS or self._first.lowered in MONTHS:
            reason = UnsupportedReason.OTHER_TIME
        expected = " ".join(word.text for word in rival.of(self._text))
        return Contradiction(reason, tuple(word.position for word in self._own), expected)

    def is_said_elsewhere(self, sentences: PassageSentences) -> bool:
        """Whether another sentence has the claim's own words, and much of the rest."""
        others = {word.stem for word in self._claim if word.content and word not in self._own}
        here, last = {word.stem for word in self._text}, self._own[-1].stem
        every = [{*sentence.stems} for sentence in sentences.all]
        return any(
            last in stems and len(others & stems) >= _ELSEWHERE * len(others)
            for stems in every
            if not (self._same and here <= stems)
        )

    def _around(self, slot: _Slot) -> tuple[int, int]:
        """How many words in a row are the same before the two places, and how many behind them."""
        before = zip(reversed(self._claim[: self._slot.start]), reversed(self._text[: slot.start]), strict=False)
        behind = zip(self._claim[self._slot.end :], self._text[slot.end :], strict=False)
        return _alike(before), _alike(behind)

    def _rivals(self) -> Iterator[_Slot]:
        """Words that exclude the claim's own ones, if they stand in their place."""
        first = self._first
        opposites = OPPOSITES.get(first.lowered, frozenset()) | _OTHERS.get(first.lowered, frozenset())
        if opposites and len(self._own) == 1:
            yield from (self._at(place) for place, word in enumerate(self._text) if word.lowered in opposites)
        elif first.is_name:
            names = (slot for slot in _names(self._text) if slot.end > 1)  # many sentences begin with another word
            yield from (slot for slot in names if not _may_be_same(self._own, slot.of(self._text)))
        elif first.is_number:
            known = numbers_in_word(first.text)
            yield from (
                self._at(place)
                for place, word in enumerate(self._text)
                if word.is_number and known.isdisjoint(numbers_in_word(word.text))
            )

    def _at(self, place: int) -> _Slot:
        return _Slot(place, place + 1)

    def _is_same_place(self, slot: _Slot, before: int, behind: int, most_around_own: int) -> bool:
        """Whether the sentence says the same around other words as the claim does around its own."""
        own, claim = self._slot, self._claim
        around = [*claim[own.start - before : own.start], *claim[own.end : own.end + behind]]
        if len(around) < _LEAST_AROUND or not any(word.content for word in around):
            return False
        if _is_denied(claim, own) is not _is_denied(self._text, slot):
            return False
        clause = self._text[slot.start].clause
        same = [other for other in self._same if self._text[other.start].clause == clause]
        if self._first.is_name:
            is_open = (own.start and not before) or (own.end < len(claim) and not behind)
            return not same and not is_open and before + behind > most_around_own
        if not same and not self._first.is_number:
            return before + behind > most_around_own
        # "2.80 euros, a day ticket 6.50" has both numbers; what may be left out before the second one must not be
        is_whole = before == own.start and any(word.content for word in around[:before])
        is_listed = any(not any(word.content for word in _between(slot, other, self._text)) for other in same)
        return bool(same) and is_whole and not is_listed and before + behind >= most_around_own + _CLEARLY

    def _covered(self, slot: _Slot) -> float:
        """The share of the claim's other content words that the sentence has on the same side; 0 for none."""
        before = {word.stem for word in self._text[: slot.start]}
        behind = {word.stem for word in self._text[slot.end :]}
        covered = [word.stem in before for word in self._claim[: self._slot.start] if word.content]
        covered += [word.stem in behind for word in self._claim[self._slot.end :] if word.content]
        return sum(covered) / len(covered) if covered else 0.0


def _alike(pairs: Iterable[tuple[_Word, _Word]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0].stem == pair[1].stem, pairs))


def _is_denied(words: _Words, slot: _Slot) -> bool:
    """Whether a negation stands right beside: "with no steam", "not easy"."""
    beside = (*words[max(slot.start - 1, 0) : slot.start], *words[slot.end : slot.end + 1])
    return not NEGATIONS.isdisjoint(word.lowered for word in beside)


def _between(first: _Slot, second: _Slot, text: _Words) -> _Words:
    return text[min(first.end, second.end) : max(first.start, second.start)]


def _may_be_same(name: _Words, other: _Words) -> bool:
    """Whether two names may name the same: one is short for something, or has only titles, or words are alike."""
    first, second = ([word for word in words if word.lowered not in TITLES] for words in (name, other))
    if not first or not second or any(len(word.text) > 1 and word.text.isupper() for word in (*first, *second)):
        return True
    return any(
        one.lowered[:_ALIKE_LETTERS] == two.lowered[:_ALIKE_LETTERS]
        or SequenceMatcher(None, one.lowered, two.lowered).ratio() >= _ALIKE
        for one in first
        for two in second
    )


def _is_exchanged(claim: _Words, first: _Slot, second: _Slot, text: _Words) -> bool:
    """Whether two names or numbers of a claim stand in a text the other way round, with the same words between."""
    one, two, middle = claim[first.end - 1], claim[second.end - 1], claim[first.end : second.start]
    are_names, are_numbers = one.is_name and two.is_name, one.is_number and two.is_number
    if one.stem == two.stem or not (are_names or are_numbers):
        return False
    if not any(word.content and word.lowered not in _SYMMETRIC for word in middle):
        return False
    stems, between = [word.stem for word in text], [word.stem for word in middle]
    most = first.end - first.start + _LONGER_NAME
    starts = [place for place, own in enumerate(stems, 1) if own == two.stem]
    return any(
        stems[start : start + len(between)] == between and one.stem in stems[start + len(between) :][:most]
        for start in starts
    )

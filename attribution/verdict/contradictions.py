"""Sentences of the passages that say something else in the place of a claim's words, and the same around it.

"Winds turn easterly in the evening" stands against "Winds turn westerly in the evening and bring rain": both are the
same around one place, and the words there exclude each other. The share of words in common cannot tell this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import combinations, pairwise, takewhile
from typing import NamedTuple

from attribeam.attribution.answers.answer_names import TITLES
from attribeam.attribution.answers.plain_text import (
    MONTHS,
    ORDINAL_WORDS,
    SMALL_NUMBER_WORDS,
    numbers_in_word,
    remembered,
)
from attribeam.attribution.verdict.texts import (
    NEGATIONS,
    OPPOSITES,
    WEEKDAYS,
    AnswerWords,
    PassageSentences,
    Sentence,
    carries_content,
    stem,
    word_set,
)
from attribeam.schemas import UnsupportedReason

_GROUPS = """
spring summer autumn winter; morning afternoon evening night; breakfast lunch dinner; hourly daily weekly monthly
quarterly yearly; north south east west; northern southern eastern western; northerly southerly easterly westerly; red
green blue yellow black white brown orange purple pink; gold silver bronze; mother father brother sister son daughter
husband wife uncle aunt cousin
"""
_EXCLUSIVE = (
    ORDINAL_WORDS,
    WEEKDAYS,
    tuple(name for name in MONTHS if len(name) > 3),
    *map(str.split, _GROUPS.split(";")),
)
"""Words of which only one can be right in one place."""
_OTHERS = {word: frozenset(group) - {word} for group in _EXCLUSIVE for word in group}
_NONE = frozenset[str]()
_COUNTS = frozenset(SMALL_NUMBER_WORDS) - {"one"}
_LEFT_OUT = frozenset(["a", "an", "the", "'s", "’s"])
_MARKS = " .!?"
_FOR_A_NOUN = frozenset(["one", "ones"])
_BREAKS = frozenset([";", "while", "whereas", "but"])
_TURNING = NEGATIONS | {"against", "but", "except"}
"""Words with which an opposite may say the same: "closed on Monday" is "open every day but Monday"."""
_SYMMETRIC = word_set("and or with married marries met meets plus versus vs between like resembles borders")
_RELATIVES = word_set("cousin cousins partner colleague neighbour neighbor twin rival sibling friend")
"""Words between two names that mean the same when these change places, the second ones among whatever words."""
_LEAST_AROUND, _LEAST_COVERED = 2, 0.75
"""How many words around a place must be the same, and which share of the claim's other content words."""
_CLEARLY, _ELSEWHERE = 2, 0.5
"""How many words more than around the claim's own words elsewhere in the sentence, and the share of the others from
which on another sentence with the claim's own words says that these are right."""
_ALIKE_LETTERS, _ALIKE = 4, 0.8
_MOST_WORDS = 100
"""The most words of a claim or sentence that is compared; what is longer is a list, or several statements."""


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
        return self.lowered in _COUNTS or (not self.text.isalpha() and any(map(str.isdigit, self.text)))

    @property
    def is_name(self) -> bool:
        return self.is_capital and self.lowered not in WEEKDAYS and self.lowered not in MONTHS

    @property
    def opposites(self) -> frozenset[str]:
        return OPPOSITES.get(self.lowered, _NONE) | _OTHERS.get(self.lowered, _NONE)

    def excludes(self, other: _Word) -> bool:
        if self.is_number and other.is_number:
            return numbers_in_word(self.text).isdisjoint(numbers_in_word(other.text))
        return (self.text[0].isupper() and other.text[0].isupper()) or other.lowered in self.opposites


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
    own words, or another sentence has them with much of the rest of the claim; questions and orders contradict nothing.
    A sentence may also have two names or numbers of the claim the other way round.
    """
    if len(words) > _MOST_WORDS:
        return None
    claimed = answer.text[answer.ranges[words[0]].char_start : answer.ranges[words[-1]].char_end].rstrip(_MARKS)
    if any(claimed in sentences.all[place].text for place in places):
        return None
    claim = [*_claim_words(answer, words)]
    slots = [*_slots(claim)]
    if slots and not slots[0].start and answer.parsed.universal_tags[claim[0].position] == "VERB":
        del slots[0]  # "Close the lid" may be a later step than "Open the lid"
    if not slots:
        return None
    every = [sentences.all[place] for place in places]
    said = [sentence for sentence in every if len(sentence.words) <= _MOST_WORDS and not sentence.text.endswith("?")]
    content = [word.stem for word in claim if word.content]
    least = _LEAST_COVERED * (len(content) - max(slot.end - slot.start for slot in slots))
    near = [_read(one.text, one.words) for one in said if sum(map({*one.stems}.__contains__, content)) >= least]
    row, *rows = (f" {' '.join([word.stem for word in read])} " for read in (claim, *near))
    if not rows or any(row in other for other in rows):
        return None
    for slot in slots:
        for beside in [_Beside(claim, slot, text) for text in near]:
            for rival, same in beside.rivals():
                each = (_Beside(claim, slot, _read(other.text, other.words)) for other in said)
                most = max(other.most_around_own() for other in each)
                if same > most and not beside.is_said_elsewhere(rival, sentences):
                    return beside.contradiction(rival)
    return _exchanged(claim, slots, said)


def _exchanged(claim: _Words, slots: Sequence[_Slot], said: Sequence[Sentence]) -> Contradiction | None:
    """Two names or numbers of a claim that a sentence has the other way round, with the same words between them."""
    for first, second in combinations(slots, 2):
        one, middle, two = claim[first.end - 1], claim[first.end : second.start], claim[second.end - 1]
        are_alike = one.stem != two.stem and ((one.is_name and two.is_name) or (one.is_number and two.is_number))
        is_told = are_alike and any(word.content and word.lowered not in _SYMMETRIC for word in middle)
        if not is_told or middle[-1].lowered == "with" or any(word.lowered in _RELATIVES for word in middle):
            continue
        texts = [_read(sentence.text, sentence.words) for sentence in said]
        if not any(_are_in_row(one, middle, two, text) for text in texts):
            around = [*claim[: first.start], *claim[second.end :]]
            for sentence, text in zip(said, texts, strict=True):
                if _are_in_row(two, middle, one, text) and not _differ(around, text):
                    exchanged = tuple(word.position for word in (*first.of(claim), *second.of(claim)))
                    return Contradiction(UnsupportedReason.REVERSED, exchanged, sentence.text)
    return None


def _claim_words(answer: AnswerWords, words: Sequence[int]) -> Iterator[_Word]:
    """The words of a claim; the first one of a sentence is a name only before another word with a capital."""
    starts = {start for start, _ in answer.bounds}
    capitals = [
        answer.texts[word][:1].isupper()
        and (answer.content[word] or (_is_letter(answer.texts[word]) and word not in starts))
        for word in words
    ]
    each = [
        (word, answer.texts[word], answer.content[word], is_capital and (word not in starts or is_next))
        for word, is_capital, is_next in zip(words, capitals, [*capitals[1:], False], strict=True)
    ]
    return _words_of(each, [answer.is_word[word] and answer.states[word] for word in words])


@remembered
def _read(_: str, words: tuple[str, ...]) -> tuple[_Word, ...]:
    """The words of a sentence, of those with its marks."""
    content = [*map(carries_content, words)]
    each = [
        (index, text, content[index], text[0].isupper() and (content[index] or (index > 0 and _is_letter(text))))
        for index, text in enumerate(words)
    ]
    return (*_words_of(each, [text[0].isalnum() for text in words]),)


def _words_of(words: Iterable[tuple[int, str, bool, bool]], are_words: Iterable[bool]) -> Iterator[_Word]:
    """Places, texts, and whether they carry content and have a capital, as words."""
    before = clause = -1
    for (place, text, content, is_capital), is_word in zip(words, are_words, strict=True):
        lowered, is_joined = text.lower(), before == place - 1
        clause += lowered in _BREAKS
        if (lowered not in _LEFT_OUT or is_capital) and is_word:
            yield _Word(place, text, lowered, stem(text), content, is_capital, is_joined, clause)
        elif lowered not in _LEFT_OUT or not is_joined:
            continue
        before = place


def _is_letter(text: str) -> bool:
    """Whether a capital names one of several: "vitamin A"."""
    return len(text) == 1 and text.isupper() and text != "I"


def _slots(claim: _Words) -> Iterator[_Slot]:
    """The names, numbers, and words with opposites of a claim."""
    yield from _names(claim)
    for place, word in enumerate(claim):
        if word.opposites or word.is_number:
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

    def __init__(self, claim: _Words, slot: _Slot, words: _Words) -> None:
        self._claim, self._slot, self._words = claim, slot, words
        self._own, self._first = slot.of(claim), claim[slot.start]
        self._opposites = self._first.opposites if len(self._own) == 1 else _NONE
        self._is_name = self._first.is_name and not self._opposites
        self._others = [word for word in (*claim[: slot.start], *claim[slot.end :]) if word.content]

    @cached_property
    def _alike(self) -> frozenset[str]:
        """The stems of the claim's own word and of those that have an opposite in common; of a name the last word's."""
        same = (stem(word) for opposite in self._opposites for word in OPPOSITES.get(opposite, ()))
        return frozenset([self._own[-1].stem, *same])

    @cached_property
    def _same(self) -> list[_Slot]:
        size = len(self._own)
        return [_Slot(max(end - size, 0), end) for end, word in enumerate(self._words, 1) if word.stem in self._alike]

    def most_around_own(self) -> int:
        """How many words are the same around the claim's own ones, where the sentence has most; 0 if it lacks them."""
        return max((sum(self._around(same)) for same in self._same), default=0)

    def rivals(self) -> Iterator[tuple[_Slot, int]]:
        """Words that stand in the place of the claim's own ones, and how much of the same must stand around those."""
        for slot in self._excluding():
            before, behind = self._around(slot)
            is_rival = self._is_same_place(slot, before, behind) and self._is_covered(slot)
            if is_rival and not (self._is_name and _may_be_same(self._own, slot.of(self._words))):
                yield slot, before + behind - (_CLEARLY - 1 if self._same and not self._first.is_name else 0)

    def contradiction(self, rival: _Slot) -> Contradiction:
        reason = UnsupportedReason.OTHER_ENTITY if self._first.is_name else UnsupportedReason.REVERSED
        if self._first.is_number:
            reason = UnsupportedReason.OTHER_VALUE
        elif self._first.lowered in WEEKDAYS or self._first.lowered in MONTHS:
            reason = UnsupportedReason.OTHER_TIME
        expected = " ".join(word.text for word in rival.of(self._words))
        return Contradiction(reason, tuple(word.position for word in self._own), expected)

    def is_said_elsewhere(self, rival: _Slot, sentences: PassageSentences) -> bool:
        """Whether another sentence has the claim's own words and much of the rest, or both names as one."""
        others, here = {word.stem for word in self._others}, {word.stem for word in self._words}
        names = {self._own[-1].stem, self._words[rival.end - 1].stem} if self._first.is_name else {""}
        return any(
            (
                not self._alike.isdisjoint(stems)
                and len(others.intersection(stems)) >= _ELSEWHERE * len(others)
                and not (self._same and here.issubset(stems))
            )
            or any(names.issubset(pair) for pair in pairwise(stems))
            for stems in (sentence.stems for sentence in sentences.all)
        )

    def _sides(self, slot: _Slot) -> Iterator[tuple[_Words, _Words]]:
        """The other words of the claim and of the sentence before the two places, and behind, the nearest first."""
        yield self._claim[: self._slot.start][::-1], self._words[: slot.start][::-1]
        yield self._claim[self._slot.end :], self._words[slot.end :]

    def _around(self, slot: _Slot) -> tuple[int, int]:
        """How many words in a row are the same before the two places, and how many behind them."""
        (own, theirs), behind = self._sides(slot)
        return _alike(own, theirs), _alike(*behind)

    def _excluding(self) -> Iterator[_Slot]:
        """Words that exclude the claim's own ones, if they stand in their place, and names, which may be the same."""
        first, opposites = self._first, self._opposites
        if self._is_name:
            yield from (slot for slot in _names(self._words) if slot.end > 1)  # many sentences begin otherwise
            return
        for place, word in enumerate(self._words):
            if word.lowered in opposites or (first.is_number and word.is_number and first.excludes(word)):
                yield _Slot(place, place + 1)

    def _is_same_place(self, slot: _Slot, before: int, behind: int) -> bool:
        """Whether the sentence says the same around other words as the claim does around its own."""
        own, claim, words, first = self._slot, self._claim, self._words, self._words[slot.start]
        around = [*claim[own.start - before : own.start], *claim[own.end : own.end + behind]]
        if len(around) < _LEAST_AROUND or not any(word.content for word in around):
            return False
        if before and first.is_joined and not self._first.is_joined:
            return False
        near = (*words[max(slot.start - 2, 0) : slot.start], *words[slot.end : slot.end + 2])
        if any(word.lowered in _OTHERS.get(first.lowered, ()) for word in near):  # "Monday to Friday"
            return False
        same = [other for other in self._same if words[other.start].clause == first.clause]
        if self._first.is_name:
            is_open = (own.start and not before) or (own.end < len(claim) and not behind)
            return not same and not is_open
        if not self._same and not self._first.is_number:
            return True
        # "2.80 euros, a day ticket 6.50" has both numbers; what may be left out before the second one must not be
        is_whole = before == own.start and any(word.content for word in around[:before])
        is_whole = is_whole and (own.end + behind == len(claim) or not self._first.is_number)
        return bool(same) and is_whole and not any(_are_listed(words, *sorted((slot, other))) for other in same)

    def _is_covered(self, slot: _Slot) -> bool:
        """Whether the sentence has enough of the claim's other words on the same sides, and differs nowhere else."""
        covered, is_turned = 0, False
        for own, theirs in self._sides(slot):
            alike = _alike(own, theirs)
            if _differ(own, theirs) or any(map(_Word.excludes, own[alike : alike + 1], theirs[alike : alike + 1])):
                return False
            content, stems = {word.stem for word in own if word.content}, {word.stem for word in theirs}
            end = max(1, alike, *(place for place, word in enumerate(theirs, 1) if word.stem in content))
            is_turned |= _turns(own) is not _turns(theirs[:end])
            covered += sum(word.stem in stems for word in own if word.content)
        return not is_turned and covered >= max(_LEAST_COVERED * len(self._others), 1)


def _alike(own: _Words, theirs: _Words) -> int:
    """How many words in a row are the same at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0].stem == pair[1].stem, zip(own, theirs, strict=False)))


def _turns(words: _Words) -> bool:
    return any(word.lowered in _TURNING for word in words)


def _are_listed(words: _Words, first: _Slot, second: _Slot) -> bool:
    """Whether words stand beside others, as in "old and new", or "old books and new ones"."""
    is_for_a_noun = any(word.lowered in _FOR_A_NOUN for word in words[second.end : second.end + 1])
    return is_for_a_noun or not any(word.content for word in words[first.end : second.start])


def _differ(own: _Words, theirs: _Words) -> bool:
    """Whether some words lack a name or number of the others, or have an opposite of one instead."""
    stems, lowered = {word.stem for word in theirs}, {word.lowered for word in theirs}
    return any(
        word.is_capital or word.is_number or not word.opposites.isdisjoint(lowered)
        for word in own
        if word.content and word.stem not in stems
    )


def _may_be_same(name: _Words, other: _Words) -> bool:
    """Whether two names may name the same: one is short for something or is a title, or words are alike."""
    first, second = ([word for word in words if word.lowered not in TITLES] for words in (name, other))
    is_title = name[-1].lowered in TITLES or other[-1].lowered in TITLES  # "Prime Minister"
    is_short, is_other_short = (
        any(len(word.text) > 1 and word.text.isupper() for word in words) for words in (first, second)
    )
    if is_title or is_short is not is_other_short:
        return True
    return any(
        one.lowered[:_ALIKE_LETTERS] == two.lowered[:_ALIKE_LETTERS]
        or SequenceMatcher(None, one.lowered, two.lowered).ratio() >= _ALIKE
        for one in first
        for two in second
    )


def _are_in_row(one: _Word, middle: _Words, two: _Word, text: _Words) -> bool:
    """Whether a text has these words in a row, the last one in a name that may be longer."""
    between = [word.stem for word in middle]
    for place, word in enumerate(text, 1):
        if word.stem == one.stem and [same.stem for same in text[place : place + len(between)]] == between:
            behind = text[place + len(between) :]
            name = takewhile(lambda part: part.text[0].isupper() or part.is_number, behind)
            if any(part.stem == two.stem for part in name):
                return True
    return False

"""Sentences of the passages that say something else in the place of a claim's words, and the same around it.

"Winds turn easterly in the evening" stands against "Winds turn westerly in the evening and bring rain": both are the
same around one place, and the words there exclude each other. The share of words in common cannot tell this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations
from typing import NamedTuple

from attribeam.attribution.answers.answer_names import TITLES
from attribeam.attribution.answers.plain_text import MONTHS, ORDINAL_WORDS, numbers_in_word
from attribeam.attribution.verdict.texts import (
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
_SYMMETRIC = word_set("and or with married marries met meets plus versus vs between like resembles borders")
"""Words between two names that mean the same when these change places."""
_LEAST_AROUND, _CLEARLY = 2, 2
_LEAST_COVERED, _ELSEWHERE = 0.75, 0.5
_ALIKE_LETTERS, _ALIKE = 4, 0.8
_MOST_TITLES = 3
"""How many words with which a name begins another may lack."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Words of a claim, by place in the answer, and what a sentence of the passages has instead of them."""

    reason: UnsupportedReason
    words: tuple[int, ...]
    expected: str


class _Word(NamedTuple):
    """A word of a claim or of a sentence; ``place`` is where it stands there, ``follows`` whether right behind another.

    Articles and "'s" are left out, and do not part names.
    """

    place: int
    text: str
    lowered: str
    stem: str
    content: bool
    is_name: bool
    follows: bool

    @property
    def is_number(self) -> bool:
        return any(map(str.isdigit, self.text))


_Text = Sequence[_Word]
_Slot = tuple[int, int]
"""The first word and the end of some words of a text."""


def find_contradiction(
    answer: AnswerWords, words: Sequence[int], sentences: PassageSentences, places: Sequence[int]
) -> Contradiction | None:
    """What the first of some sentences, by place, has in place of words of a claim, if it is the claim but for these.

    Words exclude each other if they are opposites, names or numbers; one that a sentence has in a place like theirs, or
    a sentence that has as much of the rest, is no contradiction. Or a sentence has two names or numbers of the claim
    the other way round.
    """
    claim = [*_words_of(answer, words)]
    slots = [*_slots(claim)]
    texts = [[*_words_in(sentences.all[place])] for place in places] if slots else []
    for slot in slots:
        there = [[*_same(claim, slot, text)] for text in texts]
        own = max(
            (_around(claim, slot, text, one) for text, some in zip(texts, there, strict=True) for one in some),
            default=0,
        )
        if own == len(claim) - (slot[1] - slot[0]):
            return None
        for text, same in zip(texts, there, strict=True):
            rival = next(
                (one for one in _rivals(claim, slot, text) if _stands_instead(claim, slot, text, one, same, own)), None
            )
            if rival and not _is_elsewhere(claim, slot, sentences, text, same):
                return _instead(claim, slot, text, rival)
    for first, second in combinations(slots, 2):
        for place, text in zip(places, texts, strict=True):
            if _is_exchanged(claim, first, second, text):
                both = (*claim[slice(*first)], *claim[slice(*second)])
                own_words = tuple(word.place for word in both)
                return Contradiction(UnsupportedReason.REVERSED, own_words, sentences.all[place].text)
    return None


def _instead(claim: _Text, slot: _Slot, text: _Text, rival: _Slot) -> Contradiction:
    first = claim[slot[0]]
    reason = UnsupportedReason.OTHER_ENTITY if first.is_name else UnsupportedReason.REVERSED
    if first.is_number:
        reason = UnsupportedReason.OTHER_VALUE
    if first.lowered in WEEKDAYS or first.lowered in MONTHS:
        reason = UnsupportedReason.OTHER_TIME
    words = tuple(word.place for word in claim[slice(*slot)])
    return Contradiction(reason, words, " ".join(word.text for word in text[slice(*rival)]))


def _words_of(answer: AnswerWords, words: Sequence[int]) -> Iterator[_Word]:
    """Those of a claim. The first one of a sentence is a name only before another word of one."""
    starts = {start for start, _ in answer.bounds}
    names = [answer.texts[word][:1].isupper() and answer.content[word] for word in words]
    before = None
    for number, word in enumerate(words):
        lowered = answer.lowered[word]
        if lowered in _LEFT_OUT:
            before = word if before == word - 1 else before
        elif answer.is_word[word] and answer.states[word]:
            is_name = names[number] and (word not in starts or any(names[number + 1 : number + 2]))
            text, content = answer.texts[word], answer.content[word]
            yield _Word(word, text, lowered, answer.stems[word], content, is_name, before == word - 1)
            before = word


def _words_in(sentence: Sentence) -> Iterator[_Word]:
    before = None
    for place, (text, lowered, own) in enumerate(zip(sentence.words, sentence.lowered, sentence.stems, strict=True)):
        if text[0].isalnum() and lowered not in _LEFT_OUT:
            content = carries_content(text)
            yield _Word(place, text, lowered, own, content, content and text[0].isupper(), before == place - 1)
            before = place
        elif lowered in _LEFT_OUT and before == place - 1:
            before = place


def _slots(claim: _Text) -> Iterator[_Slot]:
    """The names, numbers and words with opposites of a claim."""
    yield from _names(claim)
    for place, word in enumerate(claim):
        if word.lowered in OPPOSITES or word.lowered in _OTHERS or word.is_number:
            yield place, place + 1


def _names(words: _Text) -> Iterator[_Slot]:
    """Words with capitals in a row; a day or month is none."""
    names = [word.is_name and word.lowered not in WEEKDAYS and word.lowered not in MONTHS for word in words]
    start = None
    for place, (word, is_name) in enumerate(zip(words, names, strict=True)):
        if start is not None and not (is_name and word.follows):
            yield start, place
            start = None
        if is_name and start is None:
            start = place
    if start is not None:
        yield start, len(words)


def _sides(claim: _Text, slot: _Slot, text: _Text, there: _Slot) -> tuple[int, int]:
    """How many words in a row are the same before two places, and how many behind them."""
    before = zip(reversed(claim[: slot[0]]), reversed(text[: there[0]]), strict=False)
    behind = zip(claim[slot[1] :], text[there[1] :], strict=False)
    return _alike(before), _alike(behind)


def _alike(pairs: Iterator[tuple[_Word, _Word]]) -> int:
    count = 0
    for one, two in pairs:
        if one.stem != two.stem:
            break
        count += 1
    return count


def _around(claim: _Text, slot: _Slot, text: _Text, there: _Slot) -> int:
    return sum(_sides(claim, slot, text, there))


def _same(claim: _Text, slot: _Slot, text: _Text) -> Iterator[_Slot]:
    """Where a text has the words of a slot; of a name the last word is enough."""
    last = claim[slot[1] - 1].stem
    for place, word in enumerate(text):
        if word.stem == last:
            yield max(place + 1 - (slot[1] - slot[0]), 0), place + 1


def _rivals(claim: _Text, slot: _Slot, text: _Text) -> Iterator[_Slot]:
    """Words of a text that exclude those of a slot, if they stand in their place."""
    first, own = claim[slot[0]], claim[slice(*slot)]
    opposites = OPPOSITES.get(first.lowered, frozenset()) | _OTHERS.get(first.lowered, frozenset())
    if opposites and len(own) == 1:
        yield from ((place, place + 1) for place, word in enumerate(text) if word.lowered in opposites)
    elif first.is_name:
        for start, end in _names(text):
            if (start or end > 1) and not _may_be_same(own, text[start:end]):
                yield start, end
    elif first.is_number:
        known = numbers_in_word(first.text)
        for place, word in enumerate(text):
            if word.is_number and known.isdisjoint(numbers_in_word(word.text)):
                yield place, place + 1


def _may_be_same(own: _Text, other: _Text) -> bool:
    """Whether two names may name the same: one is an abbreviation or a title, or words of both begin or look alike."""
    for name in (own, other):
        if TITLES.issuperset(word.lowered for word in name) or any(len(w.text) > 1 and w.text.isupper() for w in name):
            return True
    return any(
        one.lowered[:_ALIKE_LETTERS] == two.lowered[:_ALIKE_LETTERS]
        or SequenceMatcher(None, one.lowered, two.lowered).ratio() >= _ALIKE
        for one in own
        for two in other
    )


def _stands_instead(claim: _Text, slot: _Slot, text: _Text, there: _Slot, same: Sequence[_Slot], own: int) -> bool:
    """Whether words of a text stand in the place of those of a slot: more is the same around them than around these."""
    first = claim[slot[0]]
    before, behind = _sides(claim, slot, text, there)
    around = [*claim[slot[0] - before : slot[0]], *claim[slot[1] : slot[1] + behind]]
    if len(around) < _LEAST_AROUND or not any(word.content for word in around):
        return False
    if first.is_name and (same or (slot[0] and not before) or (slot[1] < len(claim) and not behind)):
        return False
    if same or first.is_number:
        is_whole_side = any(
            count == len(side) and any(word.content for word in side)
            for count, side in ((before, claim[: slot[0]]), (behind, claim[slot[1] :]))
        )
        if not (same and is_whole_side and before + behind >= own + _CLEARLY):
            return False
    elif before + behind <= own:
        return False
    return _covered(claim, slot, text, there) >= _LEAST_COVERED and not any(
        not any(word.content for word in text[min(one[1], there[1]) : max(one[0], there[0])]) for one in same
    )


def _covered(claim: _Text, slot: _Slot, text: _Text, there: _Slot) -> float:
    """The share of the claim's other content words that a text has, on the same side of the slot; 0 for none."""
    before, behind = ({word.stem for word in part} for part in (text[: there[0]], text[there[1] :]))
    found = [word.stem in before for word in claim[: slot[0]] if word.content]
    found += [word.stem in behind for word in claim[slot[1] :] if word.content]
    return sum(found) / len(found) if found else 0.0


def _is_elsewhere(claim: _Text, slot: _Slot, sentences: PassageSentences, text: _Text, same: Sequence[_Slot]) -> bool:
    """Whether another sentence has the words of the slot, and a good part of the rest."""
    last = claim[slot[1] - 1].stem
    others = {word.stem for place, word in enumerate(claim) if word.content and not slot[0] <= place < slot[1]}
    here = {word.stem for word in text}
    for one in sentences.all:
        stems = {*one.stems}
        if last in stems and len(others & stems) >= _ELSEWHERE * len(others) and not (same and here <= stems):
            return True
    return False


def _is_exchanged(claim: _Text, first: _Slot, second: _Slot, text: _Text) -> bool:
    """Whether two names or numbers of a claim stand in a text the other way round, with the same words between."""
    kinds = {(claim[start].is_name, claim[start].is_number) for start, _ in (first, second)}
    middle = claim[first[1] : second[0]]
    if len(kinds) > 1 or kinds == {(False, False)}:
        return False
    if not any(word.content and word.lowered not in _SYMMETRIC for word in middle):
        return False
    one, two = claim[first[1] - 1].stem, claim[second[1] - 1].stem
    stems, between = [word.stem for word in text], [word.stem for word in middle]
    return one != two and any(
        own == two
        and stems[place : place + len(between)] == between
        and one in stems[place + len(between) :][: first[1] - first[0] + _MOST_TITLES]
        for place, own in enumerate(stems, 1)
    )

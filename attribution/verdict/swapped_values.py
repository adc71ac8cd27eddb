"""Values of a claim in whose place a sentence that says the same otherwise has another number or name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from attribeam.attribution.answers.answer_names import PassageContent
from attribeam.attribution.answers.plain_text import numbers_in_word
from attribeam.attribution.answers.unmatched_values import Value
from attribeam.attribution.verdict.passage_sentences import Sentence
from attribeam.attribution.verdict.word_forms import AnswerWords, carries_content


@dataclass(frozen=True, slots=True)
class SwappedValues:
    """How many words of numbers and of names are swapped, and the share of the claim's words that are aligned."""

    numbers: int
    names: int
    aligned: float


NOTHING_SWAPPED = SwappedValues(0, 0, -1.0)
"""Of a claim all of whose values the sentence has, which is not aligned with it."""


def swapped_values(
    answer: AnswerWords,
    words: Sequence[int],
    values: Sequence[Value],
    numbers: Collection[int],
    names: Collection[int],
    sentence: Sentence,
    content: PassageContent,
) -> SwappedValues:
    """The claim with these ``words`` and ``values`` beside a sentence, whose ``content`` includes its title.

    ``numbers`` and ``names`` are the words that are part of some. Both texts are aligned word by word, by stems; where
    other words stand between the same ones, a number or name of the sentence may be what the claim should say.
    """
    known = numbers_in(sentence.words)
    unlike = set(_unlike_words(answer, words, values, numbers, content))
    unlike = {word for word in unlike if answer.stems[word] not in sentence.stems}
    own_numbers = {word for word in unlike if word in numbers and not numbers_in_word(answer.texts[word]) <= known}
    own_names = {word for word in unlike if word in names and word not in numbers}
    if not own_numbers and not own_names:
        return NOTHING_SWAPPED
    own = [word for word in words if answer.is_word[word]]
    there = [place for place, word in enumerate(sentence.words) if word[0].isalnum()]
    stems = [answer.stems[word] for word in own]
    told, counted = set(stems), numbers_in([answer.texts[word] for word in own])
    matcher = SequenceMatcher(None, stems, [sentence.stems[place] for place in there], autojunk=False)
    same = swapped = renamed = 0
    for kind, start, end, first, last in matcher.get_opcodes():
        if kind == "equal":
            same += end - start
        elif kind == "replace":
            others = [sentence.words[place] for place in there[first:last] if sentence.stems[place] not in told]
            rivals = sum(not numbers_in_word(word) <= counted for word in others)
            swapped += min(rivals, len(own_numbers.intersection(own[start:end])))
            named = sum(word[0].isupper() and carries_content(word) for word in others)
            renamed += min(named, len(own_names.intersection(own[start:end])))
    return SwappedValues(swapped, renamed, same / len(own))


def numbers_in(words: Sequence[str]) -> frozenset[int]:
    """The numbers of some words, one by one."""
    return frozenset[int]().union(*map(numbers_in_word, words))


def _unlike_words(
    answer: AnswerWords,
    words: Sequence[int],
    values: Sequence[Value],
    numbers: Collection[int],
    content: PassageContent,
) -> Iterator[int]:
    """The words of values that the content does not repeat, and of numbers that are part of no value."""
    known = set()
    for value in values:
        inside = [word for word in words if answer.parsed.words[word].overlaps(value.chars)]
        known.update(inside)
        if not value.is_repeated_by(value.parts_in(content)):
            yield from inside
    yield from (word for word in words if word in numbers and word not in known)

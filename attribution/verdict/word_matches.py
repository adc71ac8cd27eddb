"""How the words of an answer match its passages: runs of words, neighbours, and the sentences that cover them best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from attribeam.attribution.verdict.answer_words import AnswerWords
from attribeam.attribution.verdict.passage_words import PassageWords
from attribeam.attribution.verdict.word_table import WordTable

_MOST_PLACES_OF_A_RUN, _MOST_PLACES_AROUND = 200, 30


@dataclass(frozen=True, slots=True)
class Coverage:
    """How well one passage sentence covers some words; shares are of the words' weights.

    Attributes:
        best: share that the best sentence has.
        pair: share that the best two successive sentences have.
        lead: by how much the best sentence leads the second.
        best_stems, pair_stems: the stems of that sentence and of these two.
        pair_start: the first of the two; None where nothing matches.
    """

    best: float
    pair: float
    lead: float
    best_stems: frozenset[str] = frozenset()
    pair_stems: frozenset[str] = frozenset()
    pair_start: int | None = None


def run_lengths(answer: AnswerWords, passages: PassageWords) -> list[int]:
    """For each word the length, in words, of the longest run of stems around it that some passage repeats."""
    words = [word for word in range(len(answer)) if answer.is_word[word]]
    _, places = passages.run_places
    ending: dict[int, int] = {}
    lengths = [0] * len(answer)
    for word in words:
        ending = {
            place: ending.get(place - 1, 0) + 1 for place in places.get(answer.stems[word], ())[:_MOST_PLACES_OF_A_RUN]
        }
        lengths[word] = max(ending.values(), default=0)
    longest = lengths.copy()
    for word, following in zip(reversed(words[:-1]), reversed(words[1:]), strict=True):
        if lengths[following] == lengths[word] + 1 > 1:
            longest[word] = max(longest[word], longest[following])
    return longest


def coverage(stems: Sequence[str], passages: PassageWords, table: WordTable) -> Coverage:
    """The passage sentences that share the most with some stems; full coverage where there are none."""
    weights = [table.weight(one) for one in stems]
    total = sum(weights)
    if not stems:
        return Coverage(1.0, 1.0, 0.0)
    shared: defaultdict[int, float] = defaultdict(float)
    for one, weight in zip(stems, weights, strict=True):
        for sentence in {passages.sentences[place] for place in passages.places.get(one, ())}:
            shared[sentence] += weight
    if not shared:
        return Coverage(0.0, 0.0, 0.0)
    best = max(shared, key=lambda sentence: shared[sentence])
    pair = max(shared, key=lambda sentence: shared[sentence] + shared.get(sentence + 1, 0.0))
    empty: frozenset[str] = frozenset()
    of_pair = passages.sentence_stems.get(pair, empty) | passages.sentence_stems.get(pair + 1, empty)
    second = sorted(shared.values())[-2] if len(shared) > 1 else 0.0
    return Coverage(
        best=shared[best] / total,
        pair=sum(weight for one, weight in zip(stems, weights, strict=True) if one in of_pair) / total,
        lead=(shared[best] - second) / total,
        best_stems=passages.sentence_stems.get(best, empty),
        pair_stems=of_pair,
        pair_start=pair,
    )


def shares_around(stems: Sequence[str], distance: int, passages: PassageWords, table: WordTable) -> dict[str, float]:
    """For each stem of a group the largest weighted share of the others within ``distance`` words of a place of it.

    It is -1 for a stem that is alone, and a stem that the group has twice is one of its others.
    """
    weights: defaultdict[str, float] = defaultdict(float)
    for one in stems:
        weights[one] += table.weight(one)
    total = sum(weights.values())
    found: dict[str, float] = {}
    for one in weights:
        own = table.weight(one)
        windows = (
            frozenset(passages.stems[max(place - distance, 0) : place + distance + 1])
            for place in passages.places.get(one, ())[:_MOST_PLACES_AROUND]
        )
        around = (sum(weight for near, weight in weights.items() if near in window) for window in windows)
        found[one] = -1.0 if len(stems) == 1 else max(max(around, default=0.0) - own, 0.0) / (total - own)
    return found

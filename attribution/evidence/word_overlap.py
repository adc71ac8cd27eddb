"""The words that an answer shares with its passages; no model reads them.

A word that a passage has scores there the length of the longest common run of words that it belongs to, divided by its
frequency over all passages.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_bounds
from attribeam.schemas import CharRange, Passage

_WIDE = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = re.compile(rf"[{_WIDE}]|[^\W{_WIDE}]+")
"""A run of letters and digits; each Chinese character is a word of its own."""

_ASCII_WORD = re.compile(r"\w+", re.ASCII)

_Floats = npt.NDArray[np.float64]
_Places = npt.NDArray[np.intp]


class WordOverlap:
    """The words of one answer in each of its passages, titles included; made once and asked for any range."""

    def __init__(self, answer: str, passages: Sequence[Passage]) -> None:
        found = list(WORD.finditer(answer))
        self._starts, self._ends = [match.start() for match in found], [match.end() for match in found]
        words = [match.group().lower() for match in found]
        texts = [(index, text) for index, one in enumerate(passages) for text in (one.title, one.text) if text]
        ending, frequency = _ending_runs(words, texts, len(passages))
        self._ending = np.vstack([np.zeros_like(ending, shape=(1, len(passages))), ending])
        scores = _longest_runs(ending) / np.array([frequency.get(word, 1) for word in words]).reshape(-1, 1)
        self._sums = np.zeros((len(words) + 1, len(passages)))
        np.cumsum(scores, axis=0, out=self._sums[1:])

    def words_of(self, ranges: Sequence[CharRange]) -> tuple[_Places, _Places]:
        """The half-open run of words that each range overlaps: first words, ends; a run may be empty."""
        firsts = [bisect_right(self._ends, chars.char_start) for chars in ranges]
        ends = [bisect_left(self._starts, chars.char_end) for chars in ranges]
        return np.array(firsts, dtype=np.intp), np.maximum(firsts, np.array(ends, dtype=np.intp))

    def shares(self, firsts: _Places, ends: _Places) -> _Floats:
        """The share that each passage has of the scores of a run's words: float64 [runs, passages]; 0 without any."""
        sums = self._sums[ends] - self._sums[firsts]
        totals = sums.sum(axis=1, keepdims=True)
        shares: _Floats = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)
        return shares

    def stand_alone(self, firsts: _Places, ends: _Places) -> npt.NDArray[np.bool_]:
        """The passage in which alone a run's words stand one behind the other: bool [runs, passages].

        They stand in its text or in its title. A row is all False where no passage has them, or several have.
        """
        lengths = (ends - firsts)[:, None]
        having = (self._ending[ends] >= lengths) & (lengths > 0)
        having &= having.sum(axis=1, keepdims=True) == 1
        return having


class SharedWords:
    """What the words of an answer's spans and sentences add to the scores of its passages.

    The words decide where attention is divided: a span whose words stand in one passage alone comes from there.
    """

    def __init__(self, *, answer: str, parsed: ParsedAnswer, passages: Sequence[Passage], weight: float) -> None:
        self._overlap = WordOverlap(answer, passages)
        self._weight = weight
        bounds = sentence_bounds(parsed)
        self._starts = [parsed.words[first].char_start for first, _ in bounds]
        self._ends = [parsed.words[end - 1].char_end for _, end in bounds]

    def parts(self, spans: Sequence[CharRange]) -> _Floats:
        """What the words add to each passage's score, as a share of the sum of scores: float64 [spans, passages].

        It is the weight times the sum of three shares: of the span's words, of its sentences' words, and all of one for
        the passage in which alone the span stands word by word.
        """
        runs = self._overlap.words_of(spans)
        around = self._overlap.words_of([self._with_sentences(span) for span in spans])
        parts = self._overlap.shares(*runs) + self._overlap.shares(*around) + self._overlap.stand_alone(*runs)
        return self._weight * parts

    def _with_sentences(self, span: CharRange) -> CharRange:
        """The span and the sentences that it stands in."""
        first, end = bisect_right(self._ends, span.char_start), bisect_left(self._starts, span.char_end)
        if first >= end:
            return span
        return CharRange(min(self._starts[first], span.char_start), max(self._ends[end - 1], span.char_end))


def _ending_runs(
    words: Sequence[str], texts: Sequence[tuple[int, str]], passage_count: int
) -> tuple[npt.NDArray[np.int64], dict[str, int]]:
    """For each word and passage the longest common run that ends with the word, and the frequencies of words found.

    The run is int64 [words, passages]; it lies within one of ``texts``, each with its passage.
    """
    places, owner = _places(texts, frozenset(words))
    longest = [[0] * passage_count for _ in words]
    ending: dict[int, int] = {}
    for of_word, word in zip(longest, words, strict=True):
        ending = {place: ending.get(place - 1, 0) + 1 for place in places.get(word, ())}
        for place, length in ending.items():
            passage = owner[place]
            if length > of_word[passage]:
                of_word[passage] = length
    frequency = {word: len(found) for word, found in places.items()}
    return np.array(longest, dtype=np.int64).reshape(len(words), passage_count), frequency


def _places(texts: Sequence[tuple[int, str]], wanted: frozenset[str]) -> tuple[dict[str, list[int]], list[int]]:
    """Where each wanted word stands, texts laid end to end with a gap after each, and the passage of every place."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    owner: list[int] = []
    for passage, text in texts:
        words = _lower_words(text)
        for place, word in enumerate(words, start=len(owner)):
            if word in wanted:
                places[word].append(place)
        owner += [passage] * (len(words) + 1)
    return places, owner


def _lower_words(text: str) -> list[str]:
    return _ASCII_WORD.findall(text.lower()) if text.isascii() else [word.lower() for word in WORD.findall(text)]


def _longest_runs(ending: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each word and passage the longest run that contains the word; ``ending`` are those that end with it.

    A run whose next word ends one of at least its length lies within that one, where its words are concerned.
    """
    longest = ending.copy()
    ends_here = ending > 1
    ends_here[:-1] &= ending[1:] <= ending[:-1]
    for word, passage in zip(*(places.tolist() for places in ends_here.nonzero()), strict=True):
        length = ending[word, passage]
        run = longest[word - length + 1 : word + 1, passage]
        np.maximum(run, length, out=run)
    return longest

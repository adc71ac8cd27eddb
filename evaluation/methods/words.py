"""Methods without a model: they count the words that a span shares with the passages."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.evidence.passage_evidence import WORD
from attribeam.attribution.evidence.union_results import SpanResult
from attribeam.attribution.methods.method import AnswerContext, MethodSettings, Need
from attribeam.evaluation.methods.unions import sentence_ranges
from attribeam.schemas import CharRange, EvidencePiece, Passage


@dataclass(frozen=True, slots=True)
class PassageWord:
    """A lower-cased word of a passage; ``chars`` are its characters in the passage's text, or in its title."""

    word: str
    chars: CharRange
    in_title: bool


@dataclass(frozen=True, slots=True)
class WordMatches:
    """The words of an answer and their best match in every passage.

    Attributes:
        scores: float64 [words, passages], length of the longest common run that a match of this word in this passage
            belongs to, divided by the word's frequency over all passages; 0 where the passage lacks the word.
        places: int64 [words, passages], which word of the passage that match is, title first; -1 without.
    """

    words: tuple[CharRange, ...]
    scores: npt.NDArray[np.float64]
    places: npt.NDArray[np.int64]
    passages: tuple[tuple[PassageWord, ...], ...]

    def passage_scores(self, ranges: Sequence[CharRange]) -> tuple[float, ...]:
        """For each passage the sum over the words that overlap one of ``ranges``, each word once."""
        return tuple(self.scores[self._chosen(ranges)].sum(axis=0).tolist())

    def matched(self, ranges: Sequence[CharRange], passage_index: int) -> dict[PassageWord, float]:
        """The best matches in one passage of the words that overlap one of ``ranges``, with their summed scores."""
        matched: defaultdict[PassageWord, float] = defaultdict(float)
        for index in np.flatnonzero(self._chosen(ranges)).tolist():
            place = int(self.places[index, passage_index])
            if place >= 0:
                matched[self.passages[passage_index][place]] += float(self.scores[index, passage_index])
        return dict(matched)

    def _chosen(self, ranges: Sequence[CharRange]) -> npt.NDArray[np.bool_]:
        chosen = np.zeros(len(self.words), dtype=np.bool_)
        for chars in ranges:
            first = bisect_right(self.words, chars.char_start, key=lambda word: word.char_end)
            chosen[first : bisect_left(self.words, chars.char_end, key=lambda word: word.char_start)] = True
        return chosen


def match_words(answer: str, passages: Sequence[Passage]) -> WordMatches:
    """Match the words of ``answer`` with those of each passage, title first.

    Words are lower-case runs of letters and digits, or one Chinese character. Runs may reach beyond the span in
    question.
    """
    matches = list(WORD.finditer(answer))
    words = [match.group().lower() for match in matches]
    of_passages = tuple(
        tuple(
            PassageWord(match.group().lower(), CharRange(*match.span()), in_title)
            for text, in_title in ((passage.title or "", True), (passage.text, False))
            for match in WORD.finditer(text)
        )
        for passage in passages
    )
    texts = [[word.word for word in of_passage] for of_passage in of_passages]
    frequency = Counter(word for text in texts for word in text)
    lengths, places = best_runs(words, texts)
    frequencies = np.array([max(frequency[word], 1) for word in words], dtype=np.float64)
    return WordMatches(
        tuple(CharRange(*match.span()) for match in matches), lengths / frequencies[:, None], places, of_passages
    )


_Whole = npt.NDArray[np.int64]


def best_runs(words: Sequence[str], texts: Sequence[Sequence[str]]) -> tuple[_Whole, _Whole]:
    """For each word and text, the longest common run that contains one of the word's matches.

    The words of a run are adjacent on both sides, within one text. The search ranks length and place as one number,
    ``length * size - place``: longer runs first, then earlier ones.

    Returns:
        int64 [words, texts] each: the words of that run, 0 where the text lacks the word; and where in the text that
        match stands, the first of equally long runs, -1 without.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    owner: list[int] = []  # the text of every place, texts laid end to end with a gap after each
    starts: list[int] = []
    for number, text in enumerate(texts):
        starts.append(len(owner))
        for word in text:
            places[word].append(len(owner))
            owner.append(number)
        owner.append(number)
    size = len(owner) + 1
    before = -np.arange(size, dtype=np.int64)
    best = np.zeros((len(words), len(texts)), dtype=np.int64)
    ending: dict[int, int] = {}
    for index, word in enumerate(words):
        ending = {place: ending.get(place - 1, 0) + 1 for place in places.get(word, ())}
        for place, length in ending.items():
            run = best[index - length + 1 : index + 1, owner[place]]
            np.maximum(run, before[place - length + 1 : place + 1] + length * size, out=run)
    lengths = -(-best // size)
    return lengths, np.where(lengths > 0, lengths * size - best - np.array(starts, dtype=np.int64), -1)


def _matches(context: AnswerContext) -> WordMatches:
    return match_words(context.record.answer, context.record.passages)


class SpanWords:
    """``words``: the span's own words."""

    name = "words"
    needs: frozenset[Need] = frozenset()

    def __init__(self, settings: MethodSettings) -> None:
        """The settings have nothing for it."""

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        matches, results = context.once(_matches), []
        for ranges in self.ranges(context):
            scores = matches.passage_scores(ranges)
            best = scores.index(max(scores))
            passage, pieces = context.record.passages[best], []
            for word, score in matches.matched(ranges, best).items():
                text = word.chars.of((passage.title or "") if word.in_title else passage.text)
                pieces.append(EvidencePiece(best, passage.passage_id, word.in_title, word.chars, text, score))
            pieces.sort(key=lambda piece: (-piece.score, not piece.in_title, piece.chars.char_start))
            results.append(SpanResult(scores, tuple(pieces)))
        return results

    def ranges(self, context: AnswerContext) -> Iterable[Sequence[CharRange]]:
        """For each span the ranges of the answer whose words count, each word once."""
        return [[span] for span in context.spans]


class FactWords(SpanWords):
    """``words-dep``: the words of the atomic facts of the span's words, and the span's own (Section 3.3)."""

    name = "words-dep"
    needs = frozenset({Need.PARSER})

    def ranges(self, context: AnswerContext) -> Iterable[Sequence[CharRange]]:
        facts, words = AtomicFacts(context.parsed), context.parsed.words
        for span in context.spans:
            own = [index for index, chars in enumerate(words) if chars.overlaps(span)]
            members = frozenset[int]().union(*(facts.words_of(word) for word in own))
            yield [span, *(words[word] for word in sorted(members))]


class SentenceWords(SpanWords):
    """``words-sent``: the words of the sentences that the span stands in."""

    name = "words-sent"
    needs = frozenset({Need.PARSER})

    def ranges(self, context: AnswerContext) -> Iterable[Sequence[CharRange]]:
        sentences = sentence_ranges(context.parsed)
        return [[span, *(sentence for sentence in sentences if sentence.overlaps(span))] for span in context.spans]

"""Evidence in the passages: of a union of token-wise attributions, and of words that an answer shares with them.

A union gives pieces of passage text and a score for each passage. No model reads the shared words: one scores in a
passage the length of the longest common run of words that it belongs to, divided by its frequency over all passages.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_bounds
from attribeam.attribution.answers.plain_text import remembered
from attribeam.attribution.evidence.readable_pieces import FAINT_SHARE, Run, readable_runs, text_of
from attribeam.attribution.evidence.union import UnionScores, WindowedScores
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import CharRange, EvidencePiece, Passage, TokenEvidence

_WIDE = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = re.compile(rf"[{_WIDE}]|[^\W{_WIDE}]+")
"""A run of letters and digits; each Chinese character is a word of its own."""

_ASCII_WORDS = (
    bytes(code if chr(code).isalnum() or chr(code) == "_" else ord(" ") for code in range(128)).decode().lower()
)
"""What each ASCII character is in a word: its lower case, a blank for those that stand in none."""

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


@remembered
def _lower_words(text: str) -> list[str]:
    return text.translate(_ASCII_WORDS).split() if text.isascii() else [word.lower() for word in WORD.findall(text)]


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


@dataclass(frozen=True, slots=True)
class UnionEvidence:
    """The evidence of one union, shared by all spans whose tokens have the same atomic facts.

    ``scores`` are those of the passages, all zero without evidence, whatever the context says. ``evidence_passages``
    are the passages with evidence tokens, ascending. ``tokens`` is None unless asked for.
    """

    passages: Sequence[Passage]
    runs: list[Run]
    scores: tuple[float, ...]
    evidence_passages: tuple[int, ...]
    evidence_isolated: bool
    tokens: tuple[TokenEvidence, ...] | None
    _pieces: dict[int | None, list[UnscaledPiece]] = field(default_factory=dict)

    def pieces(self, leading: int | None) -> list[UnscaledPiece]:
        """The pieces of a span whose best passage is ``leading``."""
        if leading not in self._pieces:
            self._pieces[leading] = _pieces(self.runs, self.passages, leading)
        return self._pieces[leading]


def union_evidence(
    scores: WindowedScores, *, encoded: EncodedRow, passages: Sequence[Passage], with_tokens: bool = False
) -> list[UnionEvidence]:
    """The evidence of each union; the evidence tokens themselves are there only ``with_tokens``."""
    having = _passages_with_evidence(scores.evidence, encoded, len(passages))
    found = zip(
        _runs_of_unions(scores.evidence, encoded),
        scores.passage_scores.tolist(),
        having,
        scores.evidence.evidence_isolated,
        evidence_tokens(scores.evidence, encoded=encoded) if with_tokens else [None] * len(having),
        strict=True,
    )
    return [
        UnionEvidence(passages, runs, tuple(sums) if own else (0.0,) * len(sums), own, isolated, tokens)
        for runs, sums, own, isolated, tokens in found
    ]


def _passages_with_evidence(scores: UnionScores, encoded: EncodedRow, passage_count: int) -> list[tuple[int, ...]]:
    """For each union the passages with evidence, ascending."""
    found: list[list[int]] = [[] for _ in scores.evidence_isolated]
    cells = np.unique(scores.unions * passage_count + encoded.column_passage[scores.columns])
    for union, passage in zip(*(part.tolist() for part in np.divmod(cells, passage_count)), strict=True):
        found[union].append(passage)
    return [tuple(one) for one in found]


UnscaledPiece: TypeAlias = tuple[int, str | None, bool, CharRange, str, float]
"""The fields of an ``EvidencePiece``, its score that of the union."""


def evidence_pieces(
    scores: UnionScores, *, encoded: EncodedRow, passages: Sequence[Passage]
) -> list[list[UnscaledPiece]]:
    """For each union its evidence as pieces of passage text, by falling score, then passage, title, place.

    ``readable_pieces`` says what becomes a piece. A piece has no white space at its edges unless it is nothing else.
    """
    return [_pieces(runs, passages, None) for runs in _runs_of_unions(scores, encoded)]


def _pieces(runs: Sequence[Run], passages: Sequence[Passage], leading: int | None) -> list[UnscaledPiece]:
    return sorted((_piece(run, passages) for run in readable_runs(runs, passages, leading=leading)), key=_rank)


def _runs_of_unions(scores: UnionScores, encoded: EncodedRow) -> list[list[Run]]:
    runs: list[list[Run]] = [[] for _ in scores.evidence_isolated]
    for union, run in _column_runs(scores, encoded):
        runs[union].append(run)
    return runs


def _piece(run: Run, passages: Sequence[Passage]) -> UnscaledPiece:
    index, in_title, start, end, score = run
    chars, covered = _trimmed(text_of(run, passages), start, end)
    return index, passages[index].passage_id, in_title, chars, covered, score


def scaled_pieces(pieces: Sequence[UnscaledPiece], factor: float) -> tuple[EvidencePiece, ...]:
    """The pieces with their scores times a positive factor; their order stays."""
    return tuple(
        [
            EvidencePiece(index, passage_id, in_title, chars, text, score * factor)
            for index, passage_id, in_title, chars, text, score in pieces
        ]
    )


def evidence_tokens(scores: UnionScores, *, encoded: EncodedRow) -> list[tuple[TokenEvidence, ...]]:
    """For each union every token of its evidence, in the order of the prompt."""
    tokens: list[list[TokenEvidence]] = [[] for _ in scores.evidence_isolated]
    columns = scores.columns
    parts = (
        scores.unions,
        encoded.column_passage[columns],
        encoded.column_in_title[columns],
        encoded.column_char_start[columns],
        encoded.column_char_end[columns],
        scores.scores,
    )
    for union, passage, in_title, start, end, score in zip(*(part.tolist() for part in parts), strict=True):
        tokens[union].append(TokenEvidence(passage, in_title, CharRange(start, end), score))
    return [tuple(one) for one in tokens]


def scaled_tokens(tokens: Sequence[TokenEvidence], factor: float) -> tuple[TokenEvidence, ...]:
    """The tokens with their scores times a positive factor."""
    return tuple([replace(token, score=token.score * factor) for token in tokens])


def _rank(piece: UnscaledPiece) -> tuple[float, int, bool, int]:
    index, _, in_title, chars, _, score = piece
    return -score, index, not in_title, chars.char_start


def _column_runs(scores: UnionScores, encoded: EncodedRow) -> Iterator[tuple[int, Run]]:
    """Unions and their runs of adjacent columns of one text, both ascending, without the faint ones."""
    columns, unions = scores.columns, scores.unions
    if not len(columns):
        return iter(())
    texts = 2 * encoded.column_passage[columns] + encoded.column_in_title[columns]
    ends_run = (columns[1:] - columns[:-1] != 1) | (texts[1:] != texts[:-1]) | (unions[1:] != unions[:-1])
    lasts = np.append(np.flatnonzero(ends_run), len(columns) - 1)
    starts = np.append(0, lasts[:-1] + 1)
    sums = np.add.reduceat(scores.scores, starts)
    best = np.zeros(len(scores.evidence_isolated))
    np.maximum.at(best, unions[starts], sums)
    clear = sums >= FAINT_SHARE * best[unions[starts]]
    starts, lasts = starts[clear], lasts[clear]
    firsts = columns[starts]
    runs = zip(
        encoded.column_passage[firsts].tolist(),
        encoded.column_in_title[firsts].tolist(),
        encoded.column_char_start[firsts].tolist(),
        encoded.column_char_end[columns[lasts]].tolist(),
        sums[clear].tolist(),
        strict=True,
    )
    return zip(unions[starts].tolist(), runs, strict=True)


def _trimmed(text: str, char_start: int, char_end: int) -> tuple[CharRange, str]:
    """The range without white space at its edges, and what it covers; all of it where it is nothing else."""
    covered = text[char_start:char_end]
    visible = covered.strip()
    if not visible or len(visible) == len(covered):
        return CharRange(char_start, char_end), covered
    char_start += len(covered) - len(covered.lstrip())
    return CharRange(char_start, char_start + len(visible)), visible

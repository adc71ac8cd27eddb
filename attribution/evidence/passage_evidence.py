"""Evidence in the passages: of a union of token-wise attributions, and of words that an answer shares with them.

A union gives a score for each passage and pieces of text that a person can read: tokens end inside words, and most runs
are faint. No model reads the shared words.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import regex

from attribeam.attribution.answers.parsed_answer import text_sentences
from attribeam.attribution.answers.plain_text import FUNCTION_WORDS, remembered
from attribeam.attribution.evidence.union import UnionScores
from attribeam.attribution.rows import EncodedRow
from attribeam.schemas import CharRange, EvidencePiece, Passage, TokenEvidence

_WIDE = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = re.compile(rf"[{_WIDE}]|[^\W{_WIDE}]+")
"""A run of letters and digits; each Chinese character is a word of its own."""

_ASCII_WORDS = (
    bytes(code if chr(code).isalnum() or chr(code) == "_" else ord(" ") for code in range(128)).decode().lower()
)
"""What each ASCII character is in a word: its lower case, a blank for those that stand in none."""

_Floats = npt.NDArray[np.float64]
_Indices = npt.NDArray[np.intp]


class WordOverlap:
    """The words of one answer in each of its passages, titles included; made once and asked for any range.

    A word scores the length of the longest common run that it belongs to, divided by its frequency over all passages.
    """

    def __init__(self, answer: str, passages: Sequence[Passage]) -> None:
        matches = list(WORD.finditer(answer))
        self._starts, self._ends = [match.start() for match in matches], [match.end() for match in matches]
        words = [match.group().lower() for match in matches]
        ending, frequency = _ending_runs(words, passages)
        self._ending = np.vstack([np.zeros_like(ending, shape=(1, len(passages))), ending])
        scores = _longest_runs(ending) / np.array([frequency.get(word, 1) for word in words]).reshape(-1, 1)
        self._sums = np.zeros((len(words) + 1, len(passages)))
        np.cumsum(scores, axis=0, out=self._sums[1:])

    def words_of(self, ranges: Sequence[CharRange]) -> tuple[_Indices, _Indices]:
        """The half-open run of words that each range overlaps: first words, ends; a run may be empty."""
        firsts = [bisect_right(self._ends, chars.char_start) for chars in ranges]
        ends = [bisect_left(self._starts, chars.char_end) for chars in ranges]
        return np.array(firsts, dtype=np.intp), np.maximum(firsts, np.array(ends, dtype=np.intp))

    def shares(self, firsts: _Indices, ends: _Indices) -> _Floats:
        """The share that each passage has of the scores of a run's words: float64 [runs, passages]; 0 without any."""
        sums = self._sums[ends] - self._sums[firsts]
        totals = sums.sum(axis=1, keepdims=True)
        shares: _Floats = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)
        return shares

    def stand_alone(self, firsts: _Indices, ends: _Indices) -> npt.NDArray[np.bool_]:
        """The one passage, if any, in whose text or title a run's words stand in a row: bool [runs, passages]."""
        lengths = (ends - firsts)[:, None]
        having = (self._ending[ends] >= lengths) & (lengths > 0)
        having &= having.sum(axis=1, keepdims=True) == 1
        return having

    def parts(self, spans: Sequence[CharRange], sentences: Sequence[CharRange]) -> _Floats:
        """What the words of spans add to each passage's score, as a share of the sum of scores: [spans, passages].

        The span's words have a share, its sentences' words too, and a passage in which alone the span stands has one.
        """
        runs = self.words_of(spans)
        around = []
        for span in spans:
            parts = [span, *_touched(sentences, span.char_start, span.char_end)]
            around.append(CharRange(min(map(_START, parts)), max(map(_END, parts))))
        return self.shares(*runs) + self.shares(*self.words_of(around)) + self.stand_alone(*runs)


_START, _END = attrgetter("char_start"), attrgetter("char_end")


def _touched(ranges: Sequence[CharRange], start: int, end: int) -> Sequence[CharRange]:
    """Those of disjoint ascending ranges that share a code point with [start, end)."""
    first = bisect_right(ranges, start, key=_END)
    return ranges[first : bisect_left(ranges, end, first, key=_START)]


def _ending_runs(words: Sequence[str], passages: Sequence[Passage]) -> tuple[npt.NDArray[np.int64], dict[str, int]]:
    """For each word and passage the longest common run that ends with the word, and the frequencies of words found.

    The run is int64 [words, passages]; it lies within one title or text, which are laid end to end with gaps between.
    """
    wanted = frozenset(words)
    positions: defaultdict[str, list[int]] = defaultdict(list)
    passage_of: list[int] = []
    for passage, text in ((index, text) for index, item in enumerate(passages) for text in (item.title, item.text)):
        of_text = _lower_words(text or "")
        for position, word in enumerate(of_text, start=len(passage_of)):
            if word in wanted:
                positions[word].append(position)
        passage_of += [passage] * (len(of_text) + 1)
    longest = [[0] * len(passages) for _ in words]
    ending: dict[int, int] = {}
    for of_word, word in zip(longest, words, strict=True):
        ending = {position: ending.get(position - 1, 0) + 1 for position in positions.get(word, ())}
        for position, length in ending.items():
            passage = passage_of[position]
            if length > of_word[passage]:
                of_word[passage] = length
    frequency = {word: len(of_word) for word, of_word in positions.items()}
    return np.array(longest, dtype=np.int64).reshape(len(words), len(passages)), frequency


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
    for word, passage in np.argwhere(ends_here).tolist():
        length = ending[word, passage]
        run = longest[word - length + 1 : word + 1, passage]
        np.maximum(run, length, out=run)
    return longest


UnscaledPiece: TypeAlias = tuple[int, str | None, bool, CharRange, str, float]
"""The fields of an ``EvidencePiece``, its score that of the union."""
Run: TypeAlias = tuple[int, bool, int, int, float]
"""passage_index, in_title, char_start, char_end, score."""


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

    def pieces(self, leading: int | None) -> list[UnscaledPiece]:
        """The pieces of a span whose best passage is ``leading``."""
        return _pieces(self.runs, self.passages, leading)


def union_evidence(
    evidence: UnionScores,
    passage_scores: _Floats,
    *,
    encoded: EncodedRow,
    passages: Sequence[Passage],
    with_tokens: bool = False,
) -> list[UnionEvidence]:
    """The evidence of each union from what ``keep_best_windows`` gives; evidence tokens only ``with_tokens``."""
    passages_with_evidence: list[list[int]] = [[] for _ in evidence.evidence_isolated]
    cells = np.bincount(evidence.unions * len(passages) + encoded.column_passage[evidence.columns]).nonzero()[0]
    for union, passage in zip(*(part.tolist() for part in np.divmod(cells, len(passages))), strict=True):
        passages_with_evidence[union].append(passage)
    by_union = zip(
        _runs_of_unions(evidence, encoded),
        passage_scores.tolist(),
        passages_with_evidence,
        evidence.evidence_isolated,
        evidence_tokens(evidence, encoded=encoded) if with_tokens else [None] * len(passages_with_evidence),
        strict=True,
    )
    return [
        UnionEvidence(
            passages,
            runs,
            tuple(sums) if evidence_passages else (0.0,) * len(sums),
            tuple(evidence_passages),
            isolated,
            tokens,
        )
        for runs, sums, evidence_passages, isolated, tokens in by_union
    ]


def evidence_pieces(
    scores: UnionScores, *, encoded: EncodedRow, passages: Sequence[Passage]
) -> list[list[UnscaledPiece]]:
    """For each union its ``readable_runs`` without white space around, by falling score, passage, title, position."""
    return [_pieces(runs, passages, None) for runs in _runs_of_unions(scores, encoded)]


def _pieces(runs: Sequence[Run], passages: Sequence[Passage], leading: int | None) -> list[UnscaledPiece]:
    pieces = []
    for run in readable_runs(runs, passages, leading=leading):
        index, in_title, start, end, score = run
        covered = text_of(run, passages)[start:end]
        text = covered.strip() or covered
        start += covered.index(text)
        chars = CharRange(start, start + len(text))
        pieces.append((index, passages[index].passage_id, in_title, chars, text, score))
    if len(pieces) > 1:
        pieces.sort(key=lambda piece: (-piece[5], piece[0], not piece[2], piece[3].char_start))
    return pieces


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
    return [tuple(of_union) for of_union in tokens]


def _runs_of_unions(scores: UnionScores, encoded: EncodedRow) -> list[list[Run]]:
    """For each union its runs of adjacent columns of one text, ascending, without the faint ones."""
    runs: list[list[Run]] = [[] for _ in scores.evidence_isolated]
    columns, unions = scores.columns, scores.unions
    if not len(columns):
        return runs
    texts = 2 * encoded.column_passage[columns] + encoded.column_in_title[columns]
    ends_run = (columns[1:] - columns[:-1] != 1) | (texts[1:] != texts[:-1]) | (unions[1:] != unions[:-1])
    lasts = np.append(np.flatnonzero(ends_run), len(columns) - 1)
    starts = np.append(0, lasts[:-1] + 1)
    sums = np.add.reduceat(scores.scores, starts)
    best = np.zeros(len(runs))
    np.maximum.at(best, unions[starts], sums)
    clear = sums >= FAINT_SHARE * best[unions[starts]]
    firsts, lasts = columns[starts[clear]], columns[lasts[clear]]
    parts = (
        unions[starts[clear]],
        encoded.column_passage[firsts],
        encoded.column_in_title[firsts],
        encoded.column_char_start[firsts],
        encoded.column_char_end[lasts],
        sums[clear],
    )
    for union, *run in zip(*(part.tolist() for part in parts), strict=True):
        runs[union].append(tuple(run))
    return runs


LEAST_SHARE = 0.05
"""Pieces with less than this share of the best one's score are dropped."""
FAINT_SHARE = 0.01
"""Runs of tokens with less than this share of the best one's score count in no piece."""
WHOLE_SHARE = 0.5
"""A sentence of which pieces cover this share of the code points is one piece."""
_LONGEST_BRIDGE = 32


def readable_runs(runs: Iterable[Run], passages: Sequence[Passage], *, leading: int | None = None) -> list[Run]:
    """The pieces of one union, ascending as the runs; none only if there are no runs.

    1. Runs are widened to the borders of words; what then overlaps is joined, and so is what only white space, marks or
       one function word separate. Scores add up.
    2. Pieces below ``LEAST_SHARE`` of the best, and pieces of function words or marks alone, are dropped. The best
       piece always stays, and so does the best one of the passage ``leading``, which the decision names.
    3. A sentence that is covered to ``WHOLE_SHARE`` becomes one piece.

    ``runs`` are those of tokens, those of one text together and ascending.
    """
    on_words = [(*run[:2], *on_word_borders(text_of(run, passages), run[2], run[3]), run[4]) for run in runs]
    words = _informative_runs(_joined(on_words, passages, _is_bridge), passages, leading)
    return _joined(_with_sentences(words, passages), passages, lambda text: not any(map(str.isalnum, text)))


def text_of(run: Run, passages: Sequence[Passage]) -> str:
    """The title or text that a run lies in."""
    passage = passages[run[0]]
    return (passage.title or "") if run[1] else passage.text


def _joined(runs: list[Run], passages: Sequence[Passage], bridges: Callable[[str], bool]) -> list[Run]:
    """Runs of one text joined where they overlap, or where what lies between ``bridges``."""
    if len(runs) < 2:
        return runs
    joined: list[Run] = []
    text = ""
    for run in runs:
        if joined and joined[-1][:2] == run[:2]:
            index, in_title, start, end, score = joined[-1]
            if run[2] <= end or bridges(text[end : run[2]]):
                joined[-1] = index, in_title, start, max(end, run[3]), score + run[4]
                continue
        else:
            text = text_of(run, passages)
        joined.append(run)
    return joined


def _is_bridge(text: str) -> bool:
    """Whether a text is white space, marks and at most one function word."""
    if text.isspace() or len(text) > _LONGEST_BRIDGE:
        return text.isspace()
    words = words_of(text)
    return len(words) <= 1 and FUNCTION_WORDS.issuperset(words)


def _informative_runs(runs: list[Run], passages: Sequence[Passage], top_passage: int | None) -> list[Run]:
    if len(runs) < 2:
        return runs
    best = max(runs, key=itemgetter(4))
    kept = {
        run for run in runs if run[4] >= LEAST_SHARE * best[4] and has_content(text_of(run, passages)[run[2] : run[3]])
    } or {best}
    runs_of_top = [run for run in runs if run[0] == top_passage]
    if runs_of_top and kept.isdisjoint(runs_of_top):
        kept.add(max(runs_of_top, key=itemgetter(4)))
    return [run for run in runs if run in kept]


def _with_sentences(runs: list[Run], passages: Sequence[Passage]) -> list[Run]:
    """The runs, and the sentences that they cover to ``WHOLE_SHARE``, without a score; ascending, titles first."""
    covered: defaultdict[tuple[int, bool, int, int], int] = defaultdict(int)
    of_texts = {run[:2]: run for run in runs}
    sentences = {key: text_sentences(text_of(run, passages)) for key, run in of_texts.items()}
    for index, in_title, start, end, _ in runs:
        for sentence in _touched(sentences[index, in_title], start, end):
            first, last = sentence.char_start, sentence.char_end
            covered[index, in_title, first, last] += min(end, last) - max(start, first)
    whole = [(*key, 0.0) for key, count in covered.items() if count >= WHOLE_SHARE * (key[3] - key[2])]
    return sorted([*runs, *whole], key=lambda run: (run[0], not run[1], run[2], run[3])) if whole else runs


_BORDER = regex.compile(r"\b", regex.WORD | regex.VERSION1)
"""Words begin and end by Unicode's default rules (UAX #29); scripts without spaces have a border at every grapheme."""
_FARTHEST = 64
"""A border is looked for among so many characters on either side, or up to white space; longer words are cut."""


def on_word_borders(text: str, start: int, end: int) -> tuple[int, int]:
    """The smallest range that holds ``text[start:end]`` and begins and ends between words of ``text``."""
    opens = not start or text[start - 1].isspace()
    closes = end >= len(text) or text[end].isspace()
    return start if opens else _nearest_borders(text, start)[0], end if closes else _nearest_borders(text, end)[1]


@lru_cache(maxsize=8192)
def _nearest_borders(text: str, position: int) -> tuple[int, int]:
    """The nearest word borders, at or before a position and at or after it; spans of an answer share their evidence."""
    if position <= 0 or position >= len(text) or text[position - 1].isspace() or text[position].isspace():
        return position, position
    before = text[max(position - _FARTHEST, 0) : position].rsplit(None, 1)[-1]
    borders = _borders(before + text[position : position + _FARTHEST].split(None, 1)[0])
    offset, start = len(before), position - len(before)
    return start + borders[bisect_right(borders, offset) - 1], start + borders[bisect_left(borders, offset)]


@lru_cache(maxsize=4096)
def _borders(chunk: str) -> tuple[int, ...]:
    """The word borders of a text, ascending, both of its ends included."""
    if chunk.isascii() and chunk.isalnum():
        return 0, len(chunk)
    return tuple(sorted({0, len(chunk), *(match.start() for match in _BORDER.finditer(chunk))}))


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[str, ...]:
    """The words of a short text that have a letter or digit, lower-case, in their order."""
    parts = (text[start:end] for start, end in pairwise(_borders(text)))
    return tuple(part.lower().replace("’", "'") for part in parts if any(map(str.isalnum, part)))


def has_content(text: str) -> bool:
    """Whether a text has a word that is no function word."""
    return any(word not in FUNCTION_WORDS for chunk in text.split() for word in words_of(chunk))

"""Pieces of passage text that a person can read, made of runs of evidence tokens, and the words of any script.

Tokens end inside words, and most runs are faint. A piece ends where words end, says something, and is the whole
sentence where it covers most of it: that is what people underline. Tokens' scores only move to the piece that holds
them.

Words begin and end by Unicode's default rules (UAX #29). Scripts without spaces between words, such as Chinese,
Japanese or Thai, have a border at every grapheme.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TypeAlias

import regex

from attribeam.attribution.answers.parsed_answer import text_sentences
from attribeam.attribution.answers.plain_text import FUNCTION_WORDS
from attribeam.schemas import CharRange, Passage

_BORDER = regex.compile(r"\b", regex.WORD | regex.VERSION1)
_KNOWN_BORDERS = 4096
"""How many places are remembered: the spans of an answer share their evidence."""
_FARTHEST = 64
"""A border is looked for among so many characters on either side, or up to white space; longer words are cut."""


def on_word_borders(text: str, start: int, end: int) -> tuple[int, int]:
    """The smallest range that holds ``text[start:end]`` and begins and ends between words of ``text``."""
    return _border_before(text, start), _border_after(text, end)


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[str, ...]:
    """The words of a short text that have a letter or digit, lower-case, in their order."""
    borders = _borders(text)
    parts = (text[start:end] for start, end in pairwise(borders))
    return tuple(part.lower().replace("’", "'") for part in parts if any(map(str.isalnum, part)))


def has_content(text: str) -> bool:
    """Whether a text has a word that is no function word."""
    return any(word not in FUNCTION_WORDS for chunk in text.split() for word in words_of(chunk))


@lru_cache(maxsize=_KNOWN_BORDERS)
def _border_before(text: str, place: int) -> int:
    if _is_beside_space(text, place):
        return place
    start = _chunk_start(text, place)
    chunk = text[start : _chunk_end(text, place)]
    return start + max(border for border in _borders(chunk) if border <= place - start)


@lru_cache(maxsize=_KNOWN_BORDERS)
def _border_after(text: str, place: int) -> int:
    if _is_beside_space(text, place):
        return place
    start = _chunk_start(text, place)
    chunk = text[start : _chunk_end(text, place)]
    return start + min(border for border in _borders(chunk) if border >= place - start)


def _is_beside_space(text: str, place: int) -> bool:
    return place <= 0 or place >= len(text) or text[place - 1].isspace() or text[place].isspace()


def _chunk_start(text: str, place: int) -> int:
    """The end of the white space before ``place``, or some characters back."""
    start = place
    while start > max(place - _FARTHEST, 0) and not text[start - 1].isspace():
        start -= 1
    return start


def _chunk_end(text: str, place: int) -> int:
    """The white space after ``place``, or some characters on."""
    end = place
    while end < min(place + _FARTHEST, len(text)) and not text[end].isspace():
        end += 1
    return end


@lru_cache(maxsize=4096)
def _borders(chunk: str) -> tuple[int, ...]:
    """The word borders of a text, ascending, both of its ends included."""
    return tuple(sorted({0, len(chunk), *(match.start() for match in _BORDER.finditer(chunk))}))


LEAST_SHARE = 0.05
"""Pieces with less than this share of the best one's score are dropped."""
FAINT_SHARE = 0.01
"""Runs of tokens with less than this share of the best one's score count in no piece."""
WHOLE_SHARE = 0.5
"""A sentence of which pieces cover this share of the code points is one piece."""

Run: TypeAlias = tuple[int, bool, int, int, float]
"""passage_index, in_title, char_start, char_end, score."""


def readable_runs(runs: Iterable[Run], passages: Sequence[Passage], *, leading: int | None = None) -> list[Run]:
    """The pieces of one union, ascending as the runs; none only if there are no runs.

    1. Runs are widened to the borders of words; what then overlaps is joined, and so is what only white space, marks or
       one function word separate. Scores add up.
    2. Pieces below ``LEAST_SHARE`` of the best, and pieces of function words or marks alone, are dropped. The best
       piece always stays, and so does the best one of the passage ``leading``.
    3. A sentence that is covered to ``WHOLE_SHARE`` becomes one piece.

    Args:
        runs: runs of tokens, those of one text together and ascending.
        passages: the passages that the runs lie in.
        leading: the passage that the decision names.
    """
    words = _joined((_on_words(run, passages) for run in runs), passages, _is_bridge)
    return _joined(_with_sentences(_telling(words, passages, leading), passages), passages, _has_no_word)


def text_of(run: Run, passages: Sequence[Passage]) -> str:
    """The title or text that a run lies in."""
    passage = passages[run[0]]
    return (passage.title or "") if run[1] else passage.text


def _on_words(run: Run, passages: Sequence[Passage]) -> Run:
    index, in_title, start, end, score = run
    start, end = on_word_borders(text_of(run, passages), start, end)
    return index, in_title, start, end, score


def _joined(runs: Iterable[Run], passages: Sequence[Passage], bridges: Callable[[str], bool]) -> list[Run]:
    """Runs of one text joined where they overlap, or where what lies between ``bridges``."""
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


_LONGEST_BRIDGE = 32


def _is_bridge(text: str) -> bool:
    """Whether a text is white space, marks and at most one function word."""
    return text.isspace() or (len(text) <= _LONGEST_BRIDGE and _is_short_bridge(text))


@lru_cache(maxsize=4096)
def _is_short_bridge(text: str) -> bool:
    words = words_of(text)
    return not words or (len(words) == 1 and words[0] in FUNCTION_WORDS)


def _has_no_word(text: str) -> bool:
    return not any(map(str.isalnum, text))


def _telling(runs: list[Run], passages: Sequence[Passage], leading: int | None) -> list[Run]:
    if not runs:
        return []
    best = max(runs, key=_score)
    least = LEAST_SHARE * best[4]
    kept = [run for run in runs if run[4] >= least and has_content(text_of(run, passages)[run[2] : run[3]])] or [best]
    if leading is None or any(run[0] == leading for run in kept):
        return kept
    of_leading = [run for run in runs if run[0] == leading]
    wanted = {*kept, max(of_leading, key=_score)} if of_leading else {*kept}
    return [run for run in runs if run in wanted]


def _score(run: Run) -> float:
    return run[4]


def _with_sentences(runs: Sequence[Run], passages: Sequence[Passage]) -> Iterator[Run]:
    """The runs, and the sentences that they cover to ``WHOLE_SHARE``, without a score; ascending within a text."""
    for (index, in_title), of_text in groupby(runs, key=lambda run: run[:2]):
        group = list(of_text)
        covered = _covered_sentences(group, text_of(group[0], passages))
        yield from sorted([*group, *((index, in_title, one.char_start, one.char_end, 0.0) for one in covered)])


def _covered_sentences(runs: Sequence[Run], text: str) -> Iterator[CharRange]:
    sentences = text_sentences(text)
    covered: dict[CharRange, int] = {}
    for _, _, start, end, _ in runs:
        first = bisect_right(sentences, start, key=lambda one: one.char_end)
        for place in range(first, bisect_left(sentences, end, key=lambda one: one.char_start)):
            sentence = sentences[place]
            inside = min(end, sentence.char_end) - max(start, sentence.char_start)
            covered[sentence] = covered.get(sentence, 0) + inside
    for sentence, count in covered.items():
        if count >= WHOLE_SHARE * (sentence.char_end - sentence.char_start):
            yield sentence

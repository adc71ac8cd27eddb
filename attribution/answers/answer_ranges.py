"""Words of an answer as ranges of its code points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schemas import CharRange


class AnswerRanges:
    """The ranges of an answer's atomic facts; those of equal facts are found once."""

    def __init__(self, *, answer: str, words: Sequence[CharRange]) -> None:
        self._answer = answer
        self._words = words
        self._of_facts: dict[frozenset[frozenset[int]], tuple[CharRange, ...]] = {}

    def around(self, span: CharRange, facts: frozenset[frozenset[int]]) -> tuple[CharRange, ...]:
        """Ranges over a span and the words of some facts, ascending.

        They are merged where they overlap, touch, or only white space lies between.
        """
        if facts not in self._of_facts:
            words = sorted(frozenset().union(*facts))
            self._of_facts[facts] = self._merged([self._words[word] for word in words])
        ranges = self._of_facts[facts]
        if any(one.char_start <= span.char_start and span.char_end <= one.char_end for one in ranges):
            return ranges
        return self._merged(sorted([span, *ranges], key=lambda one: one.char_start))

    def _merged(self, ranges: Iterable[CharRange]) -> tuple[CharRange, ...]:
        merged: list[list[int]] = []
        for one in ranges:
            if merged and not self._answer[merged[-1][1] : one.char_start].strip():
                merged[-1][1] = max(merged[-1][1], one.char_end)
            else:
                merged.append([one.char_start, one.char_end])
        return tuple(CharRange(start, end) for start, end in merged)

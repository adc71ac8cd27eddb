"""The words of a token and the tokens of a set of words, by code points (Appendix B)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from attribeam.schemas import CharRange

_Places = npt.NDArray[np.intp]


class WordTokenAlignment:
    """phi and psi of Appendix B for one answer.

    Words ascend and do not overlap. Tokens ascend, cover at least one code point each, and may overlap (the bytes of
    one emoji). A token of only white space, or of a mark that is not a word, has no words.
    """

    def __init__(
        self,
        *,
        words: Sequence[CharRange],
        token_char_start: npt.NDArray[np.int32],
        token_char_end: npt.NDArray[np.int32],
    ) -> None:
        self._starts, self._ends = token_char_start, token_char_end
        self.token_count = len(token_char_start)
        word_starts, word_ends = _bounds(words)
        first_words = np.searchsorted(word_ends, self._starts, side="right").tolist()
        end_words = np.searchsorted(word_starts, self._ends, side="left").tolist()
        self.words_of_tokens: list[range] = [range(*run) for run in zip(first_words, end_words, strict=True)]
        """phi: for each token the smallest run of words that covers it, empty where it lies in none."""
        self._first_tokens, self._end_tokens = self._token_runs(word_starts, word_ends)

    def tokens_of_ranges(self, ranges: Sequence[CharRange]) -> tuple[_Places, _Places]:
        """For each range, the half-open run of tokens that share a code point with it: firsts and ends."""
        return self._token_runs(*_bounds(ranges))

    def tokens_of_words(self, word_sets: Sequence[Collection[int]]) -> npt.NDArray[np.bool_]:
        """psi: bool [sets, tokens], True for the smallest set of tokens that covers each of these sets of words."""
        words = np.fromiter(chain.from_iterable(word_sets), dtype=np.intp)
        size = len(self._starts) + 1
        lengths = np.array([len(one) for one in word_sets], dtype=np.intp)
        row_starts = np.repeat(np.arange(len(word_sets)) * size, lengths)
        opened = np.bincount(row_starts + self._first_tokens[words], minlength=len(word_sets) * size)
        closed = np.bincount(row_starts + self._end_tokens[words], minlength=len(word_sets) * size)
        inside = np.cumsum((opened - closed).reshape(len(word_sets), size), axis=1) > 0
        return inside[:, :-1]

    def _token_runs(self, starts: _Places, ends: _Places) -> tuple[_Places, _Places]:
        firsts = np.searchsorted(self._ends, starts, side="right")
        return firsts, np.maximum(firsts, np.searchsorted(self._starts, ends, side="left"))


def _bounds(ranges: Sequence[CharRange]) -> tuple[_Places, _Places]:
    starts = np.array([one.char_start for one in ranges], dtype=np.intp)
    return starts, np.array([one.char_end for one in ranges], dtype=np.intp)

"""The words of a token and the tokens of a set of words, by code points (Appendix B)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from schemas import CharRange


class WordTokenAlignment:
    """phi and psi of Appendix B for one answer.

    Words are ascending and do not overlap. Tokens ascend and may overlap (the bytes of one emoji); tokens that cover
    no code point belong to no word. A token of white space only, or of a mark that is no word, has no words either.
    """

    def __init__(
        self,
        *,
        words: Sequence[CharRange],
        token_char_start: npt.NDArray[np.int32],
        token_char_end: npt.NDArray[np.int32],
    ) -> None:
        self._token_count = len(token_char_start)
        self._covering = np.flatnonzero(token_char_start < token_char_end)
        self._starts = token_char_start[self._covering]
        self._ends = token_char_end[self._covering]
        word_starts = np.array([word.char_start for word in words], dtype=np.int64)
        word_ends = np.array([word.char_end for word in words], dtype=np.int64)
        self._first_word = np.searchsorted(word_ends, self._starts, side="right").tolist()
        self._end_word = np.searchsorted(word_starts, self._ends, side="left").tolist()
        self._first_token = np.searchsorted(self._ends, word_starts, side="right")
        self._end_token = np.searchsorted(self._starts, word_ends, side="left")

    def tokens_of_range(self, chars: CharRange) -> npt.NDArray[np.intp]:
        """The tokens that share a code point with the range, ascending."""
        first = np.searchsorted(self._ends, chars.char_start, side="right")
        end = np.searchsorted(self._starts, chars.char_end, side="left")
        return self._covering[first:end]

    def words_of_tokens(self, tokens: Sequence[int]) -> list[range]:
        """phi: for each token the smallest run of words that covers it, empty where it lies in none."""
        places = np.searchsorted(self._covering, tokens).tolist()
        return [
            range(self._first_word[place], max(self._first_word[place], self._end_word[place]))
            if place < len(self._covering) and self._covering[place] == token
            else range(0)
            for place, token in zip(places, tokens, strict=True)
        ]

    def tokens_of_words(self, words: Collection[int]) -> npt.NDArray[np.bool_]:
        """psi: bool [tokens], True for the smallest set of tokens that covers these words."""
        chosen = np.fromiter(words, dtype=np.intp, count=len(words))
        size = len(self._covering) + 1
        opened = np.bincount(self._first_token[chosen], minlength=size)
        closed = np.bincount(np.maximum(self._first_token, self._end_token)[chosen], minlength=size)
        inside = np.zeros(self._token_count, dtype=np.bool_)
        inside[self._covering] = np.cumsum(opened - closed)[:-1] > 0
        return inside

"""Which response tokens count for a span, under the different ways to widen it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attribution.answers.atomic_facts import AtomicFacts
from attribution.answers.parsed_answer import ParsedAnswer
from attribution.answers.sentence_tree import sentence_bounds
from attribution.answers.word_token_alignment import WordTokenAlignment
from attribution.evidence.span_weights import ResponseWeights
from attribution.token_attribution import EncodedRow
from schemas import CharRange

Counts = npt.NDArray[np.int64]


class AnswerTokens:
    """The tokens of one answer; tokens that cover no character count nowhere.

    Attributes:
        covering: intp [tokens], places among the row's responses of the tokens that cover a character. Every count
            below is over them.
    """

    def __init__(self, *, encoded: EncodedRow, parsed: ParsedAnswer) -> None:
        self.covering = np.flatnonzero(encoded.response_char_start < encoded.response_char_end)
        self._parsed = parsed
        self._alignment = WordTokenAlignment(
            words=parsed.words,
            token_char_start=encoded.response_char_start[self.covering],
            token_char_end=encoded.response_char_end[self.covering],
        )

    def of_spans(self, spans: Sequence[CharRange]) -> Counts:
        """int64 [spans, tokens]: 1 for a span's own tokens."""
        counts = np.zeros((len(spans), len(self.covering)), dtype=np.int64)
        firsts, ends = self._alignment.tokens_of_ranges(spans)
        for row, first, end in zip(counts, firsts.tolist(), ends.tolist(), strict=True):
            row[first:end] = 1
        return counts

    def of_facts(self, spans: Sequence[CharRange], *, own_token_weight: int = 1) -> Counts:
        """int64 [spans, tokens]: in the atomic facts of how many of the span's tokens each token is (Section 3.3)."""
        weights = ResponseWeights(
            alignment=self._alignment, facts=AtomicFacts(self._parsed), own_token_weight=own_token_weight
        ).of_spans(spans)
        return weights.unions[weights.union_of_span] * np.array(weights.factors, dtype=np.int64)[:, None]

    def of_sentences(self, spans: Sequence[CharRange]) -> Counts:
        """int64 [spans, tokens]: 1 for the tokens of the sentences that a span stands in, and the span's own."""
        words = self._parsed.words
        sentences = [
            CharRange(words[start].char_start, words[end - 1].char_end) for start, end in sentence_bounds(self._parsed)
        ]
        in_sentence = self.of_spans(sentences)
        own = self.of_spans(spans)
        touched = np.array([[sentence.overlaps(span) for sentence in sentences] for span in spans], dtype=np.int64)
        return np.maximum(own, (touched.reshape(len(spans), len(sentences)) @ in_sentence > 0).astype(np.int64))

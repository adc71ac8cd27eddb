"""How much each response token counts for a span: its atomic facts (Section 3.3, step 2), and its sentence.

The facts weigh the union. The sentence counts only in the choice of the passage.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.attribution.answers.word_token_alignment import WordTokenAlignment
from attribeam.attribution.evidence.union import PassageScores
from attribeam.schemas import CharRange

_Counts = npt.NDArray[np.int64]
_FACTS_AT_ONCE = 64
"""Arrays over these facts times the response's tokens stay small, also for one span of many facts."""


@dataclass(frozen=True, slots=True)
class SpanWeights:
    """The weights of some spans; spans whose tokens have one atomic fact differ by a factor only, and share a union.

    Attributes:
        token_firsts, token_ends: half-open run of each span's own response tokens.
        facts: for each span the facts of its tokens, as sets of words.
        unions: int64 [unions, responses], distinct rows of weights without a common factor.
        union_of_span: which row is the span's.
        factors: what the row is to be multiplied by, at least 1.
    """

    token_firsts: list[int]
    token_ends: list[int]
    facts: list[frozenset[frozenset[int]]]
    unions: _Counts
    union_of_span: list[int]
    factors: list[int]


class ResponseWeights:
    """Makes the weights of one response's spans; the fact of a token is looked for once.

    Without ``facts``, a span has its own tokens only, once each. With them, each token of a span counts
    ``own_token_weight`` times in its own fact.
    """

    def __init__(self, *, alignment: WordTokenAlignment, facts: AtomicFacts | None, own_token_weight: int = 1) -> None:
        self._alignment = alignment
        self._own_extra = own_token_weight - 1 if facts else 0
        self._facts = facts
        self._fact_of_token: dict[int, frozenset[int]] = {}

    def of_spans(self, spans: Sequence[CharRange]) -> SpanWeights:
        """The weights of at least one span.

        A token counts as often as the span has tokens whose atomic fact it is in. A token of the span is in its own
        fact always, also where it stands in no word.
        """
        firsts, ends = (places.tolist() for places in self._alignment.tokens_of_ranges(spans))
        facts = [[self._fact(token) for token in range(*run)] for run in zip(firsts, ends, strict=True)]
        counts = self._counts(facts)
        for row, first, end in zip(counts, firsts, ends, strict=True):
            own = row[first:end]
            own[own == 0] = 1
            own += self._own_extra
        factors = np.maximum(np.gcd.reduce(counts, axis=1), 1)
        unions, union_of_span = _distinct_rows(counts // factors[:, None])
        return SpanWeights(firsts, ends, [frozenset(one) for one in facts], unions, union_of_span, factors.tolist())

    def _counts(self, facts: Sequence[Sequence[frozenset[int]]]) -> _Counts:
        """int64 [spans, responses]: in the facts of how many of the span's tokens each token is."""
        places = {fact: place for place, fact in enumerate(dict.fromkeys(chain.from_iterable(facts)))}
        counts = np.zeros((len(facts), len(places)))
        for row, of_tokens in zip(counts, facts, strict=True):
            for fact in of_tokens:
                row[places[fact]] += 1
        sums = np.zeros((len(facts), self._alignment.token_count), dtype=np.int64)
        distinct = list(places)
        for start in range(0, len(distinct), _FACTS_AT_ONCE):
            some = slice(start, start + _FACTS_AT_ONCE)
            inside = self._alignment.tokens_of_words(distinct[some])
            used = np.flatnonzero(inside.any(axis=0))
            # a product of floats is fast, and of whole numbers exact
            sums[:, used] += (counts[:, some] @ inside[:, used]).astype(np.int64)
        return sums

    def _fact(self, token: int) -> frozenset[int]:
        """The words of A(r_i), none where the token stands in no word."""
        if token not in self._fact_of_token:
            words = self._alignment.words_of_tokens[token] if self._facts else ()
            facts = [self._facts.words_of(word) for word in words] if self._facts else []
            self._fact_of_token[token] = facts[0] if len(facts) == 1 else frozenset().union(*facts)
        return self._fact_of_token[token]


def split_unions(weights: SpanWeights, keys: Sequence[Hashable]) -> tuple[SpanWeights, list[int]]:
    """The same weights where only spans of equal ``keys``, one a span, share a union; and each union's first span."""
    places: dict[tuple[int, Hashable], int] = {}
    firsts: list[int] = []
    union_of_span = []
    for span, key in enumerate(zip(weights.union_of_span, keys, strict=True)):
        if key not in places:
            places[key] = len(firsts)
            firsts.append(span)
        union_of_span.append(places[key])
    unions = weights.unions[[weights.union_of_span[span] for span in firsts]]
    return replace(weights, unions=unions, union_of_span=union_of_span), firsts


def _distinct_rows(rows: _Counts) -> tuple[_Counts, list[int]]:
    """The rows without repetition, in order of first appearance, and the place of each row among them."""
    places: dict[bytes, int] = {}
    place_of_row = [places.setdefault(row.tobytes(), len(places)) for row in rows]
    firsts = [place_of_row.index(place) for place in range(len(places))]
    return rows[firsts], place_of_row


class SentenceContext:
    """Sums the token-wise scores of one response's sentences on each passage column."""

    def __init__(self, *, parsed: ParsedAnswer, alignment: WordTokenAlignment, scores: PassageScores) -> None:
        """``scores`` are those of the tokens that ``alignment`` is about."""
        borders = [*parsed.sentence_starts, len(parsed.words)]
        sentences = [
            CharRange(parsed.words[first].char_start, parsed.words[end - 1].char_end)
            for first, end in pairwise(borders)
        ]
        self._firsts, self._ends = alignment.tokens_of_ranges(sentences)
        self._sums = np.zeros((len(sentences) + 1, len(scores.columns)))
        np.cumsum(scores.run_sums(self._firsts.tolist(), self._ends.tolist()), axis=0, out=self._sums[1:])

    def of_spans(self, runs: Sequence[tuple[int, int]]) -> npt.NDArray[np.float64]:
        """For each run of sentences ``[first, end)``, as ``sentences_of`` gives it, its score on each column of the
        passage scores: float64 [spans, columns]."""
        firsts, ends = np.array(runs, dtype=np.intp).reshape(-1, 2).T
        sums: npt.NDArray[np.float64] = self._sums[ends] - self._sums[firsts]
        return sums

    def sentences_of(self, firsts: Sequence[int], ends: Sequence[int]) -> list[tuple[int, int]]:
        """For each span, given by its run of tokens ``[first, end)``, the half-open run of sentences it stands in."""
        opening = np.searchsorted(self._ends, np.array(firsts, dtype=np.intp), side="right")
        closing = np.searchsorted(self._firsts, np.array(ends, dtype=np.intp), side="left")
        return list(zip(opening.tolist(), np.maximum(opening, closing).tolist(), strict=True))

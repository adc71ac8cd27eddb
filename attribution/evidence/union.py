"""The union of a span's token-wise attributions, and how much each response token counts in it (Section 3).

Of the union (Algorithm 1), first tokens without neighbours are dropped, then what lies outside a passage's best window
(an extension of ours): small scores by chance would add up, so that the longest passage would win.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from attribeam.attribution.answers.atomic_facts import AtomicFacts, WordTokenAlignment
from attribeam.attribution.rows import EncodedRow, TokenAttribution
from attribeam.schemas import CharRange

_Indices = npt.NDArray[np.intp]
_Flags = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]
_Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class UnionScores:
    """The attribution scores w(t, d_j) of some unions of one response, all kept evidence in one list.

    Attributes:
        unions: whose evidence it is; ascending.
        columns: its prompt column, ascending within a union, all within passages.
        scores: w(t, d_j) > 0 of each, in attention mass.
        evidence_isolated: for each union whether all evidence was isolated: the filter alone would leave nothing.
    """

    unions: _Indices
    columns: _Indices
    scores: _Floats
    evidence_isolated: list[bool]


class PassageScores:
    """The token-wise scores w(r_i, d_j) of one response, restricted to passage columns; reused by all of its spans.

    A passage token of white space alone is no evidence: there is nothing of it to show. ``responses`` are the response
    tokens that count. ``columns`` are the distinct columns that any of them has, ascending.
    """

    def __init__(
        self, *, encoded: EncodedRow, tokens: TokenAttribution, responses: _Indices | slice = slice(None)
    ) -> None:
        top_columns = tokens.top_columns[responses]
        self.columns, self._indices = _distinct(top_columns, encoded.prompt_length)
        visible = (encoded.column_passage >= 0) & (encoded.column_char_start < encoded.column_char_end)
        self._scores = np.where(visible[top_columns], tokens.top_scores[responses].astype(np.float64), 0.0)

    def unite(self, weights: _Counts, *, isolation_tau: float, strict: bool = False) -> UnionScores:
        """Unite response tokens, then drop isolated evidence; ``isolation_tau`` as in ``keep_neighboured``.

        ``weights`` int64 [unions, responses] say how often a token's attribution counts. Where all evidence of a union
        is isolated, all of it stays, or with ``strict`` none, as in Algorithm 1.
        """
        united = self.column_sums(weights)
        unions, indices = united.nonzero()
        columns = self.columns[indices]
        kept = keep_neighboured(columns, unions, isolation_tau=isolation_tau)
        left = np.zeros(len(weights), dtype=np.bool_)
        left[unions[kept]] = True
        isolated = (np.bincount(unions, minlength=len(weights)) > 0) & ~left
        if not strict:
            kept |= isolated[unions]
        unions, indices = unions[kept], indices[kept]
        return UnionScores(unions, columns[kept], united[unions, indices], isolated.tolist())

    def mean_masses(
        self, scores: UnionScores, *, union_of_span: Sequence[int], firsts: Sequence[int], ends: Sequence[int]
    ) -> list[float]:
        """For each span the mean, over its tokens ``[first, end)``, of their attention on its union's evidence."""
        wanted = np.zeros((len(scores.evidence_isolated), len(self.columns)), dtype=np.bool_)
        wanted[scores.unions, np.searchsorted(self.columns, scores.columns)] = True
        masses = []
        for union, first, end in zip(union_of_span, firsts, ends, strict=True):
            attended = self._scores[first:end][wanted[union][self._indices[first:end]]]
            masses.append(min(max(float(attended.sum()) / (end - first), 0.0), 1.0) if first < end else 0.0)
        return masses

    def column_sums(self, weights: _Counts | _Flags) -> _Floats:
        """The sums of scores, weighted by [unions, responses], on each of ``columns``: float64 [unions, columns]."""
        size = (len(weights), len(self.columns))
        unions, counted = weights.nonzero()
        weighted = weights[unions, counted, None] * self._scores[counted]
        indices = unions[:, None] * len(self.columns) + self._indices[counted]
        sums = np.bincount(indices.ravel(), weights=weighted.ravel(), minlength=size[0] * size[1])
        return sums.astype(np.float64, copy=False).reshape(size)


def _distinct(numbers: npt.NDArray[np.integer], count: int) -> tuple[_Indices, _Indices]:
    """The distinct ones of ``numbers`` below ``count``, ascending, and the place of each number among them."""
    occurs = np.zeros(count, dtype=np.bool_)
    occurs[numbers] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[numbers]


def keep_neighboured(columns: _Indices, unions: _Indices, *, isolation_tau: float) -> _Flags:
    """True for each evidence column with another of its union within ``isolation_tau`` positions (Algorithm 1).

    Both ends are included. Columns ascend within a union without repetition, and unions ascend. An infinite
    ``isolation_tau`` switches the filter off.
    """
    if math.isinf(isolation_tau):
        return np.ones(len(columns), dtype=np.bool_)
    near = (columns[1:] - columns[:-1] <= isolation_tau) & (unions[1:] == unions[:-1])
    kept = np.zeros(len(columns), dtype=np.bool_)
    kept[1:] |= near
    kept[:-1] |= near
    return kept


ColumnContext: TypeAlias = tuple[_Indices, _Floats]
"""Distinct ascending columns, and float64 [unions, columns], what each of them is worth besides the evidence."""


def keep_best_windows(
    scores: UnionScores, *, encoded: EncodedRow, passage_count: int, window: float, context: ColumnContext | None = None
) -> tuple[UnionScores, _Floats]:
    """For each union and passage keep the ``window`` successive tokens with the largest sum, and the title.

    A window holds evidence of its own wherever its passage has any; of equal ones the first counts. An infinite
    ``window`` keeps everything. The ``context`` counts in the choice of the window and in the passage's score.

    Returns what is kept of the evidence, and the score of each passage's window and title: float64 [unions, passages].
    """
    unions, columns, values, own = _with_context(scores, context)
    passages = encoded.column_passage[columns].astype(np.intp)
    kept = np.ones(len(columns), dtype=np.bool_)
    text = np.flatnonzero(~encoded.column_in_title[columns])
    if len(text) and not math.isinf(window):
        groups = unions[text] * passage_count + passages[text]
        positions = columns[text] + groups * (len(encoded.column_passage) + int(window))
        kept[text] = _in_best_window(positions, groups, values[text], own[text], int(window))
    cells = unions[kept] * passage_count + passages[kept]
    sums = np.bincount(cells, weights=values[kept], minlength=len(scores.evidence_isolated) * passage_count)
    stays = kept[own]
    evidence = UnionScores(scores.unions[stays], scores.columns[stays], scores.scores[stays], scores.evidence_isolated)
    return evidence, sums.astype(np.float64, copy=False).reshape(-1, passage_count)


def _with_context(scores: UnionScores, context: ColumnContext | None) -> tuple[_Indices, _Indices, _Floats, _Flags]:
    """Union, column, evidence and context together, and whether there is evidence; by union, then column."""
    if context is None:
        return scores.unions, scores.columns, scores.scores, np.ones(len(scores.columns), dtype=np.bool_)
    columns, values = context
    evidence = np.zeros(values.shape)
    evidence[scores.unions, np.searchsorted(columns, scores.columns)] = scores.scores
    total = values + evidence
    unions, indices = total.nonzero()
    return unions, columns[indices], total[unions, indices], evidence[unions, indices] > 0


def _in_best_window(positions: _Indices, groups: _Indices, values: _Floats, own: _Flags, window: int) -> _Flags:
    """True for what lies in the best window of its group; groups lie more than ``window`` places apart."""
    ascending = np.argsort(positions, kind="stable")
    positions, groups, values, own = positions[ascending], groups[ascending], values[ascending], own[ascending]
    ends = np.searchsorted(positions, positions + window)
    counts, sums = np.append(0, np.cumsum(own)), np.append(0.0, np.cumsum(values))
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    group_of = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(groups))))
    has_evidence = np.logical_or.reduceat(own, starts)[group_of]
    in_window = np.where((counts[ends] > counts[:-1]) | ~has_evidence, sums[ends] - sums[:-1], -1.0)
    best = np.maximum.reduceat(in_window, starts)[group_of]
    order = np.arange(len(positions))
    first = np.minimum.reduceat(np.where(in_window == best, order, len(positions)), starts)[group_of]
    kept = np.empty(len(positions), dtype=np.bool_)
    kept[ascending] = (order >= first) & (order < ends[first])
    return kept


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
        self._tokens_of_fact: dict[frozenset[int], list[int]] = {}

    def of_spans(self, spans: Sequence[CharRange]) -> SpanWeights:
        """The weights of at least one span: a token counts as often as the span has tokens in whose atomic fact it is.

        A token of the span is in its own fact always, also where it stands in no word.
        """
        firsts, ends = (bounds.tolist() for bounds in self._alignment.tokens_of_ranges(spans))
        facts_of_spans, factors = [], []
        numbers: dict[tuple[tuple[int, int], ...], int] = {}
        union_of_span = []
        for first, end in zip(firsts, ends, strict=True):
            facts: dict[frozenset[int], int] = {}
            for fact in map(self._fact, range(first, end)):
                facts[fact] = facts.get(fact, 0) + 1
            counts: dict[int, int] = {}
            for fact, times in facts.items():
                for token in self._tokens_of_fact[fact]:
                    counts[token] = counts.get(token, 0) + times
            for token in range(first, end):
                counts[token] = counts.get(token, 1) + self._own_extra
            factor = math.gcd(*counts.values()) or 1
            row = tuple(sorted([(token, count // factor) for token, count in counts.items()]))
            union_of_span.append(numbers.setdefault(row, len(numbers)))
            facts_of_spans.append(frozenset(facts))
            factors.append(factor)
        unions = np.zeros((len(numbers), self._alignment.token_count), dtype=np.int64)
        for weights, row in zip(unions, numbers, strict=True):
            for token, count in row:
                weights[token] = count
        return SpanWeights(firsts, ends, facts_of_spans, unions, union_of_span, factors)

    def _fact(self, token: int) -> frozenset[int]:
        """The words of A(r_i), none where the token stands in no word."""
        fact = self._fact_of_token.get(token)
        if fact is None:
            words = self._alignment.words_of_tokens[token] if self._facts else ()
            facts = [self._facts.words_of(word) for word in words] if self._facts else []
            fact = self._fact_of_token[token] = facts[0] if len(facts) == 1 else frozenset().union(*facts)
            if fact not in self._tokens_of_fact:
                self._tokens_of_fact[fact] = self._alignment.tokens_of_words(fact)
        return fact


def split_unions(weights: SpanWeights, keys: Sequence[Hashable]) -> tuple[SpanWeights, list[int]]:
    """The same weights where only spans of equal ``keys``, one a span, share a union; and each union's first span."""
    pairs = list(zip(weights.union_of_span, keys, strict=True))
    first_of: dict[Hashable, int] = {}
    for span, pair in enumerate(pairs):
        first_of.setdefault(pair, span)
    numbers, firsts = {pair: number for number, pair in enumerate(first_of)}, list(first_of.values())
    unions = weights.unions[[weights.union_of_span[span] for span in firsts]]
    return replace(weights, unions=unions, union_of_span=[numbers[pair] for pair in pairs]), firsts


class SentenceContext:
    """Sums the token-wise scores of one response's sentences on each passage column."""

    def __init__(self, sentences: Sequence[CharRange], *, alignment: WordTokenAlignment, scores: PassageScores) -> None:
        """``scores`` are those of the tokens that ``alignment`` is about."""
        self._firsts, self._ends = alignment.tokens_of_ranges(sentences)
        tokens = np.arange(alignment.token_count)
        within = (tokens >= self._firsts[:, None]) & (tokens < self._ends[:, None])
        self._sums = np.zeros((len(sentences) + 1, len(scores.columns)))
        np.cumsum(scores.column_sums(within), axis=0, out=self._sums[1:])

    def of_spans(self, runs: Sequence[tuple[int, int]]) -> _Floats:
        """The score of each run of ``sentences_of`` on each column of the passage scores: float64 [spans, columns]."""
        firsts, ends = np.array(runs, dtype=np.intp).reshape(-1, 2).T
        sums: _Floats = self._sums[ends] - self._sums[firsts]
        return sums

    def sentences_of(self, firsts: Sequence[int], ends: Sequence[int]) -> list[tuple[int, int]]:
        """For each span, given by its run of tokens ``[first, end)``, the half-open run of sentences it stands in."""
        opening = np.searchsorted(self._ends, np.array(firsts, dtype=np.intp), side="right")
        closing = np.searchsorted(self._firsts, np.array(ends, dtype=np.intp), side="left")
        return list(zip(opening.tolist(), np.maximum(opening, closing).tolist(), strict=True))

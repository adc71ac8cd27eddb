"""The evidence of each target span of one answer: augmentation, union, filter, decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from attribution.atomic_facts import AtomicFacts
from attribution.evidence_pieces import evidence_pieces
from attribution.parsed_answer import ParsedAnswer
from attribution.settings import Method, UnionSettings
from attribution.support import decide_support
from attribution.token_attribution import EncodedRow, TokenAttribution
from attribution.union import PassageScores, SpanScores
from attribution.unmatched_values import ValueMatcher
from attribution.word_token_alignment import WordTokenAlignment
from schemas import CharRange, QARecord, SpanEvidence, TargetSpan


def span_evidence(
    *,
    record: QARecord,
    parsed: ParsedAnswer,
    spans: Sequence[TargetSpan],
    encoded: EncodedRow,
    tokens: TokenAttribution,
    settings: UnionSettings,
) -> tuple[SpanEvidence, ...]:
    """One evidence record a target span, in the order of ``spans`` (Sections 3.2 and 3.3).

    Where the isolation filter leaves nothing, the unfiltered evidence stands and ``evidence_isolated`` says so. A span
    that no response token overlaps has no evidence and is unsupported.
    """
    response = _Response(record=record, parsed=parsed, encoded=encoded, tokens=tokens, settings=settings)
    return tuple(response.evidence_of(index, span) for index, span in enumerate(spans))


class _Response:
    """What all spans of one response share."""

    def __init__(
        self,
        *,
        record: QARecord,
        parsed: ParsedAnswer,
        encoded: EncodedRow,
        tokens: TokenAttribution,
        settings: UnionSettings,
    ) -> None:
        self._record, self._parsed, self._encoded, self._settings = record, parsed, encoded, settings
        self._alignment = WordTokenAlignment(
            words=parsed.words,
            token_char_start=encoded.response_char_start,
            token_char_end=encoded.response_char_end,
        )
        self._facts = AtomicFacts(parsed)
        self._tokens_of_words: dict[frozenset[int], npt.NDArray[np.bool_]] = {}
        self._passage_scores = PassageScores(encoded=encoded, tokens=tokens)
        self._values = ValueMatcher(answer=record.answer, parsed=parsed, passages=record.passages)
        self._augmented = settings.method is Method.ATTN_UNION_DEP

    def evidence_of(self, span_index: int, span: TargetSpan) -> SpanEvidence:
        own = self._alignment.tokens_of_range(span.chars)
        facts = self._facts_of(own) if self._augmented else {}
        scores = self._passage_scores.span_scores(
            self._multiplicity(own, facts), isolation_tau=self._settings.isolation_tau
        )
        passage_scores = self._sum_by_passage(scores)
        top, margin = _decide_passage(passage_scores)
        mass = self._passage_scores.mean_mass_on(scores.columns, span_tokens=own)
        pieces = evidence_pieces(scores, encoded=self._encoded, passages=self._record.passages)
        unmatched = self._values.unmatched_values(span.chars, sorted({piece.passage_index for piece in pieces}))
        return SpanEvidence(
            span_index=span_index,
            span_kind=span.kind,
            chars=span.chars,
            text=span.chars.of(self._record.answer),
            atomic_fact=self._fact_ranges(span.chars, facts),
            evidence=pieces,
            passage_scores=tuple(passage_scores.tolist()),
            top_passage_index=top,
            top_passage_id=None if top is None else self._record.passages[top].passage_id,
            margin=margin,
            evidence_mass=mass,
            evidence_isolated=scores.evidence_isolated,
            support=decide_support(mass, bool(unmatched), self._settings),
            unmatched_values=unmatched,
        )

    def _facts_of(self, own: npt.NDArray[np.intp]) -> dict[frozenset[int], int]:
        """For the span's tokens the words of each A(r_i), and how many tokens have it; a token of no word has none."""
        counts: Counter[frozenset[int]] = Counter()
        for words in self._alignment.words_of_tokens(own.tolist()):
            if len(words) == 1:
                counts[self._facts.words_of(words[0])] += 1
            elif words:
                counts[frozenset().union(*(self._facts.words_of(word) for word in words))] += 1
        return counts

    def _multiplicity(self, own: npt.NDArray[np.intp], facts: dict[frozenset[int], int]) -> npt.NDArray[np.float64]:
        """float64 [responses]: of how many of the span's tokens each token is in A(r_i); A has r_i itself always."""
        multiplicity = np.zeros(len(self._encoded.response_char_start))
        for words, count in facts.items():
            if words not in self._tokens_of_words:
                self._tokens_of_words[words] = self._alignment.tokens_of_words(words)
            multiplicity += count * self._tokens_of_words[words]
        lone = own[multiplicity[own] == 0]
        multiplicity[lone] = 1
        return multiplicity

    def _sum_by_passage(self, scores: SpanScores) -> npt.NDArray[np.float64]:
        passages = self._encoded.column_passage[scores.columns]
        sums = np.bincount(passages, weights=scores.scores, minlength=len(self._record.passages))
        return sums.astype(np.float64, copy=False)

    def _fact_ranges(self, span: CharRange, facts: Iterable[frozenset[int]]) -> tuple[CharRange, ...]:
        words: set[int] = set().union(*facts)
        return _merged_ranges([span, *self._word_ranges(words)], answer=self._record.answer)

    def _word_ranges(self, words: Collection[int]) -> list[CharRange]:
        return [self._parsed.words[word] for word in words]


def _decide_passage(passage_scores: npt.NDArray[np.float64]) -> tuple[int | None, float | None]:
    """The passage with the largest score, ties towards the first, and its lead as a share of all scores."""
    total = float(passage_scores.sum())
    if total <= 0:
        return None, None
    top = int(passage_scores.argmax())
    second = float(np.delete(passage_scores, top).max(initial=0.0))
    return top, (float(passage_scores[top]) - second) / total


def _merged_ranges(ranges: Iterable[CharRange], *, answer: str) -> tuple[CharRange, ...]:
    """The ranges ascending, merged where they overlap, touch, or only white space lies between."""
    merged: list[list[int]] = []
    for one in sorted(ranges):
        if merged and not answer[merged[-1][1] : one.char_start].strip():
            merged[-1][1] = max(merged[-1][1], one.char_end)
        else:
            merged.append([one.char_start, one.char_end])
    return tuple(CharRange(start, end) for start, end in merged)

"""The evidence of each target span of one answer: augmentation, union, filter, decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from attribution.atomic_facts import AtomicFacts
from attribution.evidence_pieces import scaled_pieces
from attribution.parsed_answer import ParsedAnswer
from attribution.settings import Method, UnionSettings
from attribution.support import decide_support
from attribution.token_attribution import EncodedRow, TokenAttribution
from attribution.union import PassageScores
from attribution.united_evidence import UnitedEvidence, united_evidence
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
        self._unions: dict[bytes, UnitedEvidence] = {}
        self._values = ValueMatcher(answer=record.answer, parsed=parsed, passages=record.passages)

    def evidence_of(self, span_index: int, span: TargetSpan) -> SpanEvidence:
        """The evidence record of one span."""
        own = self._alignment.tokens_of_range(span.chars)
        facts = self._facts_of(own)
        united, factor = self._united(own, facts)
        mass = self._passage_scores.mean_mass_on(united.scores.columns, span_tokens=own)
        unmatched = self._values.unmatched_values(span.chars, united.evidence_passages)
        return SpanEvidence(
            span_index=span_index,
            span_kind=span.kind,
            chars=span.chars,
            text=span.chars.of(self._record.answer),
            atomic_fact=self._fact_ranges(span.chars, facts),
            evidence=scaled_pieces(united.pieces, factor),
            passage_scores=tuple(score * factor for score in united.passage_scores),
            top_passage_index=united.top_passage_index,
            top_passage_id=united.top_passage_id,
            margin=united.margin,
            evidence_mass=mass,
            evidence_isolated=united.scores.evidence_isolated,
            support=decide_support(mass, bool(unmatched), self._settings),
            unmatched_values=unmatched,
        )

    def _facts_of(self, own: npt.NDArray[np.intp]) -> Counter[frozenset[int]]:
        """For the span's tokens the words of each A(r_i), and how many tokens have it; without augmentation none."""
        counts: Counter[frozenset[int]] = Counter()
        if self._settings.method is not Method.ATTN_UNION_DEP:
            return counts
        for words in self._alignment.words_of_tokens(own.tolist()):
            if len(words) == 1:
                counts[self._facts.words_of(words[0])] += 1
            elif words:
                counts[frozenset().union(*(self._facts.words_of(word) for word in words))] += 1
        return counts

    def _united(self, own: npt.NDArray[np.intp], facts: Counter[frozenset[int]]) -> tuple[UnitedEvidence, int]:
        """The union, and the factor that its scores want; spans whose tokens have one atomic fact share theirs."""
        multiplicity = self._multiplicity(own, facts)
        factor = int(np.gcd.reduce(multiplicity)) or 1
        key = (multiplicity // factor).tobytes()
        if key not in self._unions:
            scores = self._passage_scores.span_scores(
                multiplicity // factor, isolation_tau=self._settings.isolation_tau
            )
            self._unions[key] = united_evidence(scores, encoded=self._encoded, passages=self._record.passages)
        return self._unions[key], factor

    def _multiplicity(self, own: npt.NDArray[np.intp], facts: Counter[frozenset[int]]) -> npt.NDArray[np.int64]:
        """int64 [responses]: in A(r_i) of how many of the span's tokens each token is; r_i is in A(r_i) always."""
        multiplicity = np.zeros(len(self._encoded.response_char_start), dtype=np.int64)
        for words, count in facts.items():
            if words not in self._tokens_of_words:
                self._tokens_of_words[words] = self._alignment.tokens_of_words(words)
            multiplicity += count * self._tokens_of_words[words]
        of_no_word = own[multiplicity[own] == 0]
        multiplicity[of_no_word] = 1
        return multiplicity

    def _fact_ranges(self, span: CharRange, facts: Iterable[frozenset[int]]) -> tuple[CharRange, ...]:
        words: set[int] = set().union(*facts)
        return _merged_ranges([span, *self._word_ranges(words)], answer=self._record.answer)

    def _word_ranges(self, words: Collection[int]) -> list[CharRange]:
        return [self._parsed.words[word] for word in words]


def _merged_ranges(ranges: Iterable[CharRange], *, answer: str) -> tuple[CharRange, ...]:
    """The ranges ascending, merged where they overlap, touch, or only white space lies between."""
    merged: list[list[int]] = []
    for one in sorted(ranges, key=lambda one: one.char_start):
        if merged and not answer[merged[-1][1] : one.char_start].strip():
            merged[-1][1] = max(merged[-1][1], one.char_end)
        else:
            merged.append([one.char_start, one.char_end])
    return tuple(CharRange(start, end) for start, end in merged)

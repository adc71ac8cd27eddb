"""The methods under comparison, each a small class with one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from attribution.atomic_facts import AtomicFacts
from attribution.evidence import span_evidence
from attribution.model_options import MethodOptions
from attribution.sentence_tree import sentence_bounds
from attribution.settings import Method as UnionMethod
from evaluation.answer_context import AnswerContext
from evaluation.labelled_answer import PassageRange
from evaluation.scored_range import ScoredRange
from schemas import CharRange, SpanEvidence, SpanKind, TargetSpan


@dataclass(frozen=True, slots=True)
class SpanResult:
    """What a method says about one span.

    Attributes:
        passage_scores: one a passage, not negative; all zero where nothing was found.
        evidence: the passage characters that it names as evidence, with their scores; titles apart.
    """

    passage_scores: tuple[float, ...]
    evidence: tuple[ScoredRange, ...]


class Method(Protocol):
    """A way to say which passage each span of an answer comes from.

    Attributes:
        name: as ``--method`` gives it.
        needs_parser: whether it reads ``context.parsed``.
        needs_model: whether it reads ``context.attended``.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs_parser(self) -> bool: ...

    @property
    def needs_model(self) -> bool: ...

    def span_results(self, context: AnswerContext) -> Sequence[SpanResult]:
        """One result a target span of ``context.labelled``, in their order.

        Raises:
            RowFault: if the answer cannot be attributed.
        """
        ...


@dataclass(frozen=True, slots=True)
class SpanWords:
    """``words``: the span's own words."""

    name: str = "words"
    needs_parser: bool = False
    needs_model: bool = False

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Sums of the word matches of each span."""
        return [_word_result(context, [span]) for span in context.labelled.spans]


@dataclass(frozen=True, slots=True)
class FactWords:
    """``words-dep``: the words of the atomic facts of the span's words, and the span's own."""

    name: str = "words-dep"
    needs_parser: bool = True
    needs_model: bool = False

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Sums of the word matches of each span's atomic facts (Section 3.3)."""
        facts, words = AtomicFacts(context.parsed), context.parsed.words
        results = []
        for span in context.labelled.spans:
            own = [index for index, chars in enumerate(words) if chars.overlaps(span)]
            members = frozenset[int]().union(*(facts.words_of(word) for word in own))
            results.append(_word_result(context, [span, *(words[word] for word in sorted(members))]))
        return results


@dataclass(frozen=True, slots=True)
class SentenceWords:
    """``words-sent``: the words of the sentences that the span stands in."""

    name: str = "words-sent"
    needs_parser: bool = True
    needs_model: bool = False

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Sums of the word matches of each span's sentences."""
        words = context.parsed.words
        sentences = [
            CharRange(words[start].char_start, words[end - 1].char_end)
            for start, end in sentence_bounds(context.parsed)
        ]
        return [
            _word_result(context, [span, *(sentence for sentence in sentences if sentence.overlaps(span))])
            for span in context.labelled.spans
        ]


@dataclass(frozen=True, slots=True)
class AttentionUnion:
    """``attn-union`` and ``attn-union-dep``: the paper's method, under the options given on the command line."""

    options: MethodOptions
    needs_parser: bool = True
    needs_model: bool = True

    @property
    def name(self) -> str:
        """The method's name in the paper, as the audit's options have it."""
        return str(self.options.method)

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Passage scores and evidence of ``attribution.evidence``, as the audit computes them."""
        encoded, tokens = context.attended
        labelled = context.labelled
        found = span_evidence(
            record=labelled.record,
            parsed=context.parsed,
            spans=[TargetSpan(SpanKind.GIVEN, span) for span in labelled.spans],
            encoded=encoded,
            tokens=tokens,
            settings=context.model.union_settings(self.options),
        )
        return [SpanResult(one.passage_scores, _evidence_ranges(one)) for one in found]


def all_methods(
    *,
    top_k: int | None = None,
    isolation_tau: float | None = None,
    own_token_weight: int | None = None,
    sentence_weight: float | None = None,
) -> Mapping[str, Method]:
    """Every method by its name; the options are those of the union, None for the model's own."""
    methods: list[Method] = [
        AttentionUnion(
            MethodOptions(
                method=union,
                top_k=top_k,
                isolation_tau=isolation_tau,
                own_token_weight=own_token_weight,
                sentence_weight=sentence_weight,
            )
        )
        for union in UnionMethod
    ]
    methods += [SpanWords(), FactWords(), SentenceWords()]
    return {method.name: method for method in methods}


def _word_result(context: AnswerContext, ranges: Sequence[CharRange]) -> SpanResult:
    """The sums of the words' scores, and their best matches in the first passage with the largest sum."""
    matches = context.word_matches
    scores = matches.passage_scores(ranges)
    return SpanResult(scores, matches.evidence(ranges, scores.index(max(scores))))


def _evidence_ranges(found: SpanEvidence) -> tuple[ScoredRange, ...]:
    pieces = [piece for piece in found.evidence if not piece.in_title]
    return tuple(ScoredRange(PassageRange(piece.passage_index, piece.chars), piece.score) for piece in pieces)

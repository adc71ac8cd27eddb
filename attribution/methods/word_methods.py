"""The methods without a model: words that a span shares with the passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.answers.parsed_answer import sentence_bounds
from attribeam.attribution.methods.answer_context import AnswerContext, Need
from attribeam.attribution.methods.method import Method, SpanResult
from attribeam.schemas import CharRange


def word_methods() -> tuple[Method, ...]:
    """``words``, ``words-dep`` and ``words-sent``."""
    return SpanWords(), FactWords(), SentenceWords()


@dataclass(frozen=True, slots=True)
class SpanWords:
    """``words``: the span's own words."""

    name: str = "words"
    needs: frozenset[Need] = frozenset()

    def span_results(self, context: AnswerContext) -> list[SpanResult]:
        """Sums of the word matches of each span."""
        return [_word_result(context, [span]) for span in context.labelled.spans]


@dataclass(frozen=True, slots=True)
class FactWords:
    """``words-dep``: the words of the atomic facts of the span's words, and the span's own."""

    name: str = "words-dep"
    needs: frozenset[Need] = frozenset({Need.PARSER})

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
    needs: frozenset[Need] = frozenset({Need.PARSER})

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


def _word_result(context: AnswerContext, ranges: Sequence[CharRange]) -> SpanResult:
    """The sums of the words' scores, and their best matches in the first passage with the largest sum."""
    matches = context.word_matches
    scores = matches.passage_scores(ranges)
    return SpanResult(scores, matches.evidence(ranges, scores.index(max(scores))))

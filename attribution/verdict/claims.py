"""Which target spans of an answer are claims, which belong to the claim of another span, and which claim nothing.

A fact is a claim. A mention states nothing by itself: it belongs to the claim of the fact around it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from attribeam.attribution.answers.markup import structured_text
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, has_letter_or_digit
from attribeam.attribution.answers.target_spans import is_content_word
from attribeam.attribution.verdict.claim_kinds import WordKinds
from attribeam.schemas import AnswerKind, CharRange, ClaimKind, SpanKind, TargetSpan

_CLAIMING = (SpanKind.FACTS, SpanKind.SENTENCES, SpanKind.GIVEN)
_FEWEST_CONTENT_WORDS = 2


@dataclass(frozen=True, slots=True)
class SpanClaim:
    """What one target span is.

    Attributes:
        claim_index: index of the span whose claim it belongs to, its own where it is a claim itself; None for a span
            that claims nothing.
        kind: ``CLAIM``, or why it is none.
        words: the words of the answer, ascending, that state the span's own part of a claim: without words that claim
            nothing, and for a claim without those of facts nested in it; empty for a span that claims nothing.
    """

    claim_index: int | None
    kind: ClaimKind
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerClaims:
    """What an answer is, what each of its target spans is, and the ranges in which it refuses, ascending."""

    kind: AnswerKind
    spans: tuple[SpanClaim, ...]
    refused: tuple[CharRange, ...]


def answer_claims(parsed: ParsedAnswer, answer: str, spans: Sequence[TargetSpan], found: WordKinds) -> AnswerClaims:
    """What the answer and each target span is, in the order of ``spans``; ``found`` are the kinds of its words.

    A span is a claim if one of its content words is part of a claim: "the answer is: Oslo" claims something. Otherwise
    it is of the kind that most of them are. A mention belongs to the smallest fact, sentence or given span around it,
    else to one whose edge it crosses, and is a claim of its own where there is none. A fact around other facts is a
    claim of its own for the words that are left, unless fewer than two of them carry content: then it belongs to the
    first of those facts. A span that is given again belongs to the claim of the first.
    """
    content = [
        is_content_word(parsed, word, answer) or (kind == ClaimKind.LANGUAGE and has_letter_or_digit(chars.of(answer)))
        for word, (chars, kind) in enumerate(zip(parsed.words, found.kinds, strict=True))
    ]
    distinct = list(dict.fromkeys(spans))
    return AnswerClaims(
        kind=_answer_kind(found, content),
        spans=_of_all(spans, distinct, [*_SpanClaims(parsed, distinct, found.kinds, content).of_spans()]),
        refused=found.refused,
    )


def label_words(parsed: ParsedAnswer, answer: str, words: Sequence[int]) -> list[int]:
    """The words of the labels of the table cells and fields that a claim with these words stands in, ascending.

    "24 months" in a table says something of its row and of its column.
    """
    structure = structured_text(answer)
    parts = {structure.part_at(parsed.words[word].char_start) for word in words} if structure.parts else set()
    labels = (label for part in parts if part is not None for label in structure.labels[part])
    return sorted({word for label in labels for word in words_in(parsed, label)})


def _of_all(
    spans: Sequence[TargetSpan], distinct: Sequence[TargetSpan], claims: Sequence[SpanClaim]
) -> tuple[SpanClaim, ...]:
    """The claims of all spans, given those of the distinct ones: a repeated span belongs to the claim of the first."""
    if len(distinct) == len(spans):
        return tuple(claims)
    of_span = dict(zip(distinct, claims, strict=True))
    places: dict[TargetSpan, int] = {}
    for place, span in enumerate(spans):
        places.setdefault(span, place)
    first = [*places.values()]
    return tuple(
        replace(claim, claim_index=None if claim.claim_index is None else first[claim.claim_index])
        for claim in (of_span[span] for span in spans)
    )


class _SpanClaims:
    def __init__(
        self, parsed: ParsedAnswer, spans: Sequence[TargetSpan], kinds: Sequence[ClaimKind], content: Sequence[bool]
    ) -> None:
        self._spans = spans
        self._kinds = kinds
        self._content = content
        self._words = [words_in(parsed, span.chars) for span in spans]
        self._parents = _parents(spans)
        self._children: dict[int, list[int]] = {}
        for index, parent in enumerate(self._parents):
            if parent is not None and spans[index].kind in _CLAIMING:
                self._children.setdefault(parent, []).append(index)

    def of_spans(self) -> Iterable[SpanClaim]:
        own = [self._own_words(index) for index in range(len(self._spans))]
        kinds = [self._kind_of(words) if self._words[index] else ClaimKind.DISCOURSE for index, words in enumerate(own)]
        heads = self._heads(own, kinds)
        for index, kind in enumerate(kinds):
            head = heads[index]
            if head is None:
                yield SpanClaim(None, ClaimKind.DISCOURSE if kind == ClaimKind.CLAIM else kind)
            else:
                words = tuple(word for word in own[index] if self._kinds[word] == ClaimKind.CLAIM)
                yield SpanClaim(head, ClaimKind.CLAIM, words)

    def _own_words(self, index: int) -> list[int]:
        """The span's words without those of claiming spans nested in it; all of them for a mention."""
        words = self._words[index]
        if self._spans[index].kind not in _CLAIMING:
            return list(words)
        nested = {word for child in self._children.get(index, ()) for word in self._words[child]}
        return [word for word in words if word not in nested]

    def _kind_of(self, words: Sequence[int]) -> ClaimKind:
        """The kind of some words, by those that carry content; by all of them where none does."""
        counted = [word for word in words if self._content[word]] or list(words)
        kinds = [self._kinds[word] for word in counted]
        if not kinds or ClaimKind.CLAIM in kinds:
            return ClaimKind.CLAIM
        return max(dict.fromkeys(kinds), key=kinds.count)

    def _heads(self, own: Sequence[Sequence[int]], kinds: Sequence[ClaimKind]) -> list[int | None]:
        """For each span the span whose claim it belongs to; smaller spans are decided before those around them."""
        heads: list[int | None] = [None] * len(self._spans)
        order = sorted(range(len(self._spans)), key=lambda one: len(self._words[one]))
        for index in (one for one in order if self._spans[one].kind in _CLAIMING):
            inner = [heads[child] for child in self._children.get(index, ()) if heads[child] is not None]
            if kinds[index] == ClaimKind.CLAIM:
                left = sum(self._content[word] and self._kinds[word] == ClaimKind.CLAIM for word in own[index])
                heads[index] = inner[0] if inner and left < _FEWEST_CONTENT_WORDS else index
        mentions = [one for one in order if self._spans[one].kind not in _CLAIMING]
        for index in sorted(mentions, key=lambda one: self._parents[one] is not None):
            if kinds[index] == ClaimKind.CLAIM:
                parent = self._parents[index]
                head = None if parent is None else heads[parent]
                heads[index] = index if head is None and not self._is_within(index, parent) else head
        return heads

    def _is_within(self, index: int, parent: int | None) -> bool:
        """Whether a span lies in its parent, and does not only cross its edge."""
        if parent is None:
            return False
        inner, outer = self._spans[index].chars, self._spans[parent].chars
        return outer.char_start <= inner.char_start and inner.char_end <= outer.char_end


def _parents(spans: Sequence[TargetSpan]) -> list[int | None]:
    """For each span the smallest claiming span around it, the first of equal ones; None where there is none.

    A mention that only crosses the edge of a claiming span belongs to it, too, and else to a mention that it crosses:
    so no two claims share words, but where the log's own spans cross.
    """
    parents: list[int | None] = [None] * len(spans)
    open_spans: list[int] = []
    order = sorted(range(len(spans)), key=lambda one: (spans[one].chars.char_start, -spans[one].chars.char_end, one))
    claiming = [one for one in order if spans[one].kind in _CLAIMING]
    alone: int | None = None
    for index in order:
        chars = spans[index].chars
        open_spans = [one for one in open_spans if spans[one].chars.char_end > chars.char_start]
        around = [one for one in open_spans if spans[one].chars.char_end >= chars.char_end]
        parents[index] = min(around, key=lambda one: _length(spans[one].chars), default=None)
        if spans[index].kind in _CLAIMING:
            open_spans.append(index)
        elif parents[index] is None:
            following = bisect_left(claiming, chars.char_start, key=lambda one: spans[one].chars.char_start)
            crossed = [*open_spans[-1:], *claiming[following : following + 1], *([] if alone is None else [alone])]
            parents[index] = next((one for one in crossed if chars.overlaps(spans[one].chars)), None)
            alone = index if parents[index] is None else alone
    return parents


def _length(chars: CharRange) -> int:
    return chars.char_end - chars.char_start


def words_in(parsed: ParsedAnswer, chars: CharRange) -> range:
    """The words that share a code point with the range."""
    first = bisect_right(parsed.words, chars.char_start, key=lambda word: word.char_end)
    return range(first, bisect_left(parsed.words, chars.char_end, lo=first, key=lambda word: word.char_start))


def _answer_kind(found: WordKinds, content: Sequence[bool]) -> AnswerKind:
    claims = any(one and kind == ClaimKind.CLAIM for one, kind in zip(content, found.kinds, strict=True))
    if found.refused:
        return AnswerKind.PARTIAL if claims else AnswerKind.REFUSAL
    if claims:
        return AnswerKind.ANSWER
    unjudged = any(not kind.is_judgeable for kind in found.kinds)
    return AnswerKind.NOT_JUDGED if unjudged else AnswerKind.NO_CLAIM

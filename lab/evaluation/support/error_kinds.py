"""Errors of an audit on judged answers, and the kinds of them that code can decide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from attribeam.attribution.verdict import discourse_phrases
from attribeam.attribution.verdict.refusal_phrases import refusals
from attribeam.attribution.verdict.verbatim import LiteralIndex
from attribeam.lab.evaluation.support.judged_parts import judged_parts, visible
from attribeam.lab.evaluation.support.unseen_words import content_words, is_unseen, word_beginnings
from attribeam.schemas import CharRange, Passage, SpanEvidence, Support
from attribeam.schemas.labelled_answer import JudgedAnswer


class ErrorKind(StrEnum):
    """What is in the text of an error; several may apply."""

    VALUES = "values"
    """A digit, or a value that the audit found unmatched."""
    UNSEEN_WORDS = "unseen words"
    """A content word whose beginning no passage has."""
    NEGATION = "negation"
    DISCOURSE = "discourse"
    """Words about the answer or its sources, or a refusal."""
    LITERAL = "literal"
    """All of it stands in one passage, word for word."""
    SHORT = "short"
    """At most two words."""
    RECORDS = "records"
    """A passage of the answer consists of lines ``name: value``."""
    PROSE = "prose"
    """No passage does."""


@dataclass(frozen=True, slots=True)
class AuditError:
    """One error: a claim that was called unsupported and is not, or marked text that was not called.

    Attributes:
        answer: the judged answer.
        chars: the claim, or the marked range; the whole answer where people judged it as a whole.
        spans: the evidence of the claim, or of every span that reaches into the marked range.
        kinds: what is in its text.
    """

    answer: JudgedAnswer
    chars: CharRange
    spans: tuple[SpanEvidence, ...]
    kinds: frozenset[ErrorKind]


def false_alarms(answer: JudgedAnswer, found: Sequence[SpanEvidence]) -> Iterator[AuditError]:
    """The claims that the audit calls unsupported and people did not mark."""
    claims = judged_parts(answer, found).claims
    supported = {part.chars for part in claims if not _is_unsupported(part.is_marked, answer)}
    for span in found:
        if span.is_claim and span.support is Support.UNSUPPORTED and span.chars in supported:
            yield AuditError(answer, span.chars, (span,), _kinds(answer, span.chars, (span,)))


def _is_unsupported(mark: bool | None, answer: JudgedAnswer) -> bool:
    return not answer.is_supported if mark is None else mark


def misses(answer: JudgedAnswer, found: Sequence[SpanEvidence]) -> Iterator[AuditError]:
    """The marked ranges of which less than half of the visible characters are called unsupported.

    Where people judged the answer as a whole, it is missed if it is unsupported and nothing in it is called so.
    """
    text = answer.record.answer
    called = visible((span.chars for span in found if span.support is Support.UNSUPPORTED), text)
    if answer.unsupported is None:
        missed = [CharRange(0, len(text))] if not (answer.is_supported or called) else []
    else:
        missed = [one.chars for one in answer.unsupported if _is_missed(visible([one.chars], text), called)]
    for chars in missed:
        spans = tuple(span for span in found if span.chars.overlaps(chars))
        yield AuditError(answer, chars, spans, _kinds(answer, chars, ()))


def _is_missed(own: frozenset[int], called: frozenset[int]) -> bool:
    return 2 * len(own & called) < len(own)


_NEGATION = re.compile(
    r"\b(?:no|not|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|\w+n['’]t)\b", re.IGNORECASE
)
_DIGIT = re.compile(r"\d")
_RECORD_LINE = re.compile(r"[^\s:][^:\n]{0,60}: ?\S")
_SHORTEST_CLAIM = 3


def _kinds(answer: JudgedAnswer, chars: CharRange, spans: Sequence[SpanEvidence]) -> frozenset[ErrorKind]:
    text, passages = chars.of(answer.record.answer), answer.record.passages
    beginnings = _beginnings(passages)
    decided = {
        ErrorKind.VALUES: bool(_DIGIT.search(text)) or any(span.unmatched_values for span in spans),
        ErrorKind.UNSEEN_WORDS: any(is_unseen(word.of(text), beginnings) for word in content_words(text)),
        ErrorKind.NEGATION: bool(_NEGATION.search(text)),
        ErrorKind.DISCOURSE: any(True for _ in _discourse(text)),
        ErrorKind.LITERAL: bool(_literal(passages).literal_passages(text)),
        ErrorKind.SHORT: len(text.split()) < _SHORTEST_CLAIM,
        ErrorKind.RECORDS: any(_is_record(passage) for passage in passages),
        ErrorKind.PROSE: not any(_is_record(passage) for passage in passages),
    }
    return frozenset(kind for kind, applies in decided.items() if applies)


def _discourse(text: str) -> Iterable[tuple[int, int]]:
    yield from discourse_phrases.openings(text)
    yield from discourse_phrases.leads(text)
    yield from discourse_phrases.announcements(text)
    yield from refusals(text)


def _is_record(passage: Passage) -> bool:
    lines = [line for line in passage.text.splitlines() if line.strip()]
    return len(lines) > 1 and 2 * sum(bool(_RECORD_LINE.match(line)) for line in lines) > len(lines)


@lru_cache(maxsize=8)
def _beginnings(passages: tuple[Passage, ...]) -> frozenset[str]:
    return word_beginnings(passages)


@lru_cache(maxsize=8)
def _literal(passages: tuple[Passage, ...]) -> LiteralIndex:
    return LiteralIndex(passages)

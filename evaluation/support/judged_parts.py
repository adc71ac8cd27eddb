"""What people marked in an answer, as the scorers are compared by it: characters, sentences and claims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attribeam.attribution.answers.text_sentences import whole_sentences
from attribeam.schemas import CharRange, SpanEvidence, Support
from attribeam.schemas.labelled_answer import JudgedAnswer


def visible(ranges: Iterable[CharRange], text: str) -> frozenset[int]:
    """The places of the ranges' characters in the text, without white space."""
    return frozenset(
        place for one in ranges for place in range(one.char_start, one.char_end) if not text[place].isspace()
    )


def called_places(found: Sequence[SpanEvidence], text: str, levels: frozenset[Support]) -> frozenset[int]:
    """The places of the characters that evidence calls one of the ``levels``, such as unsupported.

    A span that names the words that lack support calls those; another one calls all its characters. A mention leaves
    it to its claim.
    """
    counted = (span for span in found if span.support in levels and span.is_counted)
    return visible((chars for span in counted for chars in span.unsupported_words or (span.chars,)), text)


def named_places(found: Sequence[SpanEvidence], text: str) -> frozenset[int]:
    """The places of the characters of all words that evidence names, in unsupported and in weak claims."""
    return visible((chars for span in found for chars in span.unsupported_words), text)


@dataclass(frozen=True, slots=True)
class JudgedPart:
    """A sentence or claim, and whether people marked it; None where they judged only the whole answer."""

    chars: CharRange
    is_marked: bool | None


@dataclass(frozen=True, slots=True)
class JudgedParts:
    """One answer, cut into the parts that people judged.

    Attributes:
        answer: the answer and its labels.
        is_marked: whether people found anything unsupported.
        characters: places of the visible characters that people looked at, ascending.
        marked: those of them that they marked; None where they judged only the whole answer.
        sentences: its sentences, found without a parser.
        claims: its claims as the audit found them; empty without an audit.
        evidence: all evidence of the audit; empty without an audit.
    """

    answer: JudgedAnswer
    is_marked: bool
    characters: tuple[int, ...]
    marked: frozenset[int] | None
    sentences: tuple[JudgedPart, ...]
    claims: tuple[JudgedPart, ...]
    evidence: tuple[SpanEvidence, ...]


def judged_parts(answer: JudgedAnswer, found: Sequence[SpanEvidence]) -> JudgedParts:
    """The parts of an answer, of which ``found`` is the audit's evidence, empty without one.

    A part is marked if at least half of its visible characters are, or at least half of those of one marked range.
    Parts that people did not look at are left out.
    """
    text = answer.record.answer
    whole = (CharRange(0, len(text)),)
    seen = visible(answer.judged or whole, text)
    claims = [span.chars for span in found if span.is_claim]
    return JudgedParts(
        answer=answer,
        is_marked=not answer.is_supported,
        characters=tuple(sorted(seen)),
        marked=None if answer.unsupported is None else visible((one.chars for one in answer.unsupported), text) & seen,
        sentences=tuple(_parts(answer, whole_sentences(text), seen)),
        claims=tuple(_parts(answer, claims, seen)),
        evidence=tuple(found),
    )


def _parts(answer: JudgedAnswer, ranges: Iterable[CharRange], seen: frozenset[int]) -> Iterable[JudgedPart]:
    text = answer.record.answer
    marks = None if answer.unsupported is None else [visible([one.chars], text) & seen for one in answer.unsupported]
    for chars in ranges:
        own = visible([chars], text) & seen
        if own:
            yield JudgedPart(chars, None if marks is None else _is_marked(own, marks))


def _is_marked(own: frozenset[int], marks: Sequence[frozenset[int]]) -> bool:
    common = [own & mark for mark in marks]
    if 2 * len(frozenset().union(*common)) >= len(own):
        return True
    return any(part and 2 * len(part) >= len(mark) for part, mark in zip(common, marks, strict=True))

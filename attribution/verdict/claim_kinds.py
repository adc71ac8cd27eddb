"""What each word of an answer is: part of a claim, or of a heading, a refusal, another language and the like."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attribeam.attribution.answers.citation_pointers import reference_ranges
from attribeam.attribution.answers.markup import (
    fenced_code,
    formula_ranges,
    hide_markup,
    hide_ranges,
    inline_code,
    range_overlapping,
    replace_ranges,
)
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_bounds
from attribeam.attribution.answers.structured_text import structured_text
from attribeam.attribution.answers.target_spans import label_words, words_range
from attribeam.attribution.verdict import discourse_phrases as phrases
from attribeam.attribution.verdict.discourse_phrases import Span
from attribeam.attribution.verdict.language import unread_ranges
from attribeam.attribution.verdict.refusal_phrases import is_bare_refusal, refusals
from attribeam.schemas import CharRange, ClaimKind, QARecord


@dataclass(frozen=True, slots=True)
class WordKinds:
    """The kind of each word of an answer, and the ranges in which the answer refuses, ascending."""

    kinds: tuple[ClaimKind, ...]
    refused: tuple[CharRange, ...]


def word_kinds(parsed: ParsedAnswer, record: QARecord, *, assume_language: bool = False) -> WordKinds:
    """Decide what each word of the record's answer is.

    With ``assume_language``, everything counts as a language that is read.
    """
    answer = record.answer
    kinds = [ClaimKind.CLAIM] * len(parsed.words)
    refused: list[CharRange] = []
    text, unmarked = hide_markup(answer, parsed.marked), hide_ranges(answer, parsed.marked)
    cited = _with_plain_marks(answer, parsed.marked)
    if parsed.words and is_bare_refusal(text):
        return WordKinds((ClaimKind.REFUSAL,) * len(kinds), (words_range(parsed, range(len(kinds))),))
    headings = _heading_lines(unmarked)
    nesting = [CharRange(*match.span()) for match in _NESTING_ITEM.finditer(unmarked)]
    for start, end in sentence_bounds(parsed):
        chars = CharRange(parsed.words[start].char_start, parsed.words[end - 1].char_end)
        for found, kind in _sentence_regions(parsed, range(start, end), chars.of(text), chars.of(cited)):
            region = CharRange(chars.char_start + found[0], chars.char_start + found[1])
            _mark(parsed, range(start, end), region, kind, kinds)
            if kind == ClaimKind.REFUSAL:
                refused.append(region)
        is_item = range_overlapping(chars, nesting) and not _has_verb(parsed, range(start, end))
        if is_item or range_overlapping(chars, headings):
            kinds[start:end] = [ClaimKind.HEADING] * (end - start)
    everything = range(len(parsed.words))
    structure = structured_text(answer)
    for part, kind in zip(structure.parts, structure.kinds, strict=True):
        if kind is not ClaimKind.CLAIM:
            _mark(parsed, everything, part, kind, kinds)
    for label in label_words(parsed, answer):
        kinds[label.start : label.stop] = [ClaimKind.HEADING] * len(label)
    for kind, ranges in (
        (ClaimKind.DISCOURSE, reference_ranges(answer)),
        (ClaimKind.LANGUAGE, () if assume_language else unread_ranges(parsed, record)),
        (ClaimKind.CODE, _code(parsed, answer)),
    ):
        for region in ranges:
            _mark(parsed, everything, region, kind, kinds, over_claims_only=kind == ClaimKind.DISCOURSE)
    return WordKinds(tuple(kinds), tuple(refused))


def _with_plain_marks(answer: str, marks: Sequence[CharRange]) -> str:
    """The answer with each mark of three code points or more written as "[1]", and blanks to its end."""
    long = [mark for mark in marks if mark.char_end - mark.char_start > 2]
    return replace_ranges(answer, long, ["[1]".ljust(mark.char_end - mark.char_start) for mark in long])


def _sentence_regions(
    parsed: ParsedAnswer, words: range, sentence: str, written: str
) -> Iterator[tuple[Span, ClaimKind]]:
    """Regions of one sentence, the weightiest kind last. ``written`` is the sentence with its markup.

    Its citation marks are written as numbers there.
    """
    if written != sentence:
        yield from ((found, ClaimKind.DISCOURSE) for found in phrases.leads(written))
    yield from ((found, ClaimKind.DISCOURSE) for found in phrases.leads(sentence))
    yield from ((found, ClaimKind.DISCOURSE) for found in phrases.openings(sentence))
    yield from ((found, ClaimKind.DISCOURSE) for found in phrases.announcements(sentence))
    label = phrases.label(sentence)
    if label is not None:
        yield label, ClaimKind.HEADING
    yield from ((found, ClaimKind.REFUSAL) for found in refusals(sentence))
    whole = (0, len(sentence))
    courtesy = phrases.offer(sentence)
    if courtesy is not None:
        yield courtesy, ClaimKind.OFFER
    elif phrases.is_question(sentence) and not any(phrases.announcements(sentence)):
        yield whole, ClaimKind.QUESTION
    elif phrases.introduces_list(sentence, has_verb=_has_verb(parsed, words) and not _lacks_complement(parsed, words)):
        yield whole, ClaimKind.HEADING


def _has_verb(parsed: ParsedAnswer, words: range) -> bool:
    return any(parsed.universal_tags[word] in ("VERB", "AUX") for word in words)


def _lacks_complement(parsed: ParsedAnswer, words: range) -> bool:
    """Whether the words before the closing mark end with a verb or preposition: "Renting offers:"."""
    return [parsed.universal_tags[word] for word in words][-2:-1] in (["VERB"], ["ADP"])


def _mark(
    parsed: ParsedAnswer,
    within: range,
    region: CharRange,
    kind: ClaimKind,
    kinds: list[ClaimKind],
    *,
    over_claims_only: bool = False,
) -> None:
    """Give the words that begin in the region this kind."""
    first = bisect_left(parsed.words, region.char_start, lo=within.start, hi=within.stop, key=_start)
    for word in range(first, within.stop):
        if parsed.words[word].char_start >= region.char_end:
            return
        if not over_claims_only or kinds[word] == ClaimKind.CLAIM:
            kinds[word] = kind


def _start(chars: CharRange) -> int:
    return chars.char_start


_HEADING_LINE = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+\S.*|(?:[^\w\s*_#|>-]{1,4}[ \t]*)?(\*\*|__)[^*\n]{1,80}\1:?[ \t]*"
    r"|(?P<indent>[ \t]*)(?:[-*+•‣▪]|\d{1,2}[.)])[ \t]+(\*\*|__)[^*\n]{1,80}\3:?[ \t]*"
    r"(?=\n+(?:(?P=indent)[ \t]{2,}\S|[ \t]*[^\W\d_])))$",
    re.MULTILINE,
)


_NESTING_ITEM = re.compile(
    r"^(?P<indent>[ \t]*)(?:[-*+•‣▪]|\d{1,2}[.)])[ \t]+[^\n.!?:]{1,60}:?[ \t]*"
    r"(?=\n+(?P=indent)[ \t]+(?:[-*+•‣▪]|\d{1,2}[.)]|[a-z]\))[ \t])",
    re.MULTILINE,
)
"""An item of a list with an inner list below it, of which it is the heading where it has no verb."""


def _heading_lines(answer: str) -> tuple[CharRange, ...]:
    """Markdown headings and lines in bold alone that have text behind them, outside fenced code.

    A list item in bold alone is one only where text or an inner list stands below it: else it may be what is listed.
    """
    fences = fenced_code(answer)
    lines = (CharRange(*match.span()) for match in _HEADING_LINE.finditer(answer))
    return tuple(one for one in lines if answer[one.char_end :].strip() and range_overlapping(one, fences) is None)


def _code(parsed: ParsedAnswer, answer: str) -> Iterator[CharRange]:
    """Fenced code, formulas and sentences of inline code alone; other inline code names something in a claim."""
    yield from fenced_code(answer)
    yield from formula_ranges(answer)
    inline = inline_code(answer)
    for start, end in sentence_bounds(parsed) if inline else ():
        words = [word for word in parsed.words[start:end] if any(map(str.isalnum, word.of(answer)))]
        if words and all(range_overlapping(word, inline) for word in words):
            yield CharRange(words[0].char_start, words[-1].char_end)

"""How answers name their sources in words ("the given passages", "passage 3"), and which passage they mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from attribeam.schemas import CharRange

_NOUN = (
    r"(?:passages?|documents?|sources?|excerpts?|snippets?|paragraphs?|references?|contexts?|texts?|search results?)"
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL = rf"(?:{'|'.join(_ORDINALS)}|last|\d{{1,2}}(?:st|nd|rd|th))"
_GIVEN = r"(?:given|provided|supplied|retrieved|available|above|following|mentioned|cited|listed|relevant|input)"
_COUNT = r"(?:one|two|three|four|five|several|other|remaining|same|different|multiple|various|many|most|some|only|\d)"
_DETERMINER = (
    r"(?:the|this|these|those|that|its|their|his|her|all(?:\s+of)?(?:\s+the)?|any(?:\s+of\s+the)?|each|both(?:\s+of)?(?:\s+the)?|either"
    r"|no|neither|none\s+of\s+(?:the|these)|some(?:\s+of\s+the)?|your|our|another|one(?:\s+of\s+the)?)"
)
_LIST = r"(?:(?:\s*(?:,|;|&|/|-|–|to|and|or)\s*){1,2}#?\s?\d{1,3}(?!\d))"
_NUMBERED = rf"{_NOUN}\s*(?:(?:no\.?|number|\#)\s*)?[\[(]?\d{{1,3}}[\])]?(?!\d|[.,]\d|%){_LIST}*"
_SOURCE_NOUN = (
    r"(?:(?:(?:help|support|knowledge)[\s-](?:cent(?:er|re)|base)\s+)?articles?|story|information|data|content|material"
    r"|structured\s+data|JSON|instructions|author|records?|(?:\w+\s+)?documentation|knowledge\s+base)"
)
_PROVIDED_NOUN = (
    rf"(?:\w+\s+)?(?:{_NOUN}|{_SOURCE_NOUN}|details|facts|materials|leaflets?|manuals?|guides?|pages?|polic(?:y|ies)"
    r"|transcripts?|notes)"
)
_IS = r"(?:is|are|was|were|have\s+been|has\s+been)"
_BEHIND = rf"(?:\s+(?:(?:that\s+)?{_IS}\s+)?(?:provided|given|supplied|above|below|available)\b)?"

SOURCE = (
    rf"(?:(?:(?:the|this|in)\s+)?{_NUMBERED}"
    rf"|(?:{_DETERMINER}\s+)?(?:{_COUNT}\s+)*+(?:{_ORDINAL}\s+|{_GIVEN}\s+)*+(?:{_COUNT}\s+)*+{_NOUN}{_BEHIND}"
    rf"|(?:{_DETERMINER}\s+)?{_GIVEN}\s+{_PROVIDED_NOUN}{_BEHIND}"
    rf"|{_DETERMINER}\s+{_SOURCE_NOUN}{_BEHIND})(?:\s+in\s+JSON\s+format)?(?!\w)"
)
"""A noun phrase that names the sources of an answer; for ``re.IGNORECASE``."""

_REFERENCE = re.compile(rf"(?<!\w)(?:the\s+)?(?:{_NUMBERED}|(?P<ordinal>{_ORDINAL})\s+{_NOUN}(?!\w))", re.IGNORECASE)
_NUMBERS = re.compile(r"(\d{1,3})(?:\s*[–-]\s*(\d{1,3}))?")
_MOST_IN_A_RANGE = 100


@dataclass(frozen=True, slots=True)
class PassageReference:
    """Words of an answer that name one passage by its number; ``passage_index`` counts from 0."""

    chars: CharRange
    passage_index: int


def passage_references(answer: str, passage_count: int) -> tuple[PassageReference, ...]:
    """Every passage that the answer names by number, ascending; answers count from 1.

    A phrase that names several ("passages 1 and 3") gives one reference for each, with the same characters.
    Numbers without a passage are left out.
    """
    return tuple(
        PassageReference(CharRange(*match.span()), number - 1)
        for match in _REFERENCE.finditer(answer)
        for number in _numbers(match, passage_count)
        if 1 <= number <= passage_count
    )


def reference_ranges(answer: str) -> tuple[CharRange, ...]:
    """The words that name passages by number, whether or not there are such passages; ascending and disjoint."""
    return tuple(CharRange(*match.span()) for match in _REFERENCE.finditer(answer))


def _numbers(match: re.Match[str], passage_count: int) -> Iterator[int]:
    ordinal = (match["ordinal"] or "").lower()
    if ordinal == "last":
        yield passage_count
    elif ordinal in _ORDINALS:
        yield _ORDINALS.index(ordinal) + 1
    else:
        for first, last in _NUMBERS.findall(match.group()):
            start, end = int(first), int(last or first)
            yield from range(start, min(end, start + _MOST_IN_A_RANGE) + 1)

"""Numbers of an answer that no passage needs to repeat, because they say something about the answer itself."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from attribeam.attribution.answers.numbers_and_dates import worded_amount, worded_numbers
from attribeam.attribution.answers.passage_references import reference_ranges
from attribeam.schemas import CharRange

_PLACES = re.compile(
    r"\b(?:steps?|methods?|options?)\s+(?:#\s?|no\.?\s)?\d{1,2}(?:\s*(?:,|and|&|[-–]|to|or|through)\s*\d{1,2})*\b"
    r"|\b(?:in|within|under|of|to|about|approximately|exactly)\s+\d+\s+words?\b"
    r"|\bout\s+of\s+(?:5|10|100)\b(?!\s*%)"
    r"|\b(?:the|these|all)\s+(?:\d|two|three|four|five|six|seven|eight|nine|ten)\s+(?:given\s|provided\s)?passages\b",
    re.IGNORECASE,
)
"""Steps by their number, the length of a summary, the top of a scale, the number of passages."""

_ITEM_LINE = re.compile(r"^[ \t]*(?:[-*+•‣▪]|\(?\w{1,2}[.)])[ \t]+\S", re.MULTILINE)
_ITEM_SEPARATOR = re.compile(r",\s+(?:and|or)\s+|\s+(?:and|or)\s+|,\s+|;\s+(?:and\s+)?")
_LIST_OPENING = re.compile(r"\s(?:are|were|include[sd]?|including|namely|such\s+as|called)\b:?\s+|:\s+")
_APPOSITION = re.compile(r"[\s-]+(?:[^\s,]+\s+){0,3}[^\s,]+(?:,|\s[-–—])\s+")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n\s*\n|$")
_COUNT = re.compile(r"(?<![\w.,$€£-])\d{1,2}(?![\w%°]|[.,:]\d)")
_MOST_COUNTED = 20
_LONGEST_SENTENCE = 500
_WORD_BEHIND = re.compile(r"[\s-]+[^\W\d]")
_COUNTED_ITEMS = re.compile(r"[\s-]+(?:\w+\s+)?(?:steps|ways|tips|methods|points|reasons|items)\b", re.IGNORECASE)


def own_number_ranges(answer: str, text: str) -> Iterator[CharRange]:
    """Where such numbers stand; ``text`` is the answer without its markup.

    These are references to passages ("passage 3", "the three passages"), numbers of steps, the length of a summary ("in
    200 words"), the top of a scale ("out of 5"), and counts of what the answer lists itself ("the two countries are A
    and B").
    """
    yield from reference_ranges(answer)
    yield from (CharRange(*match.span()) for match in _PLACES.finditer(text))
    item_lines = [match.start() for match in _ITEM_LINE.finditer(answer)]
    for match in (*_COUNT.finditer(text), *worded_numbers(text)):
        if _counts_own_list(match, text, item_lines):
            yield CharRange(*match.span())


def _counts_own_list(number: re.Match[str], text: str, item_lines: Sequence[int]) -> bool:
    """True where as many items follow in the sentence, or in the lines below a sentence that ends with a colon."""
    count = int(number.group()) if number.group().isdigit() else int(worded_amount(number.group()))
    if not 2 <= count <= _MOST_COUNTED:
        return False
    reach = min(number.end() + _LONGEST_SENTENCE, len(text))
    end = _SENTENCE_END.search(text, number.end(), reach)
    rest = text[number.end() : end.start() if end else reach]
    if _WORD_BEHIND.match(rest) is None:
        return False
    if rest.rstrip().endswith(":") and len(item_lines) - bisect_left(item_lines, number.end()) >= count:
        return True
    if _COUNTED_ITEMS.match(rest) and len(item_lines) >= count:
        return True
    openings = [match.end() for match in _LIST_OPENING.finditer(rest)]
    apposition = None if number.group().isdigit() else _APPOSITION.match(rest)
    if apposition:
        openings.append(apposition.end())
    return any(len(_ITEM_SEPARATOR.split(rest[start:].strip(" ,"))) == count for start in openings)

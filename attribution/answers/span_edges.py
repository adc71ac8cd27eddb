"""Which words carry content, and which may not stand at a span's edge."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from attribution.answers.parsed_answer import ParsedAnswer
from schemas import CharRange

_FUNCTION_TAGS = frozenset({"ADP", "AUX", "CCONJ", "CONJ", "DET", "PART", "PRON", "PUNCT", "SCONJ", "SPACE"})
_JOINING_LABELS = frozenset({"cc", "mark"})
_PICTURE_CATEGORIES = frozenset({"So", "Sk", "Cf", "Mn", "Me"})
_SIGNS = frozenset("°©®№℃℉")
_CLOSED_BY = {")": "(", "]": "[", "}": "{", "»": "«", "”": "“"}


def is_content_word(parsed: ParsedAnswer, word: int, answer: str) -> bool:
    """True for a word with a letter or digit that is no function word; any tag unknown here is content."""
    return parsed.universal_tags[word] not in _FUNCTION_TAGS and has_letter_or_digit(parsed.words[word].of(answer))


def has_letter_or_digit(text: str) -> bool:
    """True where some code point is a letter or digit of any script."""
    return any(character.isalnum() for character in text)


def trimmed_words(parsed: ParsedAnswer, words: Sequence[int], answer: str) -> range:
    """From the first to the last of ascending words, without marks and joining words at the edges; may be empty.

    A closing bracket after the last one is taken along where its opening one is in the span.
    """
    first, end = 0, len(words)
    while first < end and _is_edge_word(parsed, words[first], answer):
        first += 1
    while first < end and _is_edge_word(parsed, words[end - 1], answer):
        end -= 1
    if first == end:
        return range(0)
    closed = end < len(words) and words[end] == words[end - 1] + 1 and _closes(parsed, words[first], words[end], answer)
    return range(words[first], words[end if closed else end - 1] + 1)


def words_range(parsed: ParsedAnswer, words: range) -> CharRange:
    """From the first to the last of a non-empty run of words."""
    return CharRange(parsed.words[words[0]].char_start, parsed.words[words[-1]].char_end)


def _is_mark(parsed: ParsedAnswer, word: int, answer: str) -> bool:
    """True for punctuation, and for emoji and the like whatever their tag."""
    form = parsed.words[word].of(answer)
    categories = {unicodedata.category(character) for character in form}
    if categories & _PICTURE_CATEGORIES and categories <= _PICTURE_CATEGORIES | {"Po"} and form not in _SIGNS:
        return True
    tagged = parsed.universal_tags[word] == "PUNCT" or parsed.dependency_labels[word].startswith("punct")
    return tagged and not has_letter_or_digit(form)


def _is_edge_word(parsed: ParsedAnswer, word: int, answer: str) -> bool:
    return _is_mark(parsed, word, answer) or _is_joining(parsed, word)


def _is_joining(parsed: ParsedAnswer, word: int) -> bool:
    label = parsed.dependency_labels[word].partition(":")[0]
    return label in _JOINING_LABELS and parsed.universal_tags[word] in _FUNCTION_TAGS


def _closes(parsed: ParsedAnswer, first: int, word: int, answer: str) -> bool:
    closing = parsed.words[word].of(answer)
    before = answer[parsed.words[first].char_start : parsed.words[word].char_start]
    return closing in _CLOSED_BY and before.count(_CLOSED_BY[closing]) > before.count(closing)

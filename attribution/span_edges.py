"""Which words carry content, and which may not stand at a span's edge."""

from __future__ import annotations

from attribution.parsed_answer import ParsedAnswer
from schemas import CharRange

_FUNCTION_TAGS = frozenset({"ADP", "AUX", "CCONJ", "CONJ", "DET", "PART", "PRON", "PUNCT", "SCONJ", "SPACE"})
_JOINING_LABELS = frozenset({"cc", "mark"})
_CLOSED_BY = {")": "(", "]": "[", "}": "{", "»": "«", "”": "“"}


def is_content_word(parsed: ParsedAnswer, word: int, answer: str) -> bool:
    """True for a word with a letter or digit that is no function word; any tag unknown here is content."""
    return parsed.universal_tags[word] not in _FUNCTION_TAGS and has_letter_or_digit(parsed.words[word].of(answer))


def has_letter_or_digit(text: str) -> bool:
    """True where some code point is a letter or digit of any script."""
    return any(character.isalnum() for character in text)


def trimmed_words(parsed: ParsedAnswer, first: int, end: int, answer: str) -> range:
    """The words ``[first, end)`` without marks and joining words at the edges; empty where nothing else is there.

    A closing bracket at the end stays where its opening one is in the span.
    """
    while first < end and (_is_mark(parsed, first, answer) or _is_joining(parsed, first)):
        first += 1
    while first < end and (_is_mark(parsed, end - 1, answer) or _is_joining(parsed, end - 1)):
        if _closes(parsed, first, end - 1, answer):
            break
        end -= 1
    return range(first, end)


def words_range(parsed: ParsedAnswer, words: range) -> CharRange:
    """From the first to the last of a non-empty run of words."""
    return CharRange(parsed.words[words[0]].char_start, parsed.words[words[-1]].char_end)


def _is_mark(parsed: ParsedAnswer, word: int, answer: str) -> bool:
    tagged = parsed.universal_tags[word] == "PUNCT" or parsed.dependency_labels[word].startswith("punct")
    return tagged and not has_letter_or_digit(parsed.words[word].of(answer))


def _is_joining(parsed: ParsedAnswer, word: int) -> bool:
    label = parsed.dependency_labels[word].partition(":")[0]
    return label in _JOINING_LABELS and parsed.universal_tags[word] in _FUNCTION_TAGS


def _closes(parsed: ParsedAnswer, first: int, word: int, answer: str) -> bool:
    closing = parsed.words[word].of(answer)
    before = answer[parsed.words[first].char_start : parsed.words[word].char_start]
    return closing in _CLOSED_BY and before.count(_CLOSED_BY[closing]) > before.count(closing)

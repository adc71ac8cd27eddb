"""Patterns of English phrases, written so that they can be read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

Span = tuple[int, int]


def phrase_pattern(*alternatives: str) -> re.Pattern[str]:
    """One pattern for all alternatives, in any case.

    A blank stands for any white space, an apostrophe also for the curly one; so character classes should have neither.
    """
    joined = "|".join(f"(?:{one})" for one in alternatives)
    return re.compile(joined.replace(" ", r"\s+").replace("'", "['’]"), re.IGNORECASE)


def any_of(*words: str) -> str:
    """A group that matches one of the words, each of which may be a pattern."""
    return f"(?:{'|'.join(words)})"


def words_of(text: str) -> str:
    """A group that matches one of the words of a text."""
    return any_of(*text.split())


def spans_of(pattern: re.Pattern[str], sentence: str) -> Iterator[Span]:
    """Where the pattern matches, ascending."""
    return (match.span() for match in pattern.finditer(sentence))


def first_at_or_after(borders: Iterable[int], place: int, *, otherwise: int) -> int:
    """The first of ascending borders that lies at ``place`` or behind it."""
    return next((border for border in borders if border >= place), otherwise)

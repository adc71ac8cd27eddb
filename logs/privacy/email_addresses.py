"""Finds e-mail addresses, also where the at sign is written as in a URL, in HTML or in a JSON text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import regex

from attribeam.logs.privacy.digit_groups import INVISIBLE
from attribeam.schemas import CharRange

_AT = re.compile(r"[@＠﹫]|%40|\\u0040|&#0*64;|&#x0*40;|&commat;", re.IGNORECASE)
_NAME_MARKS = frozenset(".!#$%'*+^`{|}~-" + INVISIBLE)
_HOST = regex.compile(rf"[\w\-{INVISIBLE}]+(?:[.．][\w\-{INVISIBLE}]+)+|\[[\d.:A-Fa-f]{{3,45}}\]")
_TOP_LEVEL = regex.compile(r"\p{L}[\p{L}\p{M}]+|xn--[a-z0-9-]+", regex.IGNORECASE)
_IP = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_LONGEST_QUOTED = 64


def email_addresses(text: str) -> Iterator[CharRange]:
    """The addresses of a text in order; takes time in proportion to its length."""
    earliest = 0
    for at in _AT.finditer(text):
        start = _name_start(text, at.start(), earliest)
        end = _host_end(text, at.end())
        if start < at.start() and end > at.end():
            yield CharRange(start, end)
        earliest = at.end()


def _name_start(text: str, end: int, earliest: int) -> int:
    """Where the name before an at sign starts; ``end`` if there is none."""
    if end > earliest and text[end - 1] == '"':
        opening = text.rfind('"', max(earliest, end - 2 - _LONGEST_QUOTED), end - 1)
        return end if opening < 0 or "\n" in text[opening:end] else opening
    start = end
    while start > earliest and _is_of_name(text[start - 1]):
        start -= 1
    while start < end and text[start] in _NAME_MARKS:
        start += 1
    return start


def _is_of_name(mark: str) -> bool:
    """A letter with its accents, a digit, or a mark that names have; none that delimits parts of a URL."""
    return unicodedata.category(mark)[0] in "LNM" or mark in _NAME_MARKS or mark == "_"


def _host_end(text: str, start: int) -> int:
    """Where the host behind an at sign ends; ``start`` if there is none."""
    found = _HOST.match(text, start)
    if found is None:
        return start
    if found.group().startswith("["):
        return start + len(found.group())
    labels = re.split(r"([.．])", found.group().rstrip(f"-_{INVISIBLE}"))
    for count in range(len(labels), 2, -2):
        host = "".join(labels[:count])
        if _TOP_LEVEL.match(labels[count - 1].lstrip(INVISIBLE)) or _IP.fullmatch(host):
            return start + len(host)
    return start

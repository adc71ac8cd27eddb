"""Finds e-mail addresses, bank accounts, card numbers and phone numbers in a text.

Check digits and lengths are those of python-stdnum, numbering plans those of phonenumbers. Patterns only say where to
look.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

import regex
from stdnum import iban, luhn

from attribeam.logs.privacy.digit_runs import Group, digit_runs, windows
from attribeam.logs.privacy.phone_numbers import phone_numbers
from attribeam.logs.privacy.plain_text import PlainText
from attribeam.schemas import CharRange

_MAY_HOLD = re.compile(r"[@＠﹫]|%40|&commat;|(?:\d\D{0,12}){6}|\\u0040|&#0*64;|&#[xX]0*40;", re.IGNORECASE)
"""What every text has in which something is found."""

_NAME = regex.compile(r"(?r)[\p{L}\p{M}\p{N}_.!#$%'*+^`{|}~-]+")
_QUOTED_NAME = regex.compile(r'(?r)"[^"\n]{1,64}"')
_NAME_START = regex.compile(r"[\p{L}\p{M}\p{N}_]")
_HOST = regex.compile(
    r"\[[\d.:a-f]{3,45}\]|\d{1,3}(?:\.\d{1,3}){3}(?![\p{L}\d])"
    r"|(?:[\p{L}\p{M}\p{N}_-]+\.)+(?:xn--[a-z\d-]+|\p{L}[\p{L}\p{M}]+)",
    regex.IGNORECASE,
)
_ACCOUNT = re.compile(r"(?<![A-Za-z0-9])(?:IBAN)?([A-Z]{2}[0-9]{2}(?:[ ._-]?\n?[A-Z0-9]){11,30})", re.IGNORECASE)
_NO_SIGN = re.compile(r"[^A-Za-z0-9]")
_BETWEEN_GROUPS = re.compile(r"_|(?<=\d{4})(?:,| ?\| ?)(?=\d{4})")
"""What tables and files have between the groups of a card number."""
_NO_SECRET = re.compile(
    r"(?<![0-9a-f])(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=[0-9]*[a-f])[0-9a-f]{32,})(?![0-9a-f])"
    r"|(?<![\d+.-])(?:(?:1[89]|2[01])\d\d([./-])(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12]\d|3[01])"
    r"|(?:0?[1-9]|[12]\d|3[01])([./-])(?:0?[1-9]|[12]\d|3[01])\2(?:1[89]|2[01])\d\d)(?![./-]?\d)"
    r"|(?<![\d+.-])97[89]-\d{1,5}-\d{1,7}-\d{1,6}-\d(?![\d-])"
    r"|(?<![\d+.,-])(?:0|[1-9]\d{0,2})(?:\.\d{4,}|,\d{4,12})(?![\d.-])",
    re.IGNORECASE,
)
_CARD = re.compile(
    r"4\d{12}(?:\d{3})?|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3(?:0[0-5]|[689]\d)\d{11}|35\d{14}"
    r"|(?:5[0678]|6\d|8[12])\d{11,17}|9792\d{12}"
)
"""Which beginnings and lengths card numbers have."""


def secret_ranges(text: str) -> Iterator[CharRange]:
    """Everything that is found, in no order; ranges may overlap."""
    if _MAY_HOLD.search(text) is None:
        return
    plain = PlainText.of(text)
    if "@" in plain.text:
        yield from (plain.in_text(*chars) for chars in _addresses(plain.text))
    accounts = list(_accounts(plain.text))
    rest = _without(plain.text, accounts)
    rest = _without(rest, (match.span() for match in _NO_SECRET.finditer(rest)))
    yield from (plain.in_text(*chars) for chars in chain(accounts, _cards(rest), phone_numbers(rest)))


def _without(text: str, ranges: Iterable[tuple[int, int]]) -> str:
    """The text with the ascending ``ranges`` blotted out, so that nothing is found in them."""
    parts, last = [], 0
    for start, end in ranges:
        parts += [text[last:start], "■" * (end - start)]
        last = end
    return "".join([*parts, text[last:]]) if parts else text


def _addresses(text: str) -> Iterator[tuple[int, int]]:
    at = text.find("@")
    while at >= 0:
        host = _HOST.match(text, at + 1)
        name = _QUOTED_NAME.match(text, 0, at) or _NAME.match(text, 0, at)
        start = name and (name.start() if name.group()[0] == '"' else _first_letter(text, name.start(), at))
        if host is not None and start is not None:
            yield start, host.end()
        at = text.find("@", at + 1)


def _first_letter(text: str, start: int, end: int) -> int | None:
    found = _NAME_START.search(text, start, end)
    return None if found is None else found.start()


def _accounts(text: str) -> Iterator[tuple[int, int]]:
    for match in _ACCOUNT.finditer(text):
        written = match.group(1)
        for length in range(len(written), 14, -1):
            if written[length - 1].isalnum() and iban.is_valid(_NO_SIGN.sub("", written[:length]), check_country=False):
                yield match.start(1), match.start(1) + length
                break


def _cards(text: str) -> Iterator[tuple[int, int]]:
    text = _BETWEEN_GROUPS.sub(lambda match: " " * len(match.group()), text)
    for groups in digit_runs(text, fewest=13):
        first = 0
        while first < len(groups):
            ends = windows(text, groups, first, fewest=13, most=19)
            end = next((end for end, digits in ends if _is_card(text, groups[first:end], digits)), None)
            if end is not None:
                yield groups[first][0], groups[end - 1][1]
            first = end or first + 1


def _is_card(text: str, groups: list[Group], digits: str) -> bool:
    if not (_CARD.fullmatch(digits) and luhn.is_valid(digits)):
        return False
    lengths = [end - start for start, end in groups]
    is_usual = len(groups) <= 2 or set(lengths[:-1]) == {4} or lengths[:2] == [4, 6]
    return is_usual or "\n" not in text[groups[0][0] : groups[-1][1]]

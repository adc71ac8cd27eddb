"""Finds phone numbers by how they are written: a prefix, an area code in parentheses, a usual grouping, or a label.

No list of numbering plans is asked. Dates, book numbers, amounts and lists of years are let through; what only looks
like a phone number is found all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from attribeam.logs.privacy.digit_groups import DigitGroup, digit_runs, plain_marks, windows
from attribeam.schemas import CharRange

_MOST_DIGITS = 17
_DATE_OR_ISBN = re.compile(
    r"(?<![\d+])(?<!\d[.\-])(?:97[89]-\d{1,5}-\d{1,7}-\d{1,6}-\d|(?:1[89]|2[01])\d\d([./\-])(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12]\d|3[01])"
    r"|(?:0?[1-9]|[12]\d|3[01])([./\-])(?:0?[1-9]|[12]\d|3[01])\2(?:1[89]|2[01])\d\d)(?![.\-]?\d)"
)
_LABEL = re.compile(
    r"(?<![A-Za-zÀ-ɏΑ-ώА-я])(?:tel|tél|telephone|téléphone|telefon|telefono|teléfono|telefone|phone|mobile|mobil|cell"
    r"|handy|fax|call|dial|whatsapp|sms|тел|телефон|τηλ|هاتف|电话|電話|전화)(?![A-Za-zÀ-ɏΑ-ώА-я])"
    r"[\s:.#№]{0,3}(?:(?:no|nr|number|us|me|him|her|them|at|on|is|under)\b[\s:.#]{0,3}){0,3}[+(]{0,2}(?=\d)",
    re.IGNORECASE,
)
_GROUPINGS = frozenset({(3, 3, 4), (1, 3, 3, 4), (2, 3, 3, 4)})
"""Lengths of the groups in North America, with and without a country code."""

_LONE_GROUPINGS = frozenset({(3, 4, 4), (3, 7), (6, 4), (2, 2, 2, 2), (5, 5)})
"""Lengths that are usual elsewhere, and may as well be a row of amounts: no further number may follow."""


def phone_numbers(text: str) -> Iterator[CharRange]:
    """The phone numbers of a text in order, each with its prefix and its parentheses."""
    plain = plain_marks(text)
    others = {found.start(): found.end() for found in _DATE_OR_ISBN.finditer(plain)}
    labelled = {found.end() for found in _LABEL.finditer(plain)}
    for run in digit_runs(plain):
        place = 0
        while place < len(run):
            other_end = others.get(run[place].char_start)
            if other_end is not None:
                place = next((at for at in range(place, len(run)) if run[at].char_start >= other_end), len(run))
                continue
            end = _phone_end(plain, run, place, labelled=run[place].char_start in labelled)
            if end is not None:
                yield _with_marks(plain, run[place].char_start, run[end - 1].char_end)
            place = end or place + 1


def _phone_end(text: str, run: Sequence[DigitGroup], place: int, *, labelled: bool) -> int | None:
    """Where the longest phone number ends that starts with the group ``place`` of a run; None if there is none."""
    first = run[place]
    ends = windows(run, place, most_digits=_MOST_DIGITS)
    if text[max(0, first.char_start - 2) : first.char_start].rstrip("( ").endswith("+"):
        return next((end for end, digits in ends if 7 <= digits <= 15), None)
    if labelled:
        return next((end for end, digits in ends if 6 <= digits <= 15), None)
    if _has_area_code(text, run, place):
        return next((end for end, digits in ends if 7 <= digits <= 13 and end > place + 1), None)
    for end, digits in ends:
        if digits >= 7 and _is_unmarked_number(text, run, place, end):
            return end
    return None


def _is_unmarked_number(text: str, run: Sequence[DigitGroup], start: int, end: int) -> bool:
    """Whether the groups ``[start, end)`` of a run are a phone number without plus sign, area code and label."""
    groups = run[start:end]
    if groups[0].digits.startswith("0"):
        return _has_trunk_prefix(groups)
    if len(groups) > 1:
        return _is_grouped(run, start, end)
    before, after = groups[0].char_start, groups[0].char_end
    letters = text[max(0, before - 1) : before], text[after : after + 1]
    return _is_bare(groups[0].digits) and not any(map(_is_letter, letters))


def _has_trunk_prefix(groups: Sequence[DigitGroup]) -> bool:
    """A number that begins with 0, as within many countries, or with 00, as between countries."""
    digits = "".join(group.digits for group in groups)
    if digits.startswith("00"):
        return digits[2:3] not in ("", "0") and len(digits) >= 9 and _is_evenly_written(groups)
    lone_zero = len(groups[0].digits) == 1 and not (len(groups) > 1 and groups[1].before.endswith("("))
    return not lone_zero and 9 <= len(digits) <= 12 and _is_evenly_written(groups)


def _has_area_code(text: str, run: Sequence[DigitGroup], place: int) -> bool:
    """Whether the group stands in parentheses before another one, and is no year."""
    group = run[place]
    if text[max(0, group.char_start - 1) : group.char_start] != "(" or place + 1 == len(run):
        return False
    is_year = len(group.digits) == 4 and group.digits[:2] in ("18", "19", "20")
    return run[place + 1].before.startswith(")") and 2 <= len(group.digits) <= 5 and not is_year


def _is_grouped(run: Sequence[DigitGroup], start: int, end: int) -> bool:
    """Whether the groups ``[start, end)`` of a run are written like a phone number without a prefix."""
    groups = run[start:end]
    lengths = tuple(len(group.digits) for group in groups)
    if lengths in _GROUPINGS:
        return _is_evenly_written(groups)
    if lengths in _LONE_GROUPINGS and _is_alone(run, start, end):
        return _is_evenly_written(groups)
    hyphenated = all(group.before == "-" for group in groups[1:])
    return hyphenated and (lengths == (3, 4) or (len(groups) >= 3 and 9 <= sum(lengths) <= 15))


def _is_alone(run: Sequence[DigitGroup], start: int, end: int) -> bool:
    """Whether no other number stands beside the groups with the same mark between."""
    between = {group.before for group in run[start + 1 : end]}
    return not ((start > 0 and run[start].before in between) or (end < len(run) and run[end].before in between))


def _is_bare(digits: str) -> bool:
    """Ten digits as in North America, or eleven with the country code 1 or a mobile prefix; no Unix time."""
    return (len(digits) == 10 and digits[0] in "23456789") or (
        len(digits) == 11 and digits[0] == "1" and digits[1] in "23456789"
    )


def _is_evenly_written(groups: Sequence[DigitGroup]) -> bool:
    """Whether the same mark stands between all groups but the first two, and the digits are no fraction."""
    marks = [group.before for group in groups[1:]]
    is_fraction = marks == ["."]
    return not is_fraction and all(one == other for one, other in pairwise(marks[1:]))


def _with_marks(text: str, start: int, end: int) -> CharRange:
    """The range of the digits with a plus sign before them and the parenthesis around them."""
    opened = text[start - 1 : start] == "("
    start -= opened
    start -= text[start - 1 : start] == "+" and start > 0
    closes = text[end : end + 1] == ")" and text.count("(", start, end) > text.count(")", start, end)
    return CharRange(start, end + closes)


def _is_letter(mark: str) -> bool:
    """A letter that joins digits to a word, as in hexadecimal digests; scripts without spaces have none."""
    return mark == "_" or (mark.isascii() and mark.isalpha())

"""Finds payment card numbers: 13 to 19 digits that begin as a card's do and pass the Luhn check."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attribeam.logs.privacy.digit_groups import DigitGroup, digit_runs, plain_marks, windows
from attribeam.schemas import CharRange

_MOST_DIGITS, _FEWEST_DIGITS = 19, 13
_ISSUERS = re.compile(r"[3-6]|2[2-7]|8[12]|9792")


def card_numbers(text: str) -> Iterator[CharRange]:
    """The card numbers of a text in order, in one group or several."""
    for groups in digit_runs(plain_marks(text)):
        place = 0
        while place < len(groups):
            if not _ISSUERS.match("".join(group.digits for group in groups[place : place + 4])):
                place += 1
                continue
            ends = windows(groups, place, most_digits=_MOST_DIGITS)
            end = next((end for end, digits in ends if digits >= _FEWEST_DIGITS and _is_card(groups[place:end])), None)
            if end is not None:
                yield CharRange(groups[place].char_start, groups[end - 1].char_end)
            place = end or place + 1


def _is_card(groups: Sequence[DigitGroup]) -> bool:
    is_fraction = len(groups) == 1 and groups[0].before == "."
    written_as_one = all(group.before in ("", " ", "-", ".") for group in groups[1:])
    return written_as_one and not is_fraction and passes_luhn("".join(group.digits for group in groups))


def passes_luhn(digits: str) -> bool:
    """The check that every card number passes: every second digit from the right counts double."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if place % 2 else 1)
        total += doubled // 10 + doubled % 10
    return total % 10 == 0

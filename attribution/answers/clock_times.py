"""Times of day in running text and in records: "5 PM", "17:00", "11:0-17:0", "4-7 p.m.", "noon"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HALF_DAY = 720
_DAY = 1440
_MERIDIEM = r"(?P<half>[ap])(?:\.\s?m\.|\.?m\b)"
_TIME = re.compile(
    rf"(?<![\w.,:$€£])(?P<hour>\d{{1,2}})(?::(?P<minute>\d{{1,2}})|\.(?P<dotted>\d{{2}}))?\s?{_MERIDIEM}"
    r"|(?<![\w.,:$€£])(?P<plain_hour>\d{1,2}):(?P<plain_minute>\d{1,2})(?![\w:]|[.,]\d)"
    r"|(?<![\w.,:$€£])(?P<first>\d{1,2})(?::(?P<first_minute>\d{2}))?(?=\s?(?:-|–|—|to|until|till|and)\s?"
    r"\d{1,2}(?::\d{2})?\s?[ap]\.?\s?m\b)"
    r"|\b(?P<word>noon|midday|midnight)\b",
    re.IGNORECASE,
)
_DOTTED_TIME = re.compile(
    r"\b(?:at|from|until|till|by)\s(\d{1,2})\.(\d{2})"
    r"(?=\s?(?:$|[;)\n]|[.,](?!\d)|(?:on|and|to|until|till|every|daily|h)\b))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of day from ``start`` to ``end`` of a text, and the minutes after midnight that it may mean."""

    start: int
    end: int
    minutes: frozenset[int]


def clock_times_in(text: str) -> Iterator[ClockTime]:
    """The times of day in a text, ascending.

    "5 PM" and "17:00" are one time each; "5:30", and the "4" of "4-7 p.m.", may lie before or after noon. A minute of
    one digit, as in "11:0", is only written by machines, which count 24 hours.
    """
    for match in _TIME.finditer(text):
        minutes = frozenset(_minutes(match))
        if minutes:
            yield ClockTime(*match.span(), minutes)


def dotted_minutes_in(text: str) -> Iterator[int]:
    """Minutes after midnight of what may be a time of day with a full stop: "at 18.30", with no unit behind it.

    One before noon may also lie after it: "at 6.30".
    """
    for hour, minute in _DOTTED_TIME.findall(text):
        if int(hour) < 24 and int(minute) < 60:
            at = int(hour) * 60 + int(minute)
            yield from (at, at + _HALF_DAY) if at < _HALF_DAY else (at,)


def _minutes(match: re.Match[str]) -> Iterator[int]:
    if match["word"]:
        yield 0 if match["word"].lower() == "midnight" else _HALF_DAY
        return
    hour = int(match["hour"] or match["plain_hour"] or match["first"])
    written = match["minute"] or match["dotted"] or match["plain_minute"] or match["first_minute"] or "00"
    if hour > 24 or int(written) > 59:
        return
    at = hour * 60 + int(written)
    if match["half"] and 1 <= hour <= 12:
        yield at % _HALF_DAY + (_HALF_DAY if match["half"].lower() == "p" else 0)
    else:
        yield at % _DAY
        if 1 <= hour <= 12 and len(written) > 1 and not match["half"]:
            yield (at + _HALF_DAY) % _DAY

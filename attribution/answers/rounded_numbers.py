"""Rounded numbers: how far from "about 3,000", "more than 80" or "nearly half a million" what is meant may lie."""

from __future__ import annotations

import re
from decimal import Decimal

_ABOUT = r"about|around|approximately|approx\.?|roughly|circa|some"
_OVER = r"(?:slightly |a little )?more than|upwards? of|in excess of"
_UNDER = r"nearly|almost|close to|not quite|(?:slightly |a little )?(?:less|fewer) than"
_NO_LIMIT = r"(?<!\bno )(?<!\bnot )(?<!\bnever )(?<!n't )(?<!n’t )"
_HEDGE = re.compile(
    rf"{_NO_LIMIT}\b(?:(?P<about>{_ABOUT})|(?P<over>{_OVER})|(?P<under>{_UNDER}))\s+(?:an?\s)?[$€£¥]?\s?$",
    re.IGNORECASE,
)
"""Words that round the number behind them; "over" and "under" are left out, for they often mean something else."""
_LONGEST_HEDGE = 32
_OR_SO = re.compile(r"\s(?:[^\W\d_]+\s)?or\sso\b")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_MOST_ABOUT, _MOST_OVER, _MOST_UNDER = Decimal("0.1"), Decimal("0.15"), Decimal("0.1")
"""The farthest that the meant number may lie, as a share of the rounded one."""


def rounding(text: str, start: int, end: int, amount: Decimal) -> tuple[Decimal, Decimal]:
    """How far below and above a number that stands in ``text`` the meant one may lie; zeros where nothing rounds it.

    "About" lets it differ by half of what the last digit but zeros is worth, "more than" and "nearly" by all of it, in
    their direction, and never by more than a share of the number. Years and limits ("no more than 80") are not rounded.
    """
    if _YEAR.fullmatch(text, start, end):
        return Decimal(0), Decimal(0)
    hedge = _HEDGE.search(text, max(start - _LONGEST_HEDGE, 0), start)
    kind = hedge.lastgroup if hedge else ("about" if _OR_SO.match(text, end) else None)
    if kind is None or amount <= 0:
        return Decimal(0), Decimal(0)
    step = _last_step(amount)
    if kind == "about":
        within = min(step / 2, amount * _MOST_ABOUT)
        return within, within
    if kind == "over":
        return Decimal(0), min(step, amount * _MOST_OVER)
    return min(step, amount * _MOST_UNDER), Decimal(0)


def _last_step(amount: Decimal) -> Decimal:
    """What the last digit but zeros is worth: 1,000 for 3,000, and 5 for 25, since people also round to fives."""
    digits = amount.normalize().as_tuple()
    exponent = digits.exponent if isinstance(digits.exponent, int) else 0
    step = Decimal(1).scaleb(exponent)
    return 5 * step if digits.digits[-1:] == (5,) and len(digits.digits) > 1 else step

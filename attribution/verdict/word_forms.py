"""Words in the form in which the verdict compares them: stems, and which words carry content."""

from __future__ import annotations

import re
from functools import lru_cache

from attribeam.attribution.answers.plain_text import FUNCTION_WORDS

WORD_OR_MARK = re.compile(r"(?:\d+(?:[.,]\d+)+|\d{1,2}:(?!00)\d\d)(?![^\W_])|[^\W_]+(?:['’][^\W_]+)?|[^\w\s]|_")

_STEM_LETTERS = 6
_KNOWN_WORDS = 2**15
"""How many words' forms are remembered: texts repeat their words."""
_POSSESSIVES = ("'s", "’s")
_AMOUNT = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


def word_set(text: str) -> frozenset[str]:
    """The words of a text that are separated by white space."""
    return frozenset(text.split())


NEGATIONS = word_set("not no never n't without none neither nor unable lack lacks")
_OPPOSITES = """
up down; upper lower; above below; over under; before after; earlier later; early late; first last; more less; more
fewer;  most least; higher lower; high low; increase decrease; increased decreased; increases decreases; rise fall;
rose fell; rises falls;  rising falling; raise cut; raised cut; grew shrank; gain loss; gained lost; win lose; won
lost; open closed; opens closes; opened closed;  include exclude; includes excludes; included excluded; including
excluding; allowed forbidden; allowed prohibited; permitted prohibited; with without; always never; all none; everyone
nobody; free paid; cheap expensive; cheaper dearer; cheapest dearest;  larger smaller; largest smallest; bigger
smaller; longer shorter; longest shortest; older younger; oldest youngest; old new; faster slower; fast slow; hot
cold; warm cool; warmer cooler; north south; northern southern; east west; eastern western; left right; buy sell;
bought sold; buys sells; accept reject; accepted rejected; accepts rejects; accepted refused; agree disagree; safe
dangerous; strong weak; stronger weaker; heavy light; heavier lighter; wet dry; full empty; male female; man woman;
men women; father mother; son daughter; brother sister; husband wife; begin end; began ended; begins ends; starts
ends; started ended; enter leave; arrive leave;  arrives leaves; arrived left; day night; morning evening; summer
winter; spring autumn; indoor outdoor; inside outside; import export;  imports exports; maximum minimum; same
different; possible impossible; required optional; mandatory optional; voluntary compulsory;  known unknown; likely
unlikely; legal illegal; public private; success failure; succeeded failed; passed failed; improved worsened; better
worse; best worst; positive negative; support oppose; supported opposed; supports opposes; remember forget;  remove
add; removed added; removes adds; enable disable; enabled disabled; enables disables; lend borrow; sunrise sunset
"""


def _both_ways(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pair in text.split(";"):
        one, two = pair.split()
        found.setdefault(one, set()).add(two)
        found.setdefault(two, set()).add(one)
    return {word: frozenset(others) for word, others in found.items()}


OPPOSITES = _both_ways(_OPPOSITES)
"""Words of opposite meaning, each with its opposites."""
MODALS = word_set("can could may might should must will would")


@lru_cache(maxsize=_KNOWN_WORDS)
def stem(word: str) -> str:
    """The first six letters in lower case, without a possessive ending; of a number what it amounts to.

    So "1,250.50" is "1250.5", and "4.8.2" stays as it is.
    """
    word = word.lower()
    if word[:1].isdigit():
        return _amount(word)
    return (word[:-2] if word.endswith(_POSSESSIVES) else word)[:_STEM_LETTERS]


def _amount(number: str) -> str:
    if _AMOUNT.fullmatch(number) is None:
        return number
    whole, _, decimals = number.replace(",", "").partition(".")
    decimals = decimals.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


@lru_cache(maxsize=_KNOWN_WORDS)
def carries_content(word: str) -> bool:
    """True for words of three letters and more that are no function words, and for everything with a digit."""
    word = word.lower()
    if any(one.isdigit() for one in word):
        return True
    return len(word) > 2 and word[0].isalpha() and word not in FUNCTION_WORDS

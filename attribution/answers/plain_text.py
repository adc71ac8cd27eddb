"""Text as it is compared, and the words that say nothing on their own.

Text as it is compared: compatibility forms and accents resolved, digits and quotes in ASCII.

English words that say nothing on their own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Concatenate, ParamSpec, TypeVar, cast

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_FRACTION_BEHIND_DIGIT = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")


def plain_text(text: str) -> str:
    """The text in NFKC, with ASCII digits and quotes, without diacritics; case is kept, and "1½" becomes "1 1⁄2"."""
    if text.isascii():
        return text
    text = _FRACTION_BEHIND_DIGIT.sub(" ", text)
    plain = _BEYOND_ASCII.sub(_plain_character, unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", plain)


def _plain_character(match: re.Match[str]) -> str:
    character = match.group()
    if unicodedata.combining(character):
        return ""
    if character in "’‘ʼ":
        return "'"
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)


FUNCTION_WORDS = frozenset(
    """
    a an the and or but nor so yet of in on at by for to from with without within into onto over under up down out off
    upon as than then that this these those such it its he him his she her hers they them their theirs i me my we us our
    you your who whom whose which what when where why how there here is are was were be been being am do does did has
    have had having will would shall should can could may might must not no if because while although though
    also some any each other more most all only just very too own same both either neither about after before between
    during through against among per via s t re ve ll d m it's that's there's he's she's i'm i've you're you've we're
    we've they're they've
    """.split()  # noqa: SIM905
)
"""Lower-case, with straight apostrophes, and with what is left of contractions."""


_KNOWN_TEXTS, _LONGEST_KNOWN_TEXT = 512, 10_000
_P = ParamSpec("_P")
_T = TypeVar("_T")


def remembered(read: Callable[Concatenate[str, _P], _T]) -> Callable[Concatenate[str, _P], _T]:
    """Keeps what was read of the last 512 texts of up to 10,000 code points: logs repeat their passages."""
    known = cast(Callable[Concatenate[str, _P], _T], lru_cache(maxsize=_KNOWN_TEXTS)(read))

    def reading(text: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return (known if len(text) <= _LONGEST_KNOWN_TEXT else read)(text, *args, **kwargs)

    return reading

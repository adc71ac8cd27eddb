"""Text as it is compared: compatibility forms and accents resolved, digits and quotes in ASCII."""

from __future__ import annotations

import re
import unicodedata

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

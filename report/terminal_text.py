"""Text of a log made harmless for a terminal, character by character, so that offsets still count."""

from __future__ import annotations

import unicodedata

_STAND_INS = {code: chr(0x2400 + code) for code in range(0x20) if code != 0x0A} | {0x09: " ", 0x7F: "\u2421"}
_UNKNOWN = "\ufffd"
_HARMLESS_FORMATS = frozenset("\u200c\u200d\u00ad")


def harmless(text: str) -> str:
    """As many characters, none of which steers a terminal or turns the direction of what stands around it.

    Control characters become their pictures (ESC is shown as ␛), tabs become spaces, line feeds stay; C1 controls,
    marks of direction, separators of lines and lone surrogates become U+FFFD. Joiners, which scripts need, stay.
    """
    return "".join(_harmless(char) for char in text.translate(_STAND_INS))


def one_line(text: str) -> str:
    """``harmless`` text on one line; still as many characters."""
    return harmless(text).replace("\n", " ")


def _harmless(char: str) -> str:
    if char.isprintable() or char == "\n" or char in _HARMLESS_FORMATS:
        return char
    return " " if unicodedata.category(char) == "Zs" else _UNKNOWN

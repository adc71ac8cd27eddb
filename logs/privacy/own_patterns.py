"""Patterns of the user's own: read from the command line or a file, checked, and searched with a time limit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import regex

from attribeam.schemas import CharRange
from attribeam.schemas.errors import UsageError

SECONDS_PER_TEXT = 2.0
"""The longest search for one pattern in one text; a pattern that takes longer is not fit for any log."""

_PROBE_SECONDS = 1.0
_PROBES = tuple(one * 100 + end for one in ("a", "0", " ", "a0", "a ", "aB-", ".@", "0 ") for end in ("", "!", "\n"))


class SlowPatternError(Exception):
    """A pattern took too long on a text; the message says which."""


@dataclass(frozen=True, slots=True)
class PatternsFile:
    """A file of patterns, one a line: where it lies, what it held, and the SHA-256 of its bytes."""

    path: str
    patterns: tuple[str, ...]
    sha256: str

    @classmethod
    def read(cls, path: str) -> PatternsFile:
        """The patterns of a file in UTF-8; empty lines and lines that begin with ``#`` say nothing.

        Raises:
            UsageError: if it cannot be read, holds no pattern, or one that cannot be used; the message names the line
                and never shows it.
        """
        try:
            content = Path(path).read_bytes()
            lines = content.decode("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--redact-patterns-file {path!r} cannot be read: {error}") from error
        given = [(number, line) for number, line in enumerate(lines, start=1) if line.strip() and line[0] != "#"]
        if not given:
            raise UsageError(f"--redact-patterns-file {path!r} should hold one pattern a line, holds none")
        for number, line in given:
            check_pattern(line, f"--redact-patterns-file {path!r}, line {number}")
        return cls(path, tuple(line for _, line in given), hashlib.sha256(content).hexdigest())


def check_pattern(pattern: str, where: str) -> None:
    """Refuse a pattern that cannot be used; the message names ``where`` it stands and does not show it.

    Raises:
        UsageError: if it is no regular expression, finds nothing but empty text, or takes too long on a short text.
    """
    try:
        compiled = _compiled(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        said = getattr(error, "msg", str(error))
        raise UsageError(f"{where} should be a regular expression of the package regex, is none: {said}") from error
    if compiled.fullmatch("") is not None:
        raise UsageError(f"{where} finds empty text, so that it would find it everywhere; let it need a character")
    try:
        for probe in _PROBES:
            list(_found(compiled, probe, _PROBE_SECONDS))
    except TimeoutError:
        raise UsageError(
            f"{where} takes more than {_PROBE_SECONDS:g} s on a short text: it repeats what repeats itself; "
            "use possessive repeats such as a++, or atomic groups (?>...)"
        ) from None


def check_recordable(pattern: str, where: str) -> None:
    """Refuse a pattern that finds itself: the manifest records it, and would show what it should hide.

    Raises:
        UsageError: if it does; the message says how to keep it out of the manifest.
    """
    if next(_found(_compiled(pattern), pattern, SECONDS_PER_TEXT), None) is not None:
        raise UsageError(
            f"{where} finds its own text, which the manifest would record: put it into a file and name that with "
            "--redact-patterns-file, of which only the path and the SHA-256 are recorded"
        )


def own_ranges(patterns: Sequence[str], text: str) -> Iterator[CharRange]:
    """Where the patterns find something in a text, pattern by pattern.

    Raises:
        SlowPatternError: if one of them takes too long.
    """
    for number, pattern in enumerate(patterns, start=1):
        try:
            yield from _found(_compiled(pattern), text, SECONDS_PER_TEXT)
        except TimeoutError:
            raise SlowPatternError(
                f"own pattern {number} of {len(patterns)} takes more than {SECONDS_PER_TEXT:g} s"
            ) from None


@cache
def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern)


def _found(pattern: regex.Pattern[str], text: str, seconds: float) -> Iterator[CharRange]:
    for match in pattern.finditer(text, timeout=seconds):
        if match.end() > match.start():
            yield CharRange(match.start(), match.end())

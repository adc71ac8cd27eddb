"""What an audit may write of a log's texts, as the user asked for it and as the manifest records it.

Patterns of the user's own are read from the command line or a file, checked, and searched with a time limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import regex

from attribeam.schemas import CharRange
from attribeam.schemas.errors import RunError, UsageError

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
            raise UsageError(f"--redact-patterns {path!r} cannot be read: {error}") from error
        given = [(number, line) for number, line in enumerate(lines, start=1) if line.strip() and line[0] != "#"]
        if not given:
            raise UsageError(f"--redact-patterns {path!r} should hold one pattern a line, holds none")
        for number, line in given:
            check_pattern(line, f"--redact-patterns {path!r}, line {number}")
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


@dataclass(frozen=True, slots=True)
class PrivacySettings:
    """What is hidden in everything that an audit writes.

    Attributes:
        redact: mask e-mail addresses, phone numbers and card numbers.
        patterns: mask what the regular expressions of a file find; the manifest records where it was and its digest.
        no_texts: write no text of questions, passages and answers at all.
    """

    redact: bool = False
    patterns: PatternsFile | None = None
    no_texts: bool = False

    @property
    def masks(self) -> bool:
        """Whether parts of texts are masked."""
        return self.redact or bool(self.own_patterns)

    @property
    def hides(self) -> bool:
        """Whether anything is hidden."""
        return self.masks or self.no_texts

    @property
    def own_patterns(self) -> tuple[str, ...]:
        """The user's patterns."""
        return () if self.patterns is None else self.patterns.patterns

    def recorded(self) -> dict[str, object]:
        """The settings as JSON values, without those at their defaults and without the patterns themselves."""
        file = self.patterns
        everything = {
            "redact": self.redact,
            "redact_patterns": None if file is None else {"path": file.path, "sha256": file.sha256},
            "no_texts": self.no_texts,
        }
        return {name: value for name, value in everything.items() if value}


class LostPatternsError(RunError):
    """The file of patterns that an audit used is gone or has changed; the message says which, and the way out."""


def recorded_settings(recorded: object) -> PrivacySettings:
    """The settings that ``PrivacySettings.recorded`` gave; those of an audit that records none hide nothing.

    Raises:
        LostPatternsError: if the file of patterns is not what it was.
    """
    if not isinstance(recorded, Mapping):
        return PrivacySettings()
    file = recorded.get("redact_patterns")
    return PrivacySettings(
        redact=bool(recorded.get("redact")),
        patterns=None if file is None else _same_file(str(file["path"]), str(file["sha256"])),
        no_texts=bool(recorded.get("no_texts")),
    )


def redacting(recorded: object) -> PrivacySettings:
    """Whether the recorded settings redact, without their patterns, whose file may be gone."""
    return PrivacySettings(redact=isinstance(recorded, Mapping) and bool(recorded.get("redact")))


def _same_file(path: str, sha256: str) -> PatternsFile:
    """The file of patterns, as it was."""
    way_out = "bring it back, so that the audit's masks can be made again"
    try:
        found = PatternsFile.read(path)
    except UsageError as error:
        raise LostPatternsError(f"{error}; {way_out}") from error
    if found.sha256 != sha256:
        raise LostPatternsError(f"--redact-patterns {path!r} is not what the audit used; {way_out}")
    return found

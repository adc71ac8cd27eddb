"""What an audit may write of a log's texts, as the user asked for it and as the manifest records it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attribeam.logs.privacy.own_patterns import PatternsFile, check_pattern, check_recordable
from attribeam.schemas.errors import RunError, UsageError


@dataclass(frozen=True, slots=True)
class PrivacySettings:
    """What is hidden in everything that an audit writes.

    Attributes:
        redact: mask e-mail addresses, phone numbers and card numbers.
        patterns: mask what these regular expressions find; the manifest records them.
        patterns_file: more of them; the manifest records only where they were and their digest.
        no_texts: write no text of questions, passages and answers at all.
    """

    redact: bool = False
    patterns: tuple[str, ...] = ()
    patterns_file: PatternsFile | None = None
    no_texts: bool = False

    @classmethod
    def checked(
        cls, *, redact: bool, patterns: tuple[str, ...], patterns_file: str | None, no_texts: bool
    ) -> PrivacySettings:
        """The settings of a command line, with the file read.

        Raises:
            UsageError: if a pattern cannot be used, or the file cannot be read.
        """
        for number, pattern in enumerate(patterns, start=1):
            where = "--redact-pattern" if len(patterns) == 1 else f"--redact-pattern {number} of {len(patterns)}"
            check_pattern(pattern, where)
            check_recordable(pattern, where)
        file = None if patterns_file is None else PatternsFile.read(patterns_file)
        return cls(redact, patterns, file, no_texts)

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
        """The user's patterns, those of the file last."""
        return self.patterns + (() if self.patterns_file is None else self.patterns_file.patterns)

    def recorded(self) -> dict[str, object]:
        """The settings as JSON values, without those at their defaults and without what a patterns file holds."""
        file = self.patterns_file
        everything = {
            "redact": self.redact,
            "redact_patterns": list(self.patterns),
            "redact_patterns_file": None if file is None else {"path": file.path, "sha256": file.sha256},
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
    file = recorded.get("redact_patterns_file")
    return PrivacySettings(
        redact=bool(recorded.get("redact")),
        patterns=tuple(recorded.get("redact_patterns", ())),
        patterns_file=None if file is None else _same_file(str(file["path"]), str(file["sha256"])),
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
        raise LostPatternsError(f"--redact-patterns-file {path!r} is not what the audit used; {way_out}")
    return found

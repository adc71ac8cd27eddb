"""Every way in which a command ends early, the exit codes, and the schema version that an audit's files must have.

The text of an ``AttribeamError`` is one paragraph for the user: what was expected, what was found, where, and the way
out. It never holds answer text. ``attribeam.pipeline.command_line`` catches the class once, prints the text and exits
with its code; nothing else decides an exit code. A fault of a single row is a ``RowFault``; it never ends a command.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    BAD_USAGE = 2
    GATE_FAILED = 3
    INTERRUPTED = 130


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "", alike: float = 0.6) -> str:
    """The question which of the known names was meant; ``otherwise`` where none is like it, from 0 to 1."""
    near = get_close_matches(name, [*known], n=3, cutoff=alike)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


class AttribeamError(Exception):
    """An error for the user to read; any other exception but a row's ``RowFault`` is a bug here or in the caller.

    Several arguments are as many messages, each for a line of its own.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class UsageError(AttribeamError):
    """The request cannot be fulfilled as given; nothing was written."""

    exit_code = ExitCode.BAD_USAGE


class DataError(AttribeamError, ValueError):
    """A log or a data file cannot be read, or does not hold what it should: bad input, as bad usage is."""

    exit_code = ExitCode.BAD_USAGE


class LogFormatError(DataError):
    """A log is readable, but lacks a needed column or has one of the wrong type."""


class LogReadError(DataError):
    """A log could not be read this time: its file system failed, or it changed while it was read."""

    exit_code = ExitCode.FAILED


class SchemaVersionError(UsageError, ValueError):
    """A file of an audit is of another schema version; the message names the file, both versions and the way out."""


class ModelLoadError(UsageError, RuntimeError):
    """A model cannot be loaded or used as asked for; the message says which, why, and the way out."""


class ModelUnavailableError(ModelLoadError):
    """A model could not be loaded this time, but may be the next: the network failed, or memory ran out."""

    exit_code = ExitCode.FAILED


class RunError(AttribeamError):
    """A run, a report or a measurement failed; what is already written stays."""


class LeakError(RunError):
    """What was to be written would show what should be masked; the message says where, and never shows it."""


SCHEMA_VERSION = "1.2"


def check_version(version: str, name: str) -> None:
    """Refuse a file of another version; ``name`` is its name in the error.

    Raises:
        SchemaVersionError: if ``version`` is not ``SCHEMA_VERSION``.
    """
    if version != SCHEMA_VERSION:
        raise SchemaVersionError(
            f"{name} is of schema version {version!r}, but only files of version {SCHEMA_VERSION!r} can be read; audit "
            "its logs again, into another --output or with --overwrite"
        )

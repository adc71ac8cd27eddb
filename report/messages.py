"""All that a command prints, made harmless, since a terminal obeys some characters of other people's names and texts.

It also writes reports to files that appear complete or not at all, as private as their audit. It imports no library.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import stat
import sys
import traceback
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import reduce
from itertools import pairwise
from operator import or_
from pathlib import Path
from typing import NoReturn, TextIO

CONSOLE_FLAG = "--console"
_MOST_CHARS, _MOST_TEXTS = 4000, 50
STANDARD_OUTPUT = "-"

_STAND_INS = {code: chr(0x2400 + code) for code in range(0x20) if code != 0x0A} | {0x09: " ", 0x7F: "\u2421"}
_UNKNOWN = "\ufffd"
_HARMLESS_FORMATS = frozenset("\u200c\u200d\u00ad")


def harmless(text: str) -> str:
    """The text with each character that could control a terminal or turn the writing direction replaced by another.

    Control characters become their pictures (ESC is shown as ␛), tabs become spaces, line feeds stay. C1 controls,
    direction marks, line separators and lone surrogates become U+FFFD. Joiners, which some scripts need, stay.
    """
    return "".join(_harmless_char(char) for char in text.translate(_STAND_INS))


def one_line(text: str) -> str:
    """``harmless`` text on one line, of the same length."""
    return harmless(text).replace("\n", " ")


def _harmless_char(char: str) -> str:
    if char.isprintable() or char == "\n" or char in _HARMLESS_FORMATS:
        return char
    return " " if unicodedata.category(char) == "Zs" else _UNKNOWN


def print_lines(*texts: str) -> None:
    """Print a result, each text on a line of its own; raises as ``print_harmless``."""
    print_harmless("".join(f"{one_line(text)}\n" for text in texts))


def write_output(parts: Iterable[str]) -> None:
    """Write data to standard output as UTF-8, byte for byte; on a terminal it is made harmless.

    A reader that stops early, such as ``head``, is no error: nothing more is written, and the command goes on. Raises
    as ``print_harmless``.
    """
    shown = map(harmless, parts) if sys.stdout.isatty() else parts
    for part in shown:
        if not print_harmless(part.encode()):
            return


def print_harmless(content: str | bytes) -> bool:
    """Print what was made harmless before, such as before it got its colours; whether anybody reads it.

    Raises ``RunError`` if standard output cannot be written to.
    """
    try:
        if isinstance(content, str):
            sys.stdout.write(content)
        else:
            sys.stdout.buffer.write(content)
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError):  # Python would write it again when it exits, and change the exit code
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return False
        from attribeam.schemas.errors import RunError

        raise RunError(f"standard output cannot be written to: {error.strerror}") from error
    return True


def print_line(text: str, stream: TextIO) -> None:
    """Say something in one line, or nothing if the stream cannot be written to, such as a closed terminal."""
    with suppress(OSError):
        print(one_line(text), file=stream, flush=True)


def check_output(output: str) -> None:
    """Refuse, before any work, an output that cannot be written.

    Raises:
        UsageError: if the output is no file in an existing directory; it may be there or not, but no link or device.
    """
    from attribeam.schemas.errors import UsageError

    if output == STANDARD_OUTPUT:
        return
    path = Path(output)
    try:
        is_file = path.parent.is_dir() and stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"--output {output!r} cannot be written: {error.strerror}") from error
    if not is_file:
        raise UsageError(
            f"--output should be a file in an existing directory, and no link, was: {output!r}; {STANDARD_OUTPUT} is "
            "standard output"
        )


def write_lines(output: str, parts: Iterable[str]) -> None:
    """Write the parts one after another as UTF-8, line ends as they come, to standard output or a file.

    Raises ``RunError`` if the file cannot be written; an existing file stays as it was.
    """
    from attribeam.schemas.errors import RunError
    from attribeam.schemas.files import new_file

    if output == STANDARD_OUTPUT:
        return write_output(parts)
    try:
        with new_file(Path(output)) as file:
            file.writelines(part.encode() for part in parts)
    except OSError as error:
        raise RunError(f"{output!r} cannot be written: {error}") from error


@contextmanager
def as_private_as(folders: Iterable[str | Path]) -> Iterator[None]:
    """Make what the block writes no more readable than each of the folders is; one of an object store says nothing."""
    own = os.umask(0o077)
    denied = [~Path(folder).stat().st_mode & 0o077 for folder in folders if Path(folder).is_dir()]
    os.umask(reduce(or_, denied, own))
    try:
        yield
    finally:
        os.umask(own)


class ConsoleKind(StrEnum):
    """How progress, notes, errors and the result are printed."""

    TEXT = "text"
    JSON = "json"


def event_line(event: str, **fields: object) -> str:
    """One line of JSON, without its line end: what happened, when (ISO 8601 in UTC), and the details."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"event": event, "at": at, **fields}, ensure_ascii=True, allow_nan=False)
    return line.replace("\x7f", "\\u007f")


@dataclass(frozen=True, slots=True)
class Messages:
    """Says things on standard error in the way that the user asked for; ``speaker`` begins each line for people."""

    speaker: str = "attribeam audit"
    kind: ConsoleKind = ConsoleKind.TEXT

    def say(self, *texts: str, event: str = "note", **fields: object) -> None:
        """Say something, each text on a line of its own; ``event`` and ``fields`` are for machines.

        Of a text that is longer than anybody reads, such as one with all names of a wide table, the middle is left out.
        """

        def shortened(text: str) -> str:
            left_out, half = len(text) - _MOST_CHARS, _MOST_CHARS // 2
            return f"{text[:half]} [{left_out:,} characters left out] {text[-half:]}" if left_out > 0 else text

        more = (f"and {len(texts) - _MOST_TEXTS:,} more",) if len(texts) > _MOST_TEXTS else ()
        texts = (*map(shortened, texts[:_MOST_TEXTS]), *more)
        if self.kind is ConsoleKind.JSON:
            print_line(event_line(event, message="\n".join(texts), **fields), sys.stderr)
            return
        for text in texts:
            print_line(f"{self.speaker}: {text}", sys.stderr)

    def say_fault(self) -> None:
        """Say where the exception that is being handled came from: a fault of the program, for those who mend it."""
        for line in traceback.format_exc().splitlines():
            print_line(line, sys.stderr)
        self.say("this is a fault of attribeam; please report the lines above", event="error", exit_code=1)


TEXT_MESSAGES = Messages()
"""What an audit says to people."""


def console_kind(argv: Sequence[str]) -> ConsoleKind:
    """What ``--console`` asks for among arguments that are not parsed yet; text if it is not there, or unknown."""
    asked = [value for flag, value in pairwise(argv) if flag == CONSOLE_FLAG]
    asked += [argument.partition("=")[2] for argument in argv if argument.startswith(f"{CONSOLE_FLAG}=")]
    return ConsoleKind.JSON if ConsoleKind.JSON in asked[-1:] else ConsoleKind.TEXT


class CommandParser(argparse.ArgumentParser):
    """A parser that tells of wrong arguments as of other errors: in one line, not below a page of options."""

    kind = ConsoleKind.TEXT

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and exit with code 2."""
        from attribeam.schemas.errors import did_you_mean

        flag = message.partition("unrecognized arguments: ")[2].partition("=")[0].partition(" ")[0]
        hint = did_you_mean(flag, self._option_string_actions, otherwise=f"see {self.prog} --help")
        Messages(self.prog, self.kind).say(f"{message}; {hint}", event="error", exit_code=2)
        self.exit(2)

    def _print_message(self, message: str, file: object = None) -> None:  # noqa: ARG002 - only errors go elsewhere
        """Where argparse prints its help and its version."""
        write_output([message])


class _LibraryMessages(logging.StreamHandler[TextIO]):
    def format(self, record: logging.LogRecord) -> str:
        return harmless(super().format(record))


_format_warning = warnings.formatwarning


def print_library_messages(level: int) -> None:
    """Print messages of libraries from ``level`` on, and warnings, on standard error, made harmless."""

    logging.basicConfig(level=level, handlers=[_LibraryMessages()])
    warnings.formatwarning = lambda *parts, **named: harmless(_format_warning(*parts, **named))

"""What a command says besides its result: lines for people, or JSON lines for machines, on standard error.

This module imports no library.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from typing import TextIO

CONSOLE_FLAG = "--console"


class ConsoleKind(StrEnum):
    """How progress, notes, errors and the result are printed."""

    TEXT = "text"
    JSON = "json"


def event_line(event: str, **fields: object) -> str:
    """One line of JSON, without its line end: what happened, when (ISO 8601 in UTC), and the details."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"event": event, "at": at, **fields}, ensure_ascii=True, allow_nan=False)


def print_line(text: str, stream: TextIO) -> None:
    """Print a line, or nothing if the stream cannot be written to, such as a closed terminal."""
    with suppress(OSError):
        print(text, file=stream, flush=True)


@dataclass(frozen=True, slots=True)
class Messages:
    """Says things on standard error in the way that the user asked for; ``speaker`` begins each line for people."""

    speaker: str = "attribeam audit"
    kind: ConsoleKind = ConsoleKind.TEXT

    def say(self, text: str, *, event: str = "note", **fields: object) -> None:
        """Say something; ``event`` and ``fields`` are for machines."""
        line = f"{self.speaker}: {text}"
        if self.kind is ConsoleKind.JSON:
            line = event_line(event, message=text, **fields)
        print_line(line, sys.stderr)


TEXT_MESSAGES = Messages()
"""What an audit says to people."""


def console_kind(argv: Sequence[str]) -> ConsoleKind:
    """What ``--console`` asks for among arguments that are not parsed yet; text if it is not there, or unknown."""
    asked = [value for flag, value in pairwise(argv) if flag == CONSOLE_FLAG]
    asked += [one.partition("=")[2] for one in argv if one.startswith(f"{CONSOLE_FLAG}=")]
    return ConsoleKind.JSON if ConsoleKind.JSON in asked[-1:] else ConsoleKind.TEXT

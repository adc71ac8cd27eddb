"""Passages that are records: their fields, which of them say yes or no, and on which days something is open."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from attribeam.attribution.answers.plain_text import FUNCTION_WORDS
from attribeam.attribution.verdict.word_forms import stem

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_NAMES_OF_A_PATH, _LONGEST_KEY = 3, 60
_FIELD = re.compile(r"^([^:\n]{1,60}): (.*)$")
_KEY_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_GENERAL_KEY_WORDS = FUNCTION_WORDS - {"out", "up", "off"} | {"restaurants", "business", "good", "attributes"}
_TIMES = re.compile(r"(\d{1,2}):(\d{1,2})(?::\d\d)?\s*-\s*(\d{1,2}):(\d{1,2})")


class Truth(IntEnum):
    """What the value of a field says."""

    OTHER = 0
    YES = 1
    NO = 2
    ABSENT = 3
    """The value is null: the record does not say."""


_TRUTHS = {
    "true": Truth.YES, "yes": Truth.YES, "free": Truth.YES, "paid": Truth.YES,
    "false": Truth.NO, "no": Truth.NO, "none": Truth.NO,
    "null": Truth.ABSENT, "": Truth.ABSENT,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordLine:
    """One line of a passage; ``key`` is None for plain text, ``text`` holds the key too, its words apart."""

    text: str
    key: str | None
    value: str
    truth: Truth

    @property
    def joined_names(self) -> list[str]:
        """The last part of the key as one word where it is written as several: "TakeOut" is also "takeout"."""
        return [self.joined_key] if len(self._key_words()) > 1 else []

    @property
    def key_stems(self) -> tuple[str, ...]:
        """The stems of the words of the key's last part that say something: "RestaurantsTakeOut" is take, out."""
        return tuple(stem(word) for word in self._key_words())

    @property
    def joined_key(self) -> str:
        """The same words written as one: "takeout"."""
        return "".join(self._key_words())

    def _key_words(self) -> list[str]:
        parts = (self.key or "").split()
        words = [word.lower() for word in _KEY_WORD.findall(parts[-1])] if parts else []
        return [word for word in words if word not in _GENERAL_KEY_WORDS]


def record_lines(text: str) -> Iterator[RecordLine]:
    """The lines of a passage; one that is JSON is read as the lines ``path of names: value``."""
    for line in (_json_text(text) or text).split("\n"):
        match = _FIELD.match(line)
        if match is None:
            if line.strip():
                yield RecordLine(line, None, line, Truth.OTHER)
        else:
            key, value = match.group(1), match.group(2).strip()
            spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key)
            yield RecordLine(f"{spread}: {value}", key, value, _TRUTHS.get(value.lower().strip('"'), Truth.OTHER))


def open_days(lines: Sequence[RecordLine]) -> frozenset[int]:
    """The weekdays, Monday 0, for which a record gives hours that are not from midnight to midnight of zero length."""
    found = set()
    for line in lines:
        times = _TIMES.match(line.value) if line.key else None
        words = [] if line.key is None else line.key.lower().split()
        if times and words and words[-1] in WEEKDAYS and times.group(1, 2) != times.group(3, 4):
            found.add(WEEKDAYS.index(words[-1]))
    return frozenset(found)


def is_json(text: str) -> bool:
    """Whether a passage is read as JSON."""
    return _json_text(text) is not None


def _json_text(text: str) -> str | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return "\n".join(_flat_lines(found))


def _flat_lines(found: object) -> Iterator[str]:
    """One line per value, in their order; of the names on the way to it, the last three."""
    left: list[tuple[object, tuple[str, ...]]] = [(found, ())]
    while left:
        value, path = left.pop()
        if isinstance(value, dict):
            names = ((" ".join(str(name).split()), inner) for name, inner in value.items())
            left += [(inner, (*path, name)[-_NAMES_OF_A_PATH:]) for name, inner in reversed([*names])]
        elif isinstance(value, list):
            left += [(inner, path) for inner in reversed(value)]
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            yield f"{' '.join(path)[-_LONGEST_KEY:]}: {text}" if path else text

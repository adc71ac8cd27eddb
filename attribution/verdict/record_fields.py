"""Passages that are records: their fields, whether an answer agrees with them, and what the answer was asked for.

Answers to questions, summaries and texts from records err in different ways, and how often they err differs, so a
verdict may weigh what it measures of an answer by its kind.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from statistics import median
from typing import Generic, TypeVar

from pydantic import Discriminator, Tag

from attribeam.attribution.answers.plain_text import FUNCTION_WORDS, clock_times_in
from attribeam.attribution.verdict.word_forms import AnswerWords, stem
from attribeam.schemas import Passage
from attribeam.schemas.json_file import ALTERNATIVE, Form

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


UNTOLD, AGREES, CONFLICTS, ABSENT = -1, 0, 1, 2
"""Of a word: no field is about it, a field says the same, a field says the opposite, the field has no value."""

_ORDER = (AGREES, ABSENT, CONFLICTS)
_DAY = "|".join(WEEKDAYS)
_DAYS = re.compile(rf"\b({_DAY})s?\s*(to|through|until|and|&|-|–|—)\s*({_DAY})s?\b", re.IGNORECASE)
_EVERY_DAY = re.compile(
    r"\b(?:seven|7) days\b|\bevery ?day\b|\bdaily\b|\bthroughout the week\b|\ball week\b", re.IGNORECASE
)
_ONE_DAY = re.compile(rf"\b({_DAY})s?\b", re.IGNORECASE)
_CLOSED = re.compile(r"\bclosed\b[^.;]{0,40}$", re.IGNORECASE)


def field_agreement(answer: AnswerWords, lines: Sequence[RecordLine]) -> list[int]:
    """For each word of the answer, what the yes-or-no fields among the passages' lines say about what it names.

    Where several fields have the same name, the one that agrees counts.
    """
    found = [UNTOLD] * len(answer)
    fields = [line for line in lines if line.truth is not Truth.OTHER and line.key_stems]
    if not fields:
        return found
    denied = answer.denied_words()
    named, of_stems = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for word, text in enumerate(answer.lowered):
        named[text.replace("-", "")].append(word)
        of_stems[answer.stems[word]].append(word)
    for field in fields:
        joined, stems = field.joined_key, field.key_stems
        apart = (_side_by_side(word, stems, answer) for word in of_stems.get(stems[0], ()) if word not in named[joined])
        for words in (*((word,) for word in named[joined]), *apart):
            verdict = _verdict(field, denied=denied[words[0]]) if words else UNTOLD
            for word in words:
                known = found[word]
                found[word] = verdict if known == UNTOLD else min(known, verdict, key=_ORDER.index)
    return found


def _side_by_side(word: int, stems: Sequence[str], answer: AnswerWords) -> tuple[int, ...]:
    """The words of the answer, this one first, that are all words of a key side by side; none where they are not."""
    if len(stems) == 1:
        return (word,)
    following = word + 2 if answer.lowered[word + 1 : word + 2] == ["-"] else word + 1
    return (word, following) if answer.stems[following : following + 1] == [stems[1]] else ()


def _verdict(field: RecordLine, *, denied: bool) -> int:
    if field.truth is Truth.ABSENT:
        return ABSENT
    return AGREES if (field.truth is Truth.YES) is not denied else CONFLICTS


def time_agreement(answer: AnswerWords, lines: Sequence[RecordLine], sources: Sequence[Passage]) -> list[int]:
    """The same for times of day and, where a record has opening hours, for weekdays."""
    found = [UNTOLD] * len(answer)
    for start, end, agrees in (*_times(answer.answer, sources), *_days(answer.answer, open_days(lines))):
        for word, chars in enumerate(answer.parsed.words):
            if chars.char_start < end and chars.char_end > start:
                found[word] = max(found[word], AGREES if agrees else CONFLICTS)
    return found


def _times(answer: str, sources: Sequence[Passage]) -> Iterator[tuple[int, int, bool]]:
    told = list(clock_times_in(answer))
    known = {minute for source in sources if told for time in clock_times_in(source.text) for minute in time.readings}
    for time in told:
        yield time.start, time.end, not known.isdisjoint(time.readings)


def _days(answer: str, open_days: frozenset[int]) -> Iterator[tuple[int, int, bool]]:
    if not open_days:
        return
    taken: list[tuple[int, int]] = []
    for match in _DAYS.finditer(answer):
        first, last = WEEKDAYS.index(match.group(1).lower()), WEEKDAYS.index(match.group(3).lower())
        between = [(first + step) % 7 for step in range((last - first) % 7 + 1)]
        days = [first, last] if match.group(2).lower() in ("and", "&") else between
        taken.append(match.span())
        yield *match.span(), _all_as_told(days, answer[: match.start()], open_days)
    for match in _EVERY_DAY.finditer(answer):
        yield *match.span(), len(open_days) == len(WEEKDAYS)
    for match in _ONE_DAY.finditer(answer):
        if not any(start <= match.start() < end for start, end in taken):
            day = WEEKDAYS.index(match.group(1).lower())
            yield *match.span(), _all_as_told([day], answer[: match.start()], open_days)


def _all_as_told(days: Sequence[int], before: str, open_days: frozenset[int]) -> bool:
    told_closed = _CLOSED.search(before) is not None
    return all((day in open_days) is not told_closed for day in days)


_FIELD_SHARE, _FIELD_WORDS = 0.5, 0.25
"""The least shares of the lines of a record that are fields, and of its words that stand in them: a review in a record
may have more lines than its other fields, but a page with a header such as "Date: 2020" is no record."""
_LONGEST_FIELD = 5
"""The most words that half of the fields of a record may exceed; a paragraph that begins "Note: ..." is longer."""
_SENTENCE_END = re.compile(r"[.?!]+(?=\s)")
_ASKS_OF_SOMETHING = re.compile(
    r"\W*(?:who|whose|which|when|where|why|how (?:do|does|did|to)|what (?:do|does|did)|is|are|was|were|do|does|did)\b",
    re.IGNORECASE,
)
"""How a sentence begins that asks for a fact, even where it speaks of summaries: "How do I write an abstract?"."""
_ASKS_FOR_A_SUMMARY = re.compile(
    r"\bsummari[sz](?:e|es|ing|ation)\b|\bsum (?:\w+ )?up\b|\btl;?dr\b|\bcondense\b"
    r"|^\W*(?:(?:a|an|the|short|brief|concise|quick) )*(?:summary|synopsis|abstract)\b"
    r"|\b(?:give|write|provide|create|make|draft|produce|generate|need|want|get)\b.{0,40}\b(?:summary|synopsis|abstract)\b",
    re.IGNORECASE | re.DOTALL,
)


class RowKind(StrEnum):
    """The kinds, by the names that a verdict's file has for them."""

    QUESTION = "questions"
    SUMMARY = "summaries"
    RECORD = "records"


_T = TypeVar("_T")


class EachKind(Form, Generic[_T]):
    """Something of a verdict's file that each kind has of its own."""

    questions: _T
    summaries: _T
    records: _T

    def by_kind(self) -> dict[RowKind, _T]:
        """Each kind's own."""
        return {kind: getattr(self, kind) for kind in RowKind}


def _alternative(found: object) -> str:
    has_kinds = isinstance(found, EachKind) or (isinstance(found, dict) and not found.keys().isdisjoint(RowKind))
    return (EACH if has_kinds else SAME).tag


SAME, EACH = Tag(f"{ALTERNATIVE}same"), Tag(f"{ALTERNATIVE}each")
SAME_OR_EACH = Discriminator(_alternative)
"""Tells one for all kinds from ``EachKind``, which have these tags."""


def row_kind(question: str, lines: Sequence[RecordLine]) -> RowKind:
    """The kind of a row with this question, and these ``lines`` of its passages' texts.

    It is a record if at least half of the lines are fields, these hold at least a quarter of the words, and half of
    them are short; else a summary if nothing is asked, or a summary is asked for in English. Titles do not count: many
    look like a field ("Museum: ground floor").
    """
    fields = [line for line in lines if line.key is not None]
    are_many = fields and len(fields) >= _FIELD_SHARE * len(lines)
    if (
        are_many
        and _word_count(fields) >= _FIELD_WORDS * _word_count(lines)
        and median(len(line.value.split()) for line in fields) <= _LONGEST_FIELD
    ):
        return RowKind.RECORD
    if not question.strip() or any(map(_asks_for_a_summary, _SENTENCE_END.split(question))):
        return RowKind.SUMMARY
    return RowKind.QUESTION


def _word_count(lines: Sequence[RecordLine]) -> int:
    return sum(len(line.text.split()) for line in lines)


def _asks_for_a_summary(sentence: str) -> bool:
    return not _ASKS_OF_SOMETHING.match(sentence) and _ASKS_FOR_A_SUMMARY.search(sentence) is not None

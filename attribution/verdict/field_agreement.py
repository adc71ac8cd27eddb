"""Whether an answer agrees with the fields of a record: what is offered or not, opening days and times of day."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from attribeam.attribution.answers.numbers_and_dates import clock_times_in
from attribeam.attribution.verdict.answer_words import AnswerWords
from attribeam.attribution.verdict.record_fields import WEEKDAYS, RecordLine, Truth, open_days
from attribeam.schemas import Passage

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

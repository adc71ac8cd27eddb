"""The numbers, dates, versions and times of day of an answer, and what a passage must hold to repeat them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from attribeam.attribution.answers.amounts import (
    clock_times_in,
    converted_measures,
    measures_in,
    other_readings,
    parts_of_scales,
    words_for_times,
)
from attribeam.attribution.answers.answer_names import is_capitalised_as_first
from attribeam.attribution.answers.numbers_and_dates import (
    CENTURY,
    DATE,
    DOTTED_DATE,
    GROUPED_NUMBER,
    ISO_DATE,
    MONTHS,
    NUMBER,
    SCALES,
    VERSION,
    Duration,
    amounts,
    durations_of,
    in_other_units,
    is_percentage,
    joint_durations,
    own_number_ranges,
    rounding,
    share_of_time,
    worded_amount,
    worded_numbers,
    worded_shares,
)
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, base_label
from attribeam.attribution.answers.passage_values import COUNTED_LETTERS, PassageContent, comparable_words
from attribeam.attribution.answers.plain_text import plain_text
from attribeam.schemas import CharRange

_EXACT = (Decimal(0), Decimal(0))
_FEWEST_COUNTED_IN_WORDS = 3
_LONGEST_INDENT = 20
_WORD_BEHIND = re.compile(r"[\s-]+([^\W\d_]{3,})")
_UNTOLD_NUMBER = re.compile(r"\b(?:several|a\s+few|many|a\s+couple\s+of)\s+$", re.IGNORECASE)
_LONGEST_UNTOLD = 16
_CENTURIES = range(10, 22)
_HUNDREDS = re.compile(r"1[0-8]00")
_BEFORE_CHRIST = re.compile(r"[\s-]century,?\s(?:B\.?\s?C|before)", re.IGNORECASE)
_ONE_PERCENT = (Decimal(1), Decimal(1))
_PART_OF_A_SCALE = Decimal("0.05")
_DAYS_A_WEEK = re.compile(r"[\s-]days?[\s-](?:a|per|each|every)[\s-]week", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AnswerValue:
    """One value and what a passage must hold to repeat it.

    Attributes:
        chars: where it stands in the answer.
        numbers: for each number of the value the amounts of which one must occur.
        months: months that must occur.
        version: a number such as "4.8.2" that must occur as it is written, "" for none.
        durations: lengths of time, where the number counts one, of which one must occur unless the number stands alone.
        is_in_percent: whether the number is a percentage, which a fraction in words may repeat.
        tolerance: how far below and above the value's an occurring amount may lie: 0 and 9 for "the 1990s", 5 and 5 for
            "about 80".
        counted: the word behind a small number in words, cut to its first letters, "" otherwise: people count what a
            passage only names, so such a number is a value only where a passage counts the same.
        is_every_day: whether it counts the days of every week, which a passage repeats that names all seven.
        minutes: minutes after midnight, for a time of day, of which one must occur; where a passage has no times of
            day, its numbers count instead.
        sizes: what it may measure, in base units, of which a passage may have one in another unit.
        words: words that a passage may have in its place: "twice" for "2 times".
        century: which a passage also repeats by one of its years, 19 for "the 1800s"; 0 for any other value.
    """

    chars: CharRange
    numbers: tuple[frozenset[Decimal], ...] = ()
    months: tuple[int, ...] = ()
    version: str = ""
    durations: frozenset[Duration] = frozenset()
    is_in_percent: bool = False
    tolerance: tuple[Decimal, Decimal] = _EXACT
    counted: str = ""
    is_every_day: bool = False
    minutes: frozenset[int] = frozenset()
    sizes: frozenset[tuple[str, Decimal]] = frozenset()
    words: frozenset[str] = frozenset()
    century: int = 0

    def parts_in(self, passage: PassageContent) -> frozenset[int]:
        """The value itself, as its only part, if a passage repeats it."""
        return frozenset({0}) if self.occurs_in(passage) else frozenset()

    def is_repeated_by(self, parts: frozenset[int]) -> bool:
        """Whether the parts that passages repeat are enough."""
        return bool(parts)

    def occurs_in(self, passage: PassageContent) -> bool:
        """True where the passage repeats all parts of the value."""
        if self.minutes and passage.clock_minutes:
            return not self.minutes.isdisjoint(passage.clock_minutes)
        if not self.minutes.isdisjoint(passage.dotted_minutes):
            return True
        return (
            all(month in passage.months for month in self.months)
            and (not self.version or self.version in passage.versions)
            and self._numbers_occur(passage)
        )

    def _numbers_occur(self, passage: PassageContent) -> bool:
        if not self.numbers:
            return True
        numbers = passage.numbers_without_time if self.durations else passage.numbers
        if all(_amount_occurs(one, self.tolerance, numbers) for one in self.numbers):
            return True
        if self.durations and self._a_duration_occurs(passage):
            return True
        if self.century and self.century in passage.centuries:
            return True
        if self.is_every_day and passage.names_every_day:
            return True
        if self.is_in_percent and any(not one.isdisjoint(passage.fractions_in_percent) for one in self.numbers):
            return True
        return self._occurs_in_other_words(passage)

    def _a_duration_occurs(self, passage: PassageContent) -> bool:
        """Whether the passage has one of the lengths of time, or one that the number rounds."""
        if not self.durations.isdisjoint(passage.durations):
            return True
        if self.tolerance == _EXACT:
            return False
        meant = max(self.numbers[0])
        if not meant:
            return False
        below, above = (1 - self.tolerance[0] / meant, 1 + self.tolerance[1] / meant)
        return any(
            unit == other and amount * below <= found <= amount * above
            for unit, amount in self.durations
            for other, found in passage.durations
        )

    def _occurs_in_other_words(self, passage: PassageContent) -> bool:
        if not self.words.isdisjoint(passage.words):
            return True
        if self.sizes and not self.sizes.isdisjoint(passage.sizes):
            return True
        if self.durations or self.months or self.minutes:
            return False
        others = passage.other_percentages if self.is_in_percent else passage.other_numbers | passage.worded_fractions
        if not others:
            return False
        numbers = passage.numbers | others
        return all(_amount_occurs(one, self.tolerance, numbers) for one in self.numbers)


def answer_values(parsed: ParsedAnswer, answer: str, text: str) -> tuple[AnswerValue, ...]:
    """The values of an answer, ascending; a number that is part of a date, time or version is none of its own.

    ``text`` is the answer without its markup. Numbers that say something about the answer alone are no values. A
    measure that is given in two units has the numbers of both.
    """
    values: list[AnswerValue] = []
    taken = bytearray(len(text))
    for own in own_number_ranges(answer, text):
        taken[own.char_start : own.char_end] = b"\1" * (own.char_end - own.char_start)
    shares = (_shares(text), _parts_of_scales(text))
    kinds = (_dates(text), _versions(text), _times(text), _numbers(text), *shares, _worded_numbers(parsed, text))
    for kind in (*kinds, _months(parsed, text)):
        for found in kind:
            place = slice(found.chars.char_start, found.chars.char_end)
            if not any(taken[place]):
                values.append(found)
                taken[place] = b"\1" * (place.stop - place.start)
    whole = _with_joint_durations(_with_conversions(values, text), text)
    return tuple(sorted(whole, key=lambda value: value.chars))


def _with_joint_durations(values: Sequence[AnswerValue], text: str) -> Iterator[AnswerValue]:
    """The values; both numbers of "2 hours and 15 minutes" may be repeated by the sum of the two."""
    joint = [*joint_durations(text)] if any(value.durations for value in values) else []
    starts = [start for start, _, _ in joint]
    for value in values:
        place = bisect_right(starts, value.chars.char_start) - 1
        if place >= 0 and value.chars.char_end <= joint[place][1]:
            yield replace(value, durations=value.durations | {joint[place][2]})
        else:
            yield value


def _with_conversions(values: Sequence[AnswerValue], text: str) -> list[AnswerValue]:
    """The values with what they measure.

    Of a measure in two units, as in "350°F (175°C)", a passage repeats both if it has either number.
    """
    places = {value.chars.char_start: place for place, value in enumerate(values) if len(value.numbers) == 1}
    found = [*values]
    measures = [*measures_in(text)]
    for one in (one for group in measures for one in group if one.start in places):
        found[places[one.start]] = replace(found[places[one.start]], sizes=frozenset(one.sizes()))
    for first, second in converted_measures(measures, text):
        if first in places and second in places:
            meant = found[places[first]].numbers[0] | found[places[second]].numbers[0]
            for start in (first, second):
                found[places[start]] = replace(found[places[start]], numbers=(meant,))
    return found


def _dates(text: str) -> Iterator[AnswerValue]:
    for match in DATE.finditer(text):
        plain = plain_text(match.group()).lower()
        figures = ISO_DATE.fullmatch(plain) or DOTTED_DATE.fullmatch(plain)
        days_and_years = [figures[1], figures[3]] if figures else re.findall(r"\d+", plain)
        months = (
            [int(figures[2])] if figures else [MONTHS[word] for word in re.findall(r"[a-z]+", plain) if word in MONTHS]
        )
        yield AnswerValue(
            CharRange(*match.span()),
            numbers=tuple(frozenset({Decimal(number)}) for number in days_and_years),
            months=tuple(months),
        )


def _versions(text: str) -> Iterator[AnswerValue]:
    for match in VERSION.finditer(text):
        if not GROUPED_NUMBER.fullmatch(match.group()):
            yield AnswerValue(CharRange(*match.span()), version=plain_text(match.group()))


def _times(text: str) -> Iterator[AnswerValue]:
    for time in clock_times_in(text):
        digits = re.findall(r"\d+", text[time.start : time.end])
        if digits:
            numbers = tuple(frozenset({Decimal(one)}) for one in digits if int(one))
            yield AnswerValue(CharRange(time.start, time.end), numbers=numbers, minutes=time.minutes)


def _numbers(text: str) -> Iterator[AnswerValue]:
    for match in NUMBER.finditer(text):
        plain = NUMBER.match(plain_text(match.group()))
        if plain is None or _is_enumerator(match, text):
            continue
        meant = frozenset(amounts(plain))
        tolerance = (Decimal(0), Decimal(9)) if plain["decade"] else _rounding(match, text, meant)
        if plain["scale"] and len(meant) == 1:
            least = _half_of_last_digit(plain["digits"], next(iter(meant)))
            tolerance = (max(tolerance[0], least), max(tolerance[1], least))
        if meant:
            value = _number(match, text, meant, tolerance)
            readings = meant.union(other_readings(text, match, meant))
            words = frozenset(words_for_times(text, match.end(), meant))
            yield replace(value, numbers=(readings,), words=words, century=_century(match, plain, text))


def _rounding(match: re.Match[str], text: str, meant: frozenset[Decimal]) -> tuple[Decimal, Decimal]:
    """How far what a number rounds may lie from it; a number that may be read in two ways rounds nothing."""
    return rounding(text, match.start(), match.end(), next(iter(meant))) if len(meant) == 1 else _EXACT


def _century(match: re.Match[str], plain: re.Match[str], text: str) -> int:
    """19 for "19th century" and "the 1800s"; 0 for other numbers, for those before Christ and for the oldest ones."""
    if plain["decade"] and _HUNDREDS.fullmatch(plain["digits"]):
        return int(plain["digits"]) // 100 + 1
    digits = plain["digits"]
    if len(digits) != 2 or not CENTURY.match(text, match.end()) or _BEFORE_CHRIST.match(text, match.end() + 2):
        return 0
    return int(digits) if int(digits) in _CENTURIES else 0


def _shares(text: str) -> Iterator[AnswerValue]:
    """Fractions in words that count three parts or more, "four fifths", which a passage may have as a percentage."""
    for start, end, count, percent in worded_shares(text):
        numbers = frozenset((count, *percent)) if count >= _FEWEST_COUNTED_IN_WORDS else frozenset[Decimal]()
        durations = share_of_time(text, start)
        yield AnswerValue(
            CharRange(start, end),
            numbers=(numbers,) if numbers else (),
            durations=durations,
            is_in_percent=not durations,
            tolerance=_ONE_PERCENT,
        )


def _parts_of_scales(text: str) -> Iterator[AnswerValue]:
    """Amounts such as "half a million", which stand for what lies near them."""
    for match, amount in parts_of_scales(text):
        near = _PART_OF_A_SCALE * worded_amount(match[2])
        below, above = rounding(text, match.start(), match.end(), amount)
        tolerance = (max(below, near), max(above, near))
        yield AnswerValue(CharRange(*match.span()), numbers=(frozenset({amount}),), tolerance=tolerance)


def _number(
    match: re.Match[str], text: str, meant: frozenset[Decimal], tolerance: tuple[Decimal, Decimal] = _EXACT
) -> AnswerValue:
    return AnswerValue(
        CharRange(*match.span()),
        numbers=(meant,),
        durations=frozenset(in_other_units(durations_of(text, match.end(), meant))),
        is_in_percent=is_percentage(text, match.end()),
        is_every_day=_DAYS_A_WEEK.match(text, match.end()) is not None and Decimal(7) in meant,
        tolerance=tolerance,
    )


def _is_enumerator(number: re.Match[str], text: str) -> bool:
    """True for "(2)": one or two digits alone in brackets number the parts of a sentence, or cite.

    So is "9) " where the answer begins, and the number of "COVID-19", which is part of the name.
    """
    if (
        number.start() < _LONGEST_INDENT
        and not text[: number.start()].strip()
        and re.match(r"[.)]\s", text[number.end() : number.end() + 2])
    ):
        return True
    if text[max(number.start() - 6, 0) : number.start()].upper() == "COVID-":
        return True
    around = text[max(number.start() - 1, 0) : number.end() + 1]
    return re.fullmatch(r"\(\d{1,2}\)", around) is not None


def _half_of_last_digit(digits: str, amount: Decimal) -> Decimal:
    """Half of what the last written digit is worth: 50,000 for "1.2 million"."""
    written = Decimal(digits.replace(",", "")) if re.fullmatch(r"\d+(?:,\d{3})*(?:\.\d+)?", digits) else Decimal(0)
    exponent = written.as_tuple().exponent
    if not written or not isinstance(exponent, int):
        return Decimal(0)
    return amount / written * Decimal(10) ** exponent / 2


def _worded_numbers(parsed: ParsedAnswer, text: str) -> Iterator[AnswerValue]:
    """Numbers in words that count something, from two on; "one" and ordinals are too often no number.

    "Several hundred" is none.
    """
    counting = {
        parsed.words[word].char_start
        for word, label in enumerate(parsed.dependency_labels)
        if parsed.universal_tags[word] == "NUM" and base_label(label) in ("nummod", "compound", "quantmod")
    }
    for match in worded_numbers(text):
        amount = worded_amount(match.group())
        is_untold = _UNTOLD_NUMBER.search(text, max(match.start() - _LONGEST_UNTOLD, 0), match.start())
        if match.start() in counting and amount > 1 and not (is_untold and match.group().lower() in SCALES):
            value = _number(match, text, frozenset({amount}), rounding(text, match.start(), match.end(), amount))
            noun = _WORD_BEHIND.match(text, match.end())
            is_small = amount < _FEWEST_COUNTED_IN_WORDS and not value.durations
            yield replace(value, counted=noun[1].lower()[:COUNTED_LETTERS]) if is_small and noun else value


def _months(parsed: ParsedAnswer, text: str) -> Iterator[AnswerValue]:
    for word in [word for word, tag in enumerate(parsed.universal_tags) if tag == "PROPN"]:
        chars = parsed.words[word]
        name = chars.of(text)
        months = tuple(MONTHS[one] for one in comparable_words(name) if one in MONTHS)
        if months and any(map(str.isupper, name)) and not is_capitalised_as_first(parsed, word, text):
            yield AnswerValue(chars, months=months)


def _amount_occurs(meant: frozenset[Decimal], tolerance: tuple[Decimal, Decimal], numbers: frozenset[Decimal]) -> bool:
    if not meant.isdisjoint(numbers):
        return True
    below, above = tolerance
    return bool(below or above) and any(
        amount - below <= number <= amount + above for amount in meant for number in numbers
    )

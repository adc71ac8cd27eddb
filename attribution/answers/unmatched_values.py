"""Values of a span that no evidence passage repeats: numbers, dates, versions, times of day and names."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, pairwise, product
from typing import TypeAlias

from attribeam.attribution.answers.answer_names import (
    DIFFERENCE,
    SHARED,
    AnswerName,
    PassageContent,
    Range,
    answer_names,
    is_capitalised_as_first,
    noun_behind,
    passage_content,
    version,
)
from attribeam.attribution.answers.citation_pointers import named_ids, reference_ranges
from attribeam.attribution.answers.markup import hide_markup, without_gaps
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, base_label
from attribeam.attribution.answers.plain_text import (
    DATE,
    GROUPED_NUMBER,
    MONTHS,
    SCALES,
    VERSION,
    Kind,
    Number,
    Quantity,
    Reading,
    clock_times_in,
    comparable_words,
    date_fields,
    numbers_in,
    plain_text,
)
from attribeam.attribution.answers.quantities import (
    CHANGE,
    PARTS,
    PERCENT_BEHIND,
    RATE,
    comparable,
    conversions_in,
    in_other_units,
    is_inexact,
    number_quantities,
    phrases_in,
)
from attribeam.schemas import CharRange, Passage

_EXACT = (Decimal(0), Decimal(0))
_ONE = (Decimal(1), Decimal(1))
_DOZEN = 12
_DECADE = (Decimal(0), Decimal(9))
_FEWEST_COUNTED_IN_WORDS = 3
_LONGEST_INDENT = 20
_UNTOLD_NUMBER = re.compile(r"\b(?:several|a\s+few|many|a\s+couple\s+of)\s+$", re.IGNORECASE)
_LONGEST_UNTOLD = 16


@dataclass(frozen=True, slots=True)
class AnswerValue:
    """One value and what a passage must hold to repeat it.

    Of each of the ``parts`` a passage must have one reading in one of the ranges; a date has a day, a month and a year.
    A time of day has ``minutes`` after midnight, of which one must occur; where a passage has no times of day, its
    parts count instead. ``counted`` is the word behind a small number in words, cut to its first letters, "" otherwise:
    people count what a passage only names, so such a number is a value only where a passage counts the same.
    ``is_time`` is set for a date, a month, a century or a time of day. What the answer works out of ``terms`` is also
    repeated where passages repeat all of these. Of a full date ``dates`` has the day, month and year: it is
    compared as a whole where a passage has its day and month, and always with a year. A change by a percentage must go
    in the direction that a passage has for it.
    """

    chars: CharRange
    parts: tuple[frozenset[Range], ...] = ()
    minutes: frozenset[Decimal] = frozenset()
    counted: str = ""
    is_time: bool = False
    terms: tuple[AnswerValue, ...] = ()
    dates: frozenset[tuple[int, int, int]] = frozenset()

    def parts_in(self, passage: PassageContent) -> frozenset[int]:
        """The value itself as part 0, and its terms from 1 on, where a passage repeats them."""
        terms = (index for index, term in enumerate(self.terms, start=1) if term.parts_in(passage))
        return self._itself_in(passage).union(terms)

    def _itself_in(self, passage: PassageContent) -> frozenset[int]:
        if self.minutes:
            times = passage.sizes(Kind.MINUTE)
            if not self.minutes.isdisjoint(times | passage.sizes(Kind.PERHAPS_MINUTE)):
                return frozenset({0})
            if times:
                return frozenset()
        if self.dates:
            alike = {date for date in passage.dates if any(date[:2] == own[:2] for own in self.dates)}
            if alike and all(year for _, _, year in alike):
                return frozenset() if alike.isdisjoint(self.dates) else frozenset({0})
        for kind, sign, _ in self.parts[0] if len(self.parts) == 1 else ():
            if kind.startswith(CHANGE) and passage.sizes(kind) and sign not in passage.sizes(kind):
                return frozenset()
        return frozenset({0}) if all(map(passage.repeats, self.parts)) else frozenset()

    def is_repeated_by(self, parts: frozenset[int]) -> bool:
        """Whether the parts that passages repeat are enough."""
        return 0 in parts or 0 < len(self.terms) == len(parts)


def answer_values(parsed: ParsedAnswer, answer: str, text: str) -> tuple[AnswerValue, ...]:
    """The values of an answer, ascending; a number that is part of a date, time or version is none of its own.

    ``text`` is the answer without its markup. Numbers that say something about the answer alone are no values. A
    measure that is given in two units has the numbers of both.
    """
    numbers = numbers_in(text)
    values: list[AnswerValue] = []
    taken = bytearray(len(text))
    for chars in own_number_ranges(answer, text, numbers):
        taken[chars.char_start : chars.char_end] = b"\1" * (chars.char_end - chars.char_start)
    phrases = phrases_in(text)
    quantities = [*number_quantities(numbers, text)]
    ends = [quantity.end for quantity in quantities]
    for phrase in phrases:  # both numbers of "2 hours and 15 minutes" may be their sum
        index = bisect_left(ends, phrase.start + 1)
        while index < len(quantities) and quantities[index].start < phrase.end:
            is_factor = text[phrase.start : phrase.end].lower().endswith("dozen")
            readings = phrase.readings if is_factor else quantities[index].readings | phrase.readings
            quantities[index] = replace(quantities[index], readings=readings)
            index += 1
    pairs = [*zip(numbers, quantities, strict=True)]
    digits, words = [pair for pair in pairs if pair[0].digits], [pair for pair in pairs if not pair[0].digits]
    for value in chain(
        _dates_and_times(text) if digits else (), _numbers(digits, text), _phrases(phrases, text),
        _worded_numbers(parsed, words, text), _months(parsed, text),
        _frequencies(phrases),
    ):  # fmt: skip
        start, end = value.chars.char_start, value.chars.char_end
        if not any(taken[start:end]):
            values.append(value)
            taken[start:end] = b"\1" * (end - start)
    return _with_terms(sorted(_with_conversions(values, numbers, text), key=lambda value: value.chars), text)


_OPERATOR = re.compile(r"(?:\s?[^\W\d_]{1,12}){0,2}\s?%?(?P<sign>\s?[×*·+]|\sx|\s[-–−](?=\s))\s?[$€£¥]?\s?")
_EQUALS = re.compile(r"[^\d=(\n]{0,24}[=(]\s?[$€£¥]?\s?")
_MOST_TERMS = 6


def _with_terms(values: Sequence[AnswerValue], text: str) -> tuple[AnswerValue, ...]:
    """The values; one that the answer works out, "€6 (2 × €3)" and "2 × €3 = €6", knows its terms.

    A wrong result is a term of its own, so that passages must have it.
    """
    joints = [text[first.chars.char_end : second.chars.char_start] for first, second in pairwise(values)]
    signs = [match["sign"].strip() if (match := _OPERATOR.fullmatch(joint)) else "" for joint in joints]
    worked, start = [*values], 0
    for end, sign in enumerate((*signs, "")):
        if sign:
            continue
        terms = values[start : end + 1]
        for result, joint in ((end + 1, end), (start - 1, start - 1)) if 1 < len(terms) <= _MOST_TERMS else ():
            if 0 <= joint < len(joints) and _EQUALS.fullmatch(joints[joint]):
                is_right = _is_worked_out(values[result], terms, signs[start:end])
                worked[result] = replace(values[result], terms=(*terms, *values[result : result + (not is_right)]))
        start = end + 1
    return tuple(worked)


def _is_worked_out(value: AnswerValue, terms: Sequence[AnswerValue], signs: Sequence[str]) -> bool:
    """Whether a value is what its terms make, but for its last digit; products go before sums."""
    parts = (part for one in (value, *terms) for part in one.parts[:1])
    for result, *amounts in product(*([least for kind, least, _ in part if kind == Kind.AMOUNT] for part in parts)):
        sums = amounts[:1]
        for sign, amount in zip(signs, amounts[1:], strict=False):
            if sign in "+-–−":
                sums.append(amount if sign == "+" else -amount)
            else:
                sums[-1] *= amount
        if abs(sum(sums) - result) <= Decimal(1).scaleb(int(result.as_tuple().exponent)) / 2:
            return True
    return False


def _with_conversions(values: Sequence[AnswerValue], numbers: Sequence[Number], text: str) -> list[AnswerValue]:
    """The values; of a measure in two units, as in "350°F (175°C)", a passage repeats both if it has either number."""
    index_of = {value.chars.char_start: index for index, value in enumerate(values) if len(value.parts) == 1}
    converted = [*values]
    for first, second in conversions_in(numbers, text):
        if first.start in index_of and second.start in index_of:
            pair = index_of[first.start], index_of[second.start]
            either = converted[pair[0]].parts[0] | converted[pair[1]].parts[0]
            for index in pair:
                converted[index] = replace(converted[index], parts=(either,))
    return converted


def _exactly(kind: str, size: Decimal | int) -> frozenset[Range]:
    return frozenset({(kind, Decimal(size), Decimal(size))})


def _whole_number(size: int) -> frozenset[Range]:
    return _exactly(Kind.AMOUNT, size) | _exactly(Kind.AMOUNT_OF_TIME, size)


def _dates_and_times(text: str) -> Iterator[AnswerValue]:
    """Dates, versions, and times of day that have digits."""
    for match in DATE.finditer(text):
        dates = frozenset(fields for fields in date_fields(match.group()) if all(fields))
        yield AnswerValue(CharRange(*match.span()), date_parts(match.group()), is_time=True, dates=dates)
    for match in VERSION.finditer(text):
        if not GROUPED_NUMBER.fullmatch(match.group()):
            yield AnswerValue(CharRange(*match.span()), (_exactly(*version(plain_text(match.group()))),))
    for time in clock_times_in(text):
        if digits := re.findall(r"\d+", text[time.start : time.end]):
            numbers = tuple(_whole_number(int(number)) for number in digits if int(number))
            minutes = frozenset(size for _, size in time.readings)
            yield AnswerValue(CharRange(time.start, time.end), numbers, minutes, is_time=True)


def date_parts(date: str) -> tuple[frozenset[Range], ...]:
    """What a passage must hold to repeat a match of ``DATE``: its day and year, and its month."""
    (day, month, year), *others = date_fields(date)
    if others:
        either = (_whole_number(part) | _exactly(Kind.MONTH, part) for part in (day, month))
        return *either, _whole_number(year)
    return *map(_whole_number, filter(None, (day, year))), _exactly(Kind.MONTH, month)


def _months(parsed: ParsedAnswer, text: str) -> Iterator[AnswerValue]:
    for word, chars in enumerate(parsed.words):
        name = chars.of(text) if parsed.universal_tags[word] == "PROPN" else ""
        if any(map(str.isupper, name)) and not is_capitalised_as_first(parsed, word, text):
            months = tuple(_exactly(Kind.MONTH, MONTHS[part]) for part in comparable_words(name) if part in MONTHS)
            if months:
                yield AnswerValue(chars, months, is_time=True)


_AMOUNTS = frozenset(
    (Kind.AMOUNT, Kind.COUNT, Kind.AMOUNT_OF_TIME, Kind.AMOUNT_OF_MEASURE, Kind.OTHER_AMOUNT, Kind.PERCENT)
)
_MORE_BEHIND = re.compile(
    r"(?:\s?(?:[^\W\d_]{1,12}|%|°[CF])|\s\w+\spoints?)?\s(?:more|less|fewer|(?!over|under|after|other|water)[a-z]{3,}er)\b"
)
_A_YEAR: dict[str, int] = {Kind.MONTHS: 12, Kind.SECONDS: 52 * 7 * 86_400}
"""How long a year is in months, and the 52 weeks of one in seconds."""
_DURATIONS = frozenset((Kind.SECONDS, Kind.MONTHS))


def _value(quantity: Quantity, text: str, tolerance: tuple[Decimal, Decimal]) -> AnswerValue:
    """The value of a quantity that may be repeated by what lies within a tolerance below and above it."""
    below, above = (max(side, quantity.within) for side in tolerance)
    is_in_percent = PERCENT_BEHIND.match(text, quantity.end) is not None
    ranges = {*_ranges(quantity.readings, below, above, is_in_percent=is_in_percent)}
    if _MORE_BEHIND.match(text, quantity.end):
        ranges.update((DIFFERENCE + kind, size, size) for kind, size in comparable(quantity, text))
    return AnswerValue(
        CharRange(quantity.start, quantity.end),
        (frozenset(ranges),),
        is_time=any(kind == Kind.CENTURY for kind, _ in quantity.readings),
    )


def _ranges(readings: Iterable[Reading], below: Decimal, above: Decimal, *, is_in_percent: bool) -> Iterator[Range]:
    """What repeats one of these readings: no length of time or measure is repeated by a number of another unit."""
    readings = frozenset(readings)
    is_measure = any(kind is Kind.AMOUNT_OF_MEASURE for kind, _ in readings)
    kinds = [Kind.AMOUNT]
    if is_measure:
        kinds += Kind.COUNT, Kind.OTHER_AMOUNT
    elif not any(kind in _DURATIONS for kind, _ in readings):
        kinds += Kind.COUNT, Kind.AMOUNT_OF_TIME, Kind.AMOUNT_OF_MEASURE
        kinds.append(Kind.PERCENT if is_in_percent else Kind.OTHER_AMOUNT)
    meant = max((size for kind, size in readings if kind in _AMOUNTS), default=Decimal(0))
    for kind, size in readings:
        if kind in _AMOUNTS:
            more = [Kind.AMOUNT_OF_MEASURE] if kind is Kind.OTHER_AMOUNT and is_measure else []  # "3/4 mile"
            least, most = (size - below, size + above) if below or above else (size, size)
            yield from ((other, least, most) for other in (*kinds, *more))
        elif kind not in _DURATIONS and not is_measure:
            yield kind, size, size
            if kind is Kind.PERHAPS_MINUTE:
                yield Kind.MINUTE, size, size
    units = [reading for reading in readings if reading[0] in _DURATIONS or (is_measure and reading[0] not in _AMOUNTS)]
    for kind, size in in_other_units(units):
        is_rounded = meant and (below or above)
        yield (kind, size * (1 - below / meant), size * (1 + above / meant)) if is_rounded else (kind, size, size)


def _numbers(numbers: Iterable[tuple[Number, Quantity]], text: str) -> Iterator[AnswerValue]:
    """Numbers in digits; one that may be read in two ways rounds nothing.

    "(2)" is none: one or two digits alone in brackets number the parts of a sentence, or cite. So does "9) " where the
    answer begins, and the number of "COVID-19" is part of the name.
    """
    for number, quantity in numbers:
        start, end = number.start, number.end
        begins = start < _LONGEST_INDENT and not text[:start].strip() and re.match(r"[.)]\s", text[end : end + 2])
        is_covid = text[max(start - 6, 0) : start].upper() == "COVID-"
        is_in_brackets = re.fullmatch(r"\(\d{1,2}\)", text[max(start - 1, 0) : end + 1])
        if number.amounts and not (begins or is_covid or is_in_brackets):
            rounded = _EXACT if len(number.amounts) > 1 else rounding(text, number.start, number.end, *number.amounts)
            yield _value(quantity, text, _DECADE if number.is_decade else rounded)


def _phrases(phrases: Iterable[Quantity], text: str) -> Iterator[AnswerValue]:
    """Fractions of three parts or more, "half a million", "two dozen", and "half past six".

    "A dozen" may be one more or less. Other fractions are values only where a passage says how large a share is, too.
    """
    for phrase in phrases:
        chars = CharRange(phrase.start, phrase.end)
        count = next((size for kind, size in phrase.readings if kind == Kind.AMOUNT), None)
        minutes = frozenset(size for kind, size in phrase.readings if kind == Kind.PERHAPS_MINUTE)
        last_word = re.split(r"[\s-]+", chars.of(text).lower())[-1].removesuffix("s")
        shared = max(
            (size for kind, size in phrase.readings if kind == Kind.SHARE and last_word in PARTS), default=None
        )
        if minutes:
            yield AnswerValue(chars, (), minutes, is_time=True)
        elif phrase.within:
            amount = max(size for kind, size in phrase.readings if kind == Kind.OTHER_AMOUNT)
            yield _value(phrase, text, rounding(text, phrase.start, phrase.end, amount))
        elif last_word == "dozen":
            amount = max(size for _, size in phrase.readings)
            if not is_inexact(text, phrase.start) and rounding(text, phrase.start, phrase.end, amount) == _EXACT:
                yield _value(phrase, text, _ONE if amount <= _DOZEN else _EXACT)
        elif shared or count is not None:
            shares = frozenset(reading for reading in phrase.readings if reading[0] is Kind.PERCENT)
            rounded = rounding(text, phrase.start, phrase.end, shared) if shared else _EXACT
            about = min(Decimal(1), _MOST_ABOUT * (shared or 1))
            ranges = {
                *_ranges(shares, *map(max, (about, about), rounded), is_in_percent=True),
                *_ranges(phrase.readings - shares, *_EXACT, is_in_percent=False),
            }
            is_value = shared or (count or 0) >= _FEWEST_COUNTED_IN_WORDS
            yield AnswerValue(chars, (frozenset(ranges),) if is_value else (), counted=SHARED if shared else "")


def _frequencies(phrases: Iterable[Quantity]) -> Iterator[AnswerValue]:
    """How often something happens, and rates, as in "monthly" and "$40 a month", where a passage says that, too."""
    for phrase in phrases:
        told = next((kind for kind, _ in phrase.readings if kind is Kind.OFTEN or kind.startswith(RATE)), "")
        if told:
            ranges = {(kind, size, size) for kind, size in phrase.readings if told in (kind, Kind.OFTEN)}
            yield AnswerValue(CharRange(phrase.start, phrase.end), (frozenset(ranges),), counted=told)


def _worded_numbers(
    parsed: ParsedAnswer, numbers: Iterable[tuple[Number, Quantity]], text: str
) -> Iterator[AnswerValue]:
    """Numbers in words that count something or may be hours, from two on; "one" and ordinals are too often no number.

    "Several hundred" is none.
    """
    counting = {
        parsed.words[word].char_start
        for word, label in enumerate(parsed.dependency_labels)
        if parsed.universal_tags[word] == "NUM" and base_label(label) in ("nummod", "compound", "quantmod")
    }
    for number, quantity in numbers:
        (amount,) = number.amounts
        is_untold = _UNTOLD_NUMBER.search(text, max(number.start - _LONGEST_UNTOLD, 0), number.start)
        is_scale = text[number.start : number.end].lower() in SCALES
        counts = number.start in counting or Kind.PERHAPS_MINUTE in dict(quantity.readings)
        if counts and amount > 1 and not (is_untold and is_scale):
            value = _value(quantity, text, rounding(text, number.start, number.end, amount))
            is_measured = not (_DURATIONS | {Kind.AMOUNT_OF_MEASURE}).isdisjoint(dict(quantity.readings))
            is_small = amount < _FEWEST_COUNTED_IN_WORDS and not is_measured
            yield replace(value, counted=noun_behind(text, number.end)) if is_small else value


_ABOUT = r"about|around|approximately|approx\.?|roughly|circa|ca?\.|some"
_OVER = r"(?:slightly |a little )?more than|upwards? of|in excess of"
_UNDER = r"nearly|almost|close to|not quite|(?:slightly |a little )?(?:less|fewer) than"
_NO_LIMIT = r"(?<!\bno )(?<!\bnot )(?<!\bnever )(?<!n't )(?<!n’t )"
_HEDGE = re.compile(
    rf"{_NO_LIMIT}\b(?:(?P<about>{_ABOUT})|(?P<over>{_OVER})|(?P<under>{_UNDER}))\s+(?:an?\s)?[$€£¥]?\s?$",
    re.IGNORECASE,
)
"""Words that round the number behind them; "over" and "under" are left out, for they often mean something else."""
_LONGEST_HEDGE = 32
_OR_SO = re.compile(r"\s(?:[^\W\d_]+\s)?or\sso\b")
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_MOST_ABOUT, _MOST_OVER, _MOST_UNDER = Decimal("0.1"), Decimal("0.15"), Decimal("0.1")
"""The farthest that the meant number may lie, as a share of the rounded one."""


def rounding(text: str, start: int, end: int, amount: Decimal) -> tuple[Decimal, Decimal]:
    """How far below and above a number that stands in ``text`` the meant one may lie; zeros where nothing rounds it.

    "About" lets it differ by half of what the last digit but zeros is worth, "more than" and "nearly" by all of it, in
    their direction, and never by more than a share of the number. Years and limits ("no more than 80") are not rounded.
    """
    if _YEAR.fullmatch(text, start, end):
        return _EXACT
    hedge = _HEDGE.search(text, max(start - _LONGEST_HEDGE, 0), start)
    kind = hedge.lastgroup if hedge else ("about" if _OR_SO.match(text, end) else None)
    if kind is None or amount <= 0:
        return _EXACT
    digits = amount.normalize().as_tuple()
    step = Decimal(1).scaleb(int(digits.exponent))  # what the last digit but zeros is worth: 1,000 for 3,000
    if digits.digits[-1:] == (5,) and len(digits.digits) > 1:
        step *= 5  # people also round to fives
    if kind == "about":
        return (min(step / 2, amount * _MOST_ABOUT),) * 2
    if kind == "over":
        return Decimal(0), min(step, amount * _MOST_OVER)
    return min(step, amount * _MOST_UNDER), Decimal(0)


_PLACES = re.compile(
    r"\b(?:steps?|methods?|options?)\s+(?:#\s?|no\.?\s)?\d{1,2}(?:\s*(?:,|and|&|[-–]|to|or|through)\s*\d{1,2})*\b"
    r"|\b(?:in|within|under|of|to|about|approximately|exactly)\s+\d+\s+words?\b"
    r"|\bout\s+of\s+(?:5|10|100)\b(?!\s*%)"
    r"|\b(?:the|these|all)\s+(?:\d|two|three|four|five|six|seven|eight|nine|ten)\s+(?:given\s|provided\s)?passages\b",
    re.IGNORECASE,
)
"""Steps by their number, the length of a summary, the top of a scale, the number of passages."""

_ITEM_LINE = re.compile(r"^[ \t]*(?:[-*+•‣▪]|\(?\w{1,2}[.)])[ \t]+\S", re.MULTILINE)
_ITEM_SEPARATOR = re.compile(r",\s+(?:and|or)\s+|\s+(?:and|or)\s+|,\s+|;\s+(?:and\s+)?")
_LIST_OPENING = re.compile(r"\s(?:are|were|include[sd]?|including|namely|such\s+as|called)\b:?\s+|:\s+")
_APPOSITION = re.compile(r"[\s-]+(?:[^\s,]+\s+){0,3}[^\s,]+(?:,|\s[-–—])\s+")
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n\s*\n|$")
_COUNT = re.compile(r"(?<![\w.,$€£-])\d{1,2}(?![\w%°]|[.,:]\d)")
_MOST_COUNTED = 20
_LONGEST_SENTENCE = 500
_WORD_BEHIND = re.compile(r"[\s-]+[^\W\d]")
_COUNTED_ITEMS = re.compile(r"[\s-]+(?:\w+\s+)?(?:steps|ways|tips|methods|points|reasons|items)\b", re.IGNORECASE)


def own_number_ranges(answer: str, text: str, numbers: Iterable[Number]) -> Iterator[CharRange]:
    """Where numbers stand that say something about the answer itself; ``text`` is the answer without its markup.

    These are references to passages ("passage 3", "the three passages"), numbers of steps, the length of a summary ("in
    200 words"), the top of a scale ("out of 5"), and counts of what the answer lists itself ("the two countries are A
    and B").
    """
    yield from reference_ranges(answer)
    yield from (CharRange(*match.span()) for match in _PLACES.finditer(text))
    item_lines = [match.start() for match in _ITEM_LINE.finditer(answer)]
    for number in numbers:
        is_count = not number.digits or _COUNT.fullmatch(text, number.start, number.end)
        if is_count and _counts_own_list(number, text, item_lines):
            yield CharRange(number.start, number.end)


def _counts_own_list(number: Number, text: str, item_lines: Sequence[int]) -> bool:
    """True where as many items follow in the sentence, or in the lines below a sentence that ends with a colon."""
    count = int(number.amounts[0])
    if not 2 <= count <= _MOST_COUNTED:
        return False
    reach = min(number.end + _LONGEST_SENTENCE, len(text))
    end = _SENTENCE_END.search(text, number.end, reach)
    rest = text[number.end : end.start() if end else reach]
    if _WORD_BEHIND.match(rest) is None:
        return False
    is_before_items = rest.rstrip().endswith(":") and len(item_lines) - bisect_left(item_lines, number.end) >= count
    if is_before_items or (_COUNTED_ITEMS.match(rest) and len(item_lines) >= count):
        return True
    openings = [match.end() for match in _LIST_OPENING.finditer(rest)]
    apposition = None if number.digits else _APPOSITION.match(rest)
    openings += [apposition.end()] if apposition else []
    return any(len(_ITEM_SEPARATOR.split(rest[start:].strip(" ,"))) == count for start in openings)


Value: TypeAlias = AnswerValue | AnswerName


def _tells_period(value: AnswerValue, passage: PassageContent) -> bool:
    """Whether a sentence that says nothing of how often has the time between two: "lasts a month" for "monthly"."""
    text = passage.plain
    ends = [end.start() for end in _SENTENCE_END.finditer(text)]
    periods, often = set[int](), set[int]()
    for quantity in chain(number_quantities(numbers_in(text), text), phrases_in(text)):
        sentence = bisect_left(ends, quantity.start)
        for kind, size in quantity.readings:
            if kind is Kind.OFTEN:
                often.add(sentence)
            elif kind in _A_YEAR and any(size * times == _A_YEAR[kind] for _, times, _ in value.parts[0]):
                periods.add(sentence)
    return not periods <= often


class ValueMatcher:
    """Finds the unmatched values of one answer's spans; what a passage repeats is decided once."""

    def __init__(self, *, answer: str, parsed: ParsedAnswer, passages: Sequence[Passage]) -> None:
        joined, text, positions = without_gaps(answer, hide_markup(answer, parsed.marked))
        moved = parsed
        if joined != answer:  # words stand at other places
            edges = ((chars.char_start, chars.char_end) for chars in parsed.words)
            words = (CharRange(*(bisect_left(positions, edge) for edge in pair)) for pair in edges)
            moved = replace(parsed, words=tuple(words))
        values: list[Value] = [*answer_values(moved, joined, text), *answer_names(moved, text)]
        if moved is not parsed:
            spans = [(positions[value.chars.char_start], positions[value.chars.char_end - 1] + 1) for value in values]
            values = [replace(value, chars=CharRange(*span)) for value, span in zip(values, spans, strict=True)]
        ids = [reference.chars for reference in named_ids(answer, passages)]
        values = [value for value in values if not any(map(value.chars.overlaps, ids))]
        self._answer = answer
        self._all_values = sorted(values, key=lambda value: value.chars)
        self._parts: dict[tuple[int, int], frozenset[int]] = {}
        self._hold_against([passage_content(passage.text, passage.title) for passage in passages])

    def with_passage(self, passage: Passage) -> ValueMatcher:
        """The same answer, held against one passage more; neither it nor the other passages are read again."""
        matcher = copy(self)
        matcher._parts = self._parts.copy()
        matcher._hold_against([*self.passages, passage_content(passage.text, passage.title)])
        return matcher

    def _hold_against(self, passages: Sequence[PassageContent]) -> None:
        """A small number that counts what no passage counts is no value.

        How often something happens is one only where passages say that of one thing, and tell its period of no other.
        """
        self.passages = passages
        tells = any(isinstance(value, AnswerValue) and value.counted == Kind.OFTEN for value in self._all_values)
        often = {size for passage in passages for size in passage.sizes(Kind.OFTEN)} if tells else ()
        self._values = [
            value
            for value in self._all_values
            if isinstance(value, AnswerName)
            or not value.counted
            or any(value.counted in passage.counted_nouns for passage in passages)
            or (
                value.counted == Kind.OFTEN
                and len(often) == 1
                and (any(map(value.parts_in, passages)) or not any(_tells_period(value, one) for one in passages))
            )
        ]
        self._ends = [value.chars.char_end for value in self._values]

    def unmatched_values(self, span: CharRange, passage_indices: Sequence[int]) -> tuple[str, ...]:
        """The numbers, dates, times and names of the span that occur in none of these passages.

        Each is given as the answer writes it, once, in its order; a name is given whole. A value belongs to the span if
        it lies in it, a name also if the span lies in the name. Without passages of its own the span is held against
        all passages of the row. Compared are amounts ("1 million" is "1,000,000" and "one million"), months by name or
        number, times of day, and words of names without case, diacritics or possessive; a date must occur with all of
        its parts in one passage, the words of a name in any of them, also in other forms ("NY" for "New York").
        """
        ranges = self.unmatched_ranges(span, passage_indices)
        return tuple(dict.fromkeys(chars.of(self._answer) for chars in ranges))

    def unmatched_ranges(self, span: CharRange, passage_indices: Sequence[int]) -> list[CharRange]:
        """Where in the answer the values of ``unmatched_values`` stand, ascending."""
        indices = tuple(passage_indices) or tuple(range(len(self.passages)))
        return [value.chars for value in self.values_in(span) if not self._is_repeated(value, indices)]

    def values_in(self, span: CharRange) -> list[Value]:
        """The values that belong to the span, ascending."""
        last = bisect_left(self._values, span.char_end, key=lambda value: value.chars.char_start)
        first = bisect_left(self._ends, span.char_start + 1)
        return [
            value
            for value in self._values[first:last]
            if span.covers(value.chars) or (isinstance(value, AnswerName) and value.chars.covers(span))
        ]

    def _is_repeated(self, value: Value, passage_indices: Sequence[int]) -> bool:
        parts: frozenset[int] = frozenset()
        for index in passage_indices:
            key = id(value), index  # values live in ``_all_values``, which copies share
            if key not in self._parts:
                self._parts[key] = value.parts_in(self.passages[index])
            parts |= self._parts[key]
            if value.is_repeated_by(parts):
                return True
        return False

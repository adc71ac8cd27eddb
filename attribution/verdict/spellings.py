"""Values and names of an answer as its passages write them: "23:00" is read as "11 p.m." where a passage says so.

Words are compared by their spelling, values by what they amount to. Where a passage repeats a value in other words, the
verdict reads the answer as if it had these; where none repeats it, its words are none that passages have.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain, islice, pairwise

from attribeam.attribution.answers.answer_names import (
    PARTS_OF_THE_WEEK,
    AnswerName,
    PassageContent,
    Phrase,
    Range,
    other_form,
    version,
)
from attribeam.attribution.answers.markup import hide_markup
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, sentence_bounds
from attribeam.attribution.answers.plain_text import (
    CURRENCY_CODE,
    DATE,
    FUNCTION_WORDS,
    GROUPED_NUMBER,
    MONEY_BEFORE,
    ORDINAL_WORDS,
    VERSION,
    Kind,
    Quantity,
    Reading,
    clock_times_in,
    numbers_in,
    remembered,
)
from attribeam.attribution.answers.quantities import (
    OF_ONE,
    TIME_UNIT_BEHIND,
    in_other_units,
    number_quantities,
    phrases_in,
    unit_at,
)
from attribeam.attribution.answers.unmatched_values import AnswerValue, ValueMatcher, date_parts
from attribeam.attribution.verdict.texts import NOWHERE, WEEKDAYS, WORD_OR_MARK, carries_content, stem
from attribeam.schemas import CharRange, QARecord

_CURRENCIES = {
    name: frozenset(codes.split())
    for names, codes in (
        ("$ dollar", "usd aud cad hkd nzd sgd"), ("€ euro", "eur"), ("£ pound", "gbp"), ("¥", "jpy cny rmb"),
        ("yen", "jpy"), ("yuan", "cny rmb"), ("₹", "inr"), ("rupee", "inr pkr"), ("franc", "chf"),
        ("krona krone kronor kroner", "sek nok dkk isk"), ("peso", "mxn ars clp cop php"), ("zloty", "pln"),
        ("¢ cent", "usd eur aud cad hkd nzd sgd"), ("pence p", "gbp"),
    )
    for name in names.split()
}  # fmt: skip
"""The codes of the currencies that a sign or name may mean."""
_CURRENCY_NAME = "|".join(name for name in _CURRENCIES if name.isalpha() and len(name) > 1)
_MONEY_BEHIND = re.compile(
    rf"\s?(?:(?P<sign>[$€£¥₹¢]|{CURRENCY_CODE}\b|(?<!\d{{3}})(?<=\d)p\b)"
    rf"|(?:(?:U\.?S\.?|[A-Z][a-z]+)\s)?(?P<name>(?i:{_CURRENCY_NAME}))s?\b)"
)
_PERCENT_BEHIND = re.compile(r"\s?(?:%|per\s?cent(?:age\spoints?)?\b|basis[\s-]points?\b|bps?\b)", re.IGNORECASE)
_ORDINAL_ENDING = re.compile(r"(?:st|nd|rd|th)\b", re.IGNORECASE)
_ORDINAL_WORD = re.compile(rf"\b(?:{'|'.join(ORDINAL_WORDS)}|\w+ieth)$", re.IGNORECASE)
_PERCENT, _TIME, _DATE, _CENTURY, _ORDINAL, _VERSION = "%", "time", "date", "century", "ordinal", "version"
_FREQUENCY, _FOLD = "frequency", "fold"
_VERSION_BEFORE = re.compile(r"(?<!\w)(?:v(?:er(?:sion)?)?\.?\s?|release\s)$", re.IGNORECASE)
_ABOUT_BEFORE = re.compile(
    r"(?:(?<!\w)(?:about|around|approximately|approx\.|roughly|circa|ca?\.)\s|[~≈]\s?)$", re.IGNORECASE
)
_PART_BEFORE, _PART_BEHIND = re.compile(r"\w$|\d[.,]$"), re.compile(r"\w|[.,]\d")
_LONGEST_CURRENCY, _LONGEST_BEFORE, _AROUND = 5, 16, 60
_NUMBERING = frozenset(["no", "no.", "nos.", "nr.", "number", "numbers"])
"""Words before a number that say no more than it does, and are not read there: "bay No. 5" is bay 5."""
_KINDS, _LENGTHS = frozenset(map(str, Kind)), frozenset([Kind.SECONDS, Kind.MONTHS])
_TIMES_OF_DAY = frozenset([Kind.MINUTE, Kind.PERHAPS_MINUTE])
_HOW_OFTEN = frozenset([Kind.HOURS_A_DAY, Kind.TIMES_A_WEEK, Kind.TIMES_A_YEAR])
_READ_WHOLE = _HOW_OFTEN | {Kind.FOLD, Kind.SHARE, Kind.QUARTER}
"""Kinds of phrases that say something else than the numbers in them."""
_OF_SOMETHING = frozenset([Kind.COUNT, Kind.AMOUNT_OF_MEASURE])
_PLAIN_AMOUNTS = _OF_SOMETHING | {Kind.AMOUNT, Kind.AMOUNT_OF_TIME}
_ALIKE_LETTERS = 4
_MOST_PLACES = 256
"""How many places of a value are compared; the others of a value that is written more often are left out."""
_WORD_BEHIND = re.compile(r"[\s-]+[^\W\d_]")
_FRACTION = re.compile(r"\d\s?[/⁄]\s?\d(?!\d)|[½¼¾⅓⅔]")
_FRACTION_OR_WORD = re.compile(rf"(?<!\d){_FRACTION.pattern}|{WORD_OR_MARK.pattern}")
_SENTENCE = re.compile(r"(?:[^.!?\n]|\.(?=\w))+[.!?]*")
_TO_HALF_DAY = re.compile(r"\s?(?:-|–|—|to|until|till|and)\s?\d{1,2}(?::\d{2})?\s?[ap]\.?\s?m\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Written:
    """A value as a text has it: where it stands, also with its unit, what its unit may be, and what it may say.

    ``counts`` is False for ordinals, and where no word follows.
    """

    chars: CharRange
    whole: CharRange
    units: frozenset[str]
    readings: frozenset[Reading]
    counts: bool = False

    def says(self, parts: Iterable[Collection[Range]]) -> bool:
        """Whether it has a reading in one of the ranges of each part."""
        return all(
            any(kind == own and least <= size <= most for kind, least, most in part for own, size in self.readings)
            for part in parts
        )

    def is_of_unit(self, other: _Written) -> bool:
        """Whether both have the same unit, or none."""
        return bool(self.units & other.units) or self.units == other.units

    def is_of_other_unit(self, other: _Written) -> bool:
        """Whether the two have units, but not the same; dates, times of day and ordinals are nothing else."""
        if (_DATE in self.units) != (_DATE in other.units):
            return not (self.may_be_hour or other.may_be_hour)
        if (_ORDINAL in self.units) != (_ORDINAL in other.units):
            return self.counts or other.counts  # "minute 12" may be the 12th
        return bool(self.units and other.units) and self.units.isdisjoint(other.units)

    @property
    def may_be_hour(self) -> bool:
        """Whether it is a number that may be an hour, as in "from 9 to 7"."""
        return {Kind.AMOUNT, Kind.PERHAPS_MINUTE} <= {kind for kind, _ in self.readings}

    def amounts_to(self, parts: Iterable[Collection[Range]]) -> bool:
        """Whether it is an amount in one of the ranges, as rounded as it may be."""
        ranges = [(least, most) for part in parts for kind, least, most in part if kind == Kind.AMOUNT]
        return any(least <= size <= most for size in self.amounts for least, most in ranges)

    @property
    def amounts(self) -> set[Decimal]:
        """What it amounts to as it is written, in its own unit; nothing for a fraction."""
        is_part = any(kind == Kind.PERCENT for kind, _ in self.readings)
        return set() if is_part else {size for kind, size in self.readings if kind in _PLAIN_AMOUNTS}


def _with_unit(text: str, start: int, end: int, readings: Collection[Reading]) -> tuple[CharRange, frozenset[str]]:
    """The range of a number with the sign, code or name of its unit, and what it may count."""
    kinds = {str(kind) for kind, _ in readings}
    if Kind.PERHAPS_MINUTE in kinds or not _HOW_OFTEN.isdisjoint(kinds):
        return CharRange(start, end), frozenset([_DATE if Kind.PERHAPS_MINUTE in kinds else _FREQUENCY])
    named = _VERSION_BEFORE.search(text, max(start - _LONGEST_BEFORE, 0), start)
    if named or any(kind.startswith(_VERSION) for kind in kinds):
        return CharRange(named.start() if named else start, end), frozenset([_VERSION])
    before = MONEY_BEFORE.search(text, max(start - _LONGEST_CURRENCY, 0), start)
    behind = _MONEY_BEHIND.match(text, end)
    units = kinds - _KINDS  # "pounds" may be a weight
    if before or behind:
        name = (before[1] if before else behind["sign"] or behind["name"] if behind else "").lower()
        units |= _CURRENCIES.get(name, {name})
        return CharRange(before.start() if before else start, behind.end() if behind else end), frozenset(units)
    if Kind.CENTURY in kinds:
        time = TIME_UNIT_BEHIND.match(text, end)
        return CharRange(start, time.end() if time else end), frozenset([_CENTURY])
    is_part = (units or not kinds.isdisjoint(_LENGTHS)) and OF_ONE.match(text, end)
    after = is_part.end() if is_part else end
    percent, time, unit = _PERCENT_BEHIND.match(text, end), TIME_UNIT_BEHIND.match(text, after), unit_at(text, after)
    if percent or (not units and Kind.PERCENT in kinds and kinds.isdisjoint(_LENGTHS)):
        units.add(_PERCENT)
    if Kind.FOLD in kinds:
        units.add(_FOLD)
    if time or not _LENGTHS.isdisjoint(kinds):
        units.add(_TIME)
    if unit:
        units.add(unit[1])
    end = max(end, *(match.end() for match in (percent, time) if match), unit[0] if unit else 0)
    return CharRange(start, end), frozenset(units)


@remembered
def _written_in(text: str) -> tuple[_Written, ...]:
    """The values of a text; the numbers of a date or time are none of their own."""
    values, taken = list[_Written](), bytearray(len(text))
    dates = (Quantity(*match.span(), frozenset(_date_readings(match.group()))) for match in DATE.finditer(text))
    for time in (*dates, *clock_times_in(text)):
        chars = CharRange(time.start, time.end)
        values.append(_Written(chars, chars, frozenset([_DATE]), _time_readings(time, text)))
        taken[time.start : time.end] = b"\1" * (time.end - time.start)
    for match in VERSION.finditer(text):
        start, end = match.span()
        if not any(taken[start:end]) and not GROUPED_NUMBER.fullmatch(match.group()):
            readings = frozenset([version(match.group())])
            values.append(_Written(CharRange(start, end), *_with_unit(text, start, end, readings), readings))
            taken[start:end] = b"\1" * (end - start)
    quantities = chain(number_quantities(numbers_in(text), text), phrases_in(text))
    return (*values, *(_measured(number, text) for number in quantities if not any(taken[number.start : number.end])))


def _measured(quantity: Quantity, text: str) -> _Written:
    """A number or phrase of a text with its unit; "third" and "3rd" have none."""
    ending = _ORDINAL_ENDING.match(text, quantity.end)
    end = ending.end() if ending else quantity.end
    whole, units = _with_unit(text, quantity.start, end, quantity.readings)
    is_part = any(kind is Kind.PERCENT for kind, _ in quantity.readings)
    is_ordinal = bool(ending or _ORDINAL_WORD.search(text, quantity.start, end)) and not is_part
    if is_ordinal and units.isdisjoint((_CENTURY, _DATE)):
        whole, units = CharRange(quantity.start, end), frozenset([_ORDINAL])
    about = _ABOUT_BEFORE.search(text, max(whole.char_start - _LONGEST_BEFORE, 0), whole.char_start)
    whole = CharRange(about.start(), whole.char_end) if about else whole
    amounts = {(Kind.AMOUNT, size) for kind, size in quantity.readings if kind in _OF_SOMETHING}
    counts = _ORDINAL not in units and (bool(units) or _WORD_BEHIND.match(text, end) is not None)
    return _Written(CharRange(quantity.start, end), whole, units, quantity.readings | amounts, counts)


def _date_readings(date: str) -> Iterator[Reading]:
    for part in date_parts(date):
        yield from ((kind, least) for kind, least, _ in part)


def _time_readings(time: Quantity, text: str) -> frozenset[Reading]:
    """A time of day with a colon, and without "a.m." and "p.m.", is one of 24 hours, but for that of "5:30-7 p.m."."""
    hour, colon, minute = text[time.start : time.end].partition(":")
    if not colon or len(time.readings) == 1 or _TO_HALF_DAY.match(text, time.end):
        return time.readings
    return frozenset([(Kind.MINUTE, Decimal(60 * int(hour) + int(minute)))])


def passage_spellings(parsed: ParsedAnswer, record: QARecord, matcher: ValueMatcher) -> dict[int, str]:
    """For words of an answer that stand in a value or name which a passage writes in other words, the word there.

    It is "" for a word that has none, and for what no passage has, but the asker told of himself: "my 13-hour flight".
    """
    spellings = _Spellings(parsed, record.answer, matcher)
    return {**dict(spellings.spellings()), **dict.fromkeys(spellings.told_words(record.question), "")}


_OF_THE_ASKER = re.compile(r"\b(?:I|i(?!\.)|[Mm]y|[Ww]e|[Oo]ur)\b")
_HIS_OWN = re.compile(rf"\b(?:[Mm]y|[Oo]ur)((?:[\s-]+(?!(?:{'|'.join(FUNCTION_WORDS)})\b)\w+){{1,4}})")
_HALF_OF_DAY = re.compile(r"\d\s?[ap]\.?m\b", re.IGNORECASE)
_SUPPOSES = re.compile(r"\b(?:think|believe|heard|read|assum\w+|guess|told|understand|suppos\w+|saw|seen|says?|said)\b")
_READER = frozenset(["you", "your", "yours"])


def _told_of_himself(question: str) -> set[str]:
    """The stems of what an asker says of himself, but for what he only supposes or asks."""
    told = [match[1] for match in _HIS_OWN.finditer(question)]
    if _OF_THE_ASKER.search(question):
        statements = (sentence for sentence in _SENTENCE.findall(question) if not sentence.endswith("?"))
        told += [statement for statement in statements if not _SUPPOSES.search(statement)]
    halves = ("a.m.", "p.m.") if any(map(_HALF_OF_DAY.search, told)) else ()
    words = (*halves, *(word for text in told for word in WORD_OR_MARK.findall(text)))
    return {stem(word) for word in words if carries_content(word)}


class _Passages:
    """What the passages of a row write, to be looked up by what it says; they are read when first asked."""

    def __init__(self, contents: Sequence[PassageContent]) -> None:
        self.contents = contents
        self._around: dict[int, frozenset[str]] = {}

    def has(self, words: str) -> bool:
        """Whether one has these words, in any case, and not as a part of longer ones."""
        return any(True for _ in self._ranges_of(words))

    def has_text(self, text: str) -> bool:
        """Whether one has this text, in any case."""
        return any(text.lower() in passage for passage in self._lowered)

    def most_alike(self, words: str, around: frozenset[str]) -> int:
        """How many stems around them a place of these words shares at most; -1 where there is none."""
        places = islice(self._ranges_of(words), _MOST_PLACES)
        return max((len(around & _stems_around(text, chars)) for text, chars in places), default=-1)

    def _ranges_of(self, words: str) -> Iterator[tuple[str, CharRange]]:
        """The places of words in passages, in any case, and not as a part of longer ones."""
        for text in self._lowered:
            yield from ((text, chars) for chars in _ranges_in(words.lower(), text))

    @cached_property
    def _lowered(self) -> list[str]:
        return [content.plain.lower() for content in self.contents]

    @cached_property
    def words(self) -> dict[str, str]:
        """Its words as they are written, by their lower case; one with a capital counts first."""
        words = dict[str, str]()
        for content in self.contents:
            for word in WORD_OR_MARK.findall(content.plain):
                lowered = word.lower()
                if words.setdefault(lowered, word) == lowered:
                    words[lowered] = word
        return words

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(map(stem, self.words))

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        return frozenset(lowered[:_ALIKE_LETTERS] for lowered, word in self.words.items() if word != lowered)

    def has_alike(self, name: str) -> bool:
        """Whether a word with a capital begins as the name of one word does: "Peru" and "peruvians"."""
        return name[:_ALIKE_LETTERS] in self._beginnings

    @cached_property
    def _written(self) -> dict[str, tuple[list[Decimal], list[int]]]:
        """For each kind the sizes, ascending, and which places have them."""
        sizes = defaultdict[str, set[tuple[Decimal, int]]](set)
        for index, (value, _) in enumerate(self._values):
            for kind, size in value.readings:
                sizes[kind].add((size, index))
        return {
            kind: ([size for size, _ in pairs], [index for _, index in pairs])
            for kind, entries in sizes.items()
            for pairs in [sorted(entries)]
        }

    @cached_property
    def _values(self) -> list[tuple[_Written, str]]:
        return [(value, content.plain) for content in self.contents for value in _written_in(content.plain)]

    def values(self, parts: Sequence[Collection[Range]]) -> Iterator[tuple[_Written, str, frozenset[str]]]:
        """The values that have a reading in each part, in their order, each with its passage and the stems around."""
        chosen = set[int]()
        for kind, least, most in parts[0] if parts else ():
            sizes, indices = self._written.get(kind, ([], []))
            first = bisect_left(sizes, least)
            chosen.update(indices[first : min(bisect_right(sizes, most), first + _MOST_PLACES)])
        for index in sorted(chosen):
            value, text = self._values[index]
            if value.says(parts):
                if index not in self._around:
                    self._around[index] = _stems_around(text, value.whole)
                yield value, text, self._around[index]


class _Spellings:
    """What the words of one answer are read as."""

    def __init__(self, parsed: ParsedAnswer, answer: str, matcher: ValueMatcher) -> None:
        self._parsed, self._answer, self._matcher = parsed, hide_markup(answer, parsed.marked), matcher
        self._passages = _Passages(matcher.passages)
        self._starts = [word.char_start for word in parsed.words]

    @cached_property
    def _written(self) -> dict[int, list[_Written]]:
        by_start = defaultdict[int, list[_Written]](list)
        for value in _written_in(self._answer):
            by_start[value.chars.char_start].append(value)
        return by_start

    def spellings(self) -> Iterator[tuple[int, str]]:
        everything = CharRange(0, len(self._answer))
        unmatched = {*self._matcher.unmatched_ranges(everything, ())}
        taken = bytearray(len(self._answer))
        phrases = phrases_in(self._answer)
        for phrase in phrases:
            is_read_whole = not _READ_WHOLE.isdisjoint(dict(phrase.readings)) or _FRACTION.search(
                self._answer, phrase.start, phrase.end
            )
            if elsewise := dict(self._phrase_elsewise(phrase) if is_read_whole else ()):
                yield from elsewise.items()
                taken[phrase.start : phrase.end] = b"\1" * (phrase.end - phrase.start)
        for value in self._matcher.values_in(everything):
            start, end = value.chars.char_start, value.chars.char_end
            if any(taken[start:end]):
                continue
            taken[start:end] = b"\1" * (end - start)
            if isinstance(value, AnswerName):
                if value.chars not in unmatched:
                    yield from self._name_elsewise(value)
            elif value.chars in unmatched:
                yield from self._nowhere(value.chars)
            elif value.terms:
                for place, text, _ in islice(self._passages.values(value.terms[-1].parts), 1):
                    yield from self._aligned(value.chars, place.chars.of(text))
            else:
                yield from self._value_elsewise(value)
        for phrase in phrases:
            if not any(taken[phrase.start : phrase.end]):
                yield from self._phrase_elsewise(phrase)
        yield from self._parts_of_the_week()
        words = (self._word(word).lower() for word in range(len(self._parsed.words)))
        for word, (label, number) in enumerate(pairwise(words)):
            if label in _NUMBERING and number[0].isdigit():
                yield word, ""

    def _parts_of_the_week(self) -> Iterator[tuple[int, str]]:
        """Weekdays and weekends, not to be read where a passage has a range or a list of all their days."""
        is_named = any(map(self._answer.lower().__contains__, PARTS_OF_THE_WEEK))
        for word in range(len(self._parsed.words) if is_named else 0):
            days = PARTS_OF_THE_WEEK.get(self._word(word).lower().removesuffix("s"))
            if days and stem(self._word(word)) not in self._passages.stems:
                named = (
                    {*text.days, *(day.removesuffix("s") for day in text.words)} for text in self._passages.contents
                )
                if any(map(days.issubset, named)):
                    yield word, ""

    def told_words(self, question: str) -> list[int]:
        """The words of sentences to the reader that he told of himself, and no passage has."""
        told = _told_of_himself(question)
        told -= self._passages.stems if told else told
        words = range(len(self._parsed.words)) if told else ()
        to_reader = [
            word
            for start, end in sentence_bounds(self._parsed)
            if not _READER.isdisjoint(self._word(word).lower() for word in words[start:end])
            for word in words[start:end]
        ]
        return [word for word in to_reader if stem(self._word(word)) in told]

    def _with_neighbours(self, chars: CharRange) -> str:
        """The text of a value, from the word before it to the word behind it."""
        first = max(bisect_left(self._starts, chars.char_start) - 1, 0)
        last = min(bisect_left(self._starts, chars.char_end), len(self._starts) - 1)
        words = self._parsed.words
        return self._answer[words[first].char_start : words[last].char_end]

    def _nowhere(self, chars: CharRange) -> Iterator[tuple[int, str]]:
        """The words of a value that no passage repeats, where passages have them all, but in other values."""
        words = {word: self._word(word) for word in self._words_of(chars) if carries_content(self._word(word))}
        if all(map(self._passages.has, words.values())):
            yield from ((word, NOWHERE + written) for word, written in words.items())

    def _value_elsewise(self, value: AnswerValue) -> Iterator[tuple[int, str]]:
        if self._passages.has_text(self._with_neighbours(value.chars)):
            return
        written = self._written.get(value.chars.char_start, ())
        written = [number for number in written if number.chars.char_end >= value.chars.char_end]
        own = next((number for number in written if number.says(value.parts)), written[0] if written else None)
        if own is None:
            return
        around = _stems_around(self._answer, own.whole)
        as_written = self._passages.most_alike(own.whole.of(self._answer), around)
        if 2 * as_written >= len(around):
            return
        times = [size for kind, size in own.readings if kind in _TIMES_OF_DAY]
        parts = [[(kind, size, size) for kind in _TIMES_OF_DAY for size in times]] if value.minutes else value.parts
        yield from self._elsewise(own, parts, as_written)

    def _phrase_elsewise(self, phrase: Quantity) -> Iterator[tuple[int, str]]:
        """A phrase that is too common to be a value, "half an hour", where passages lack a word of it."""
        own = next(
            (
                number
                for number in self._written[phrase.start]
                if number.chars.char_end == phrase.end and phrase.readings <= number.readings
            ),
            None,
        )
        if own is not None and not all(
            stem(self._word(word)) in self._passages.stems for word in self._words_of(own.whole)
        ):
            sizes = [(kind, size) for kind, size in phrase.readings if kind in _LENGTHS]
            sizes = sizes or [(kind, size) for kind, size in phrase.readings if kind is not Kind.AMOUNT]
            shares = ((Kind.AMOUNT, size) for kind, size in sizes if kind is Kind.PERCENT)
            counts = ((Kind.AMOUNT, size) for kind, size in sizes if kind is Kind.OTHER_AMOUNT)
            yield from self._elsewise(
                own, [[(kind, size, size) for kind, size in (*in_other_units(sizes), *shares, *counts)]]
            )

    def _elsewise(
        self, own: _Written, parts: Sequence[Collection[Range]], as_written: int = -1
    ) -> Iterator[tuple[int, str]]:
        """The words of a value in those of the place that says the same of the same, if one has its unit or none.

        It stays as it is where such a place, with ``as_written`` stems of those around it, says as much.
        """
        around = _stems_around(self._answer, own.whole)
        best, rival = (False, -1, own, ""), -1
        for value, text, stems in self._passages.values(parts):
            alike = len(around & stems)
            same = own.is_of_unit(value)
            if own.is_of_other_unit(value) or (same and not value.says(_measures(parts, own.units & value.units))):
                rival = max(rival, alike)
            elif (same, alike) > best[:2] and (same or value.amounts_to(parts)):
                best = same, alike, value, text
        same, alike, nearest, text = best
        if rival > max(alike, as_written) and not same:
            yield from self._nowhere(own.chars)
        elif alike > as_written:
            mine, other = (own.whole, nearest.whole) if same else (own.chars, nearest.chars)
            yield from self._aligned(mine, other.of(text))

    def _name_elsewise(self, name: AnswerName) -> Iterator[tuple[int, str]]:
        """The words of a name as in its other form, "US" for "United States", or "" where it has no word for them.

        Days of the week that a passage has in a range, as "Monday to Friday", stay as they are; so does a word that
        begins as one there, "Sweden" as "Swedish".
        """
        parts = [
            part
            for part in name.parts
            if not any(passage.words.issuperset(part.words) for passage in self._passages.contents)
            and (part.words[-1].removesuffix("s") not in WEEKDAYS or self._form(part.words))
        ]
        if not parts:
            return
        phrase = tuple(chain.from_iterable(part.words for part in parts))
        initials = "".join(word[0] for word in phrase)
        form = self._form(phrase)
        if not form and len(phrase) > 1 and any(initials.upper() in text.capitals for text in self._passages.contents):
            form = (initials,)
        if len(phrase) == 1 and self._passages.has_alike(*phrase):
            return
        written = [self._passages.words.get(word.lower(), "") for word in form]
        words = [word for part in parts for word in self._words_of(part.chars)]
        words = [word for word in words if stem(self._word(word)) not in self._passages.stems]
        yield from zip(words, [*(written if all(written) else ()), *[""] * len(words)], strict=False)

    def _form(self, phrase: Phrase) -> Phrase:
        return next(filter(None, (other_form(phrase, passage) for passage in self._passages.contents)), ())

    def _word(self, word: int) -> str:
        return self._parsed.words[word].of(self._answer)

    def _words_of(self, chars: CharRange) -> list[int]:
        first, last = (bisect_left(self._starts, position) for position in (chars.char_start, chars.char_end))
        return [
            word
            for word in range(first, last)
            if self._parsed.words[word].char_end <= chars.char_end and _is_compared(self._word(word))
        ]

    def _aligned(self, chars: CharRange, text: str) -> Iterator[tuple[int, str]]:
        """The words of a range of the answer that are others there, as many as there are; the rest is not read.

        Ranges of as many words are read in the order there.
        """
        mine = {word: stem(self._word(word)) for word in self._words_of(chars)}
        theirs = {stem(word): word for word in _FRACTION_OR_WORD.findall(text) if _is_compared(word)}
        if len(theirs) < len(mine):
            same = theirs.keys() & mine.values()
            mine = {word: stemmed for word, stemmed in mine.items() if stemmed not in same}
            theirs = {stemmed: word for stemmed, word in theirs.items() if stemmed not in same}
        elif len(theirs) > len(mine):
            more = [stemmed for stemmed in theirs if stemmed not in mine.values()][len(mine) - len(theirs) :]
            theirs = {stemmed: word for stemmed, word in theirs.items() if stemmed not in more}
        for word, written in zip(mine, [*theirs.values(), *[""] * len(mine)], strict=False):
            if stem(written) != mine[word]:
                yield word, written


def _ranges_in(words: str, text: str) -> Iterator[CharRange]:
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        if _PART_BEFORE.search(text[max(start - 2, 0) : start]) is None and _PART_BEHIND.match(text, end) is None:
            yield CharRange(start, end)
        start = text.find(words, start + 1)


def _measures(parts: Sequence[Collection[Range]], units: Collection[str]) -> list[Collection[Range]]:
    """Of each part what it is in these units, if it is a measure: "10 kg" are no 10 pounds."""
    measures = [[reading for reading in part if reading[0] in units] for part in parts]
    return [part for part in measures if part]


def _is_compared(word: str) -> bool:
    """Whether a word of a value counts: "May" and short units do."""
    return carries_content(word) or (word.isalpha() and (word == "May" or word.lower() not in FUNCTION_WORDS))


def _stems_around(text: str, chars: CharRange) -> frozenset[str]:
    around = text[max(chars.char_start - _AROUND, 0) : chars.char_end + _AROUND]
    return frozenset([stem(word) for word in WORD_OR_MARK.findall(around) if carries_content(word)])

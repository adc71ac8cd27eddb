"""The words, numbers and months of passages, in the form in which values are compared."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cached_property
from itertools import pairwise

from attribeam.attribution.answers.amounts import (
    clock_times_in,
    dotted_minutes_in,
    fractions_in_words,
    measured_sizes,
    other_amounts,
    other_percentages,
)
from attribeam.attribution.answers.numbers_and_dates import (
    DOTTED_DATE,
    ISO_DATE,
    MONTHS,
    NUMBER,
    SLASHED_DATE,
    VERSION,
    Duration,
    amounts,
    clock_times,
    counts_time,
    durations_of,
    fractions_in_percent,
    joint_durations,
    mixed_number,
    unit_durations,
    worded_amount,
    worded_numbers,
)
from attribeam.attribution.answers.plain_text import FUNCTION_WORDS, plain_text, remembered
from attribeam.schemas import Passage

_WORD = re.compile(r"[^\W_]+")
_FRACTION_WORD = re.compile(r"half|quarter", re.IGNORECASE)
_DIGIT = re.compile(r"\d")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_YEAR = re.compile(r"(?<![\d.,$€£])(?:1\d|20)\d\d(?!\d|[.,]\d|\s?%)")
_CENTURY = re.compile(r"\b(1\d|2[01])(?:st|nd|rd|th)[\s-]century\b(?!,?\sB\.?\s?C)", re.IGNORECASE)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WORD_BEHIND = re.compile(r"[\s-]+([^\W\d_]{3,})")
COUNTED_LETTERS = 5
_POSSESSIVE = re.compile(r"'s\b")
_FULL_STOP_AFTER_LETTER = re.compile(r"\.(?<=\b\w\.)(?=\w\b|\W|$)")
_BETWEEN_PHRASES = re.compile(r"[.,;:!?()\n]")
_CAPITALISED_PREFIX = re.compile(r"([A-Z])\w*")
SMALL_WORDS = frozenset({"of", "the", "and", "for", "de", "&"})


class PassageContent:
    """What one passage, its title included, says in comparable form; each part is read when first asked for."""

    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    @cached_property
    def _plain(self) -> str:
        return plain_text(f"{self._passage.title or ''}\n{self._passage.text}")

    @cached_property
    def words(self) -> frozenset[str]:
        """Words in lower case, without diacritics; "OutdoorSeating" counts as one word and as two."""
        words = comparable_words(self._plain)
        if _CAMEL_CASE.search(self._plain):
            words += comparable_words(_CAMEL_CASE.sub(" ", self._plain))
        return frozenset(words)

    @cached_property
    def numbers(self) -> frozenset[Decimal]:
        """Every amount that may be meant by its numbers, fractions ("two and a half") and times of day included."""
        numbers = {amount for meant, _ in self._found for amount in meant} | self._date_numbers
        if self._has_fractions:
            mixed = (mixed_number(self._plain, end, one)[0] for meant, end in self._found for one in meant)
            numbers |= {*mixed, *clock_times(self._plain)}
        return frozenset(numbers)

    @cached_property
    def numbers_without_time(self) -> frozenset[Decimal]:
        """Its numbers apart from those that count units of time."""
        found = ((meant, end) for meant, end in self._found if not counts_time(self._plain, end))
        return frozenset({amount for meant, _ in found for amount in meant} | self._date_numbers)

    @cached_property
    def durations(self) -> frozenset[Duration]:
        """Every length of time that may be meant, "a week" and "half an hour" included."""
        counted = (one for meant, end in self._found for one in durations_of(self._plain, end, meant))
        joint = (duration for _, _, duration in joint_durations(self._plain))
        return frozenset((*counted, *unit_durations(self._plain), *joint))

    @cached_property
    def other_numbers(self) -> frozenset[Decimal]:
        """Amounts that it does not write as one plain number: "a dozen", "half a million", "60 cents"."""
        return frozenset(other_amounts(self._plain))

    @cached_property
    def other_percentages(self) -> frozenset[Decimal]:
        """Percentages in other words: "half a point", "25 basis points"."""
        return frozenset(other_percentages(self._plain))

    @cached_property
    def worded_fractions(self) -> frozenset[Decimal]:
        """Its fractions in words before a measure: 0.5 for "half a cup"."""
        return frozenset(fractions_in_words(self._plain))

    @cached_property
    def sizes(self) -> frozenset[tuple[str, Decimal]]:
        """What its measures may be, in base units: ("mass", 1500) for "1.5 kg"."""
        return frozenset(measured_sizes(self._plain))

    @cached_property
    def fractions_in_percent(self) -> frozenset[Decimal]:
        """Its fractions in words, as percent."""
        return frozenset(fractions_in_percent(self._plain))

    @cached_property
    def months(self) -> frozenset[int]:
        """Months that it names, 1 to 12."""
        named = {month for name, month in MONTHS.items() if name in self.words}
        if self._has_digits:
            dates = (*ISO_DATE.finditer(self._plain), *DOTTED_DATE.finditer(self._plain))
            named |= {int(match.group(2)) for match in dates}
            named |= {int(one) for match in SLASHED_DATE.finditer(self._plain) for one in match.group(1, 2)}
        return frozenset(named)

    @cached_property
    def centuries(self) -> frozenset[int]:
        """The centuries that it names, "19th century" (from the 10th on), or whose years it names, "1848"."""
        years = (int(year) // 100 + 1 for year in _YEAR.findall(self._plain))
        named = (int(number) for number in _CENTURY.findall(self._plain))
        return frozenset((*years, *named))

    @cached_property
    def clock_minutes(self) -> frozenset[int]:
        """Minutes after midnight that its times of day may mean."""
        return frozenset(one for time in clock_times_in(self._plain) for one in time.minutes)

    @cached_property
    def dotted_minutes(self) -> frozenset[int]:
        """Minutes after midnight that numbers like "18.30" may mean."""
        return frozenset(dotted_minutes_in(self._plain))

    @cached_property
    def counted_nouns(self) -> frozenset[str]:
        """Words behind a number, cut to their first five letters: "moons" of "three moons"."""
        ends = [end for _, end in self._found]
        behind = (_WORD_BEHIND.match(self._plain, end) for end in ends)
        return frozenset(match[1].lower()[:COUNTED_LETTERS] for match in behind if match)

    def names_before(self, name: str) -> frozenset[str]:
        """Capitalised words right before a capitalised word, all in lower case: first names before a surname."""
        pattern = re.compile(rf"\b([A-Z]\w+)\.?\s+({re.escape(name)})\b", re.IGNORECASE)
        found = (match for match in pattern.finditer(self._plain) if match[1][0].isupper() and match[2][0].isupper())
        return frozenset(match[1].lower() for match in found)

    @cached_property
    def names_every_day(self) -> bool:
        """Whether it names all days of the week."""
        return self.words.issuperset(_DAYS)

    @cached_property
    def capitals(self) -> frozenset[str]:
        """Words all in capitals, without full stops: "US" for "U.S."."""
        undotted = _FULL_STOP_AFTER_LETTER.sub("", self._plain)
        return frozenset(word for word in _WORD.findall(undotted) if word.isupper())

    @cached_property
    def capitalised(self) -> frozenset[str]:
        """Words with a capital first letter, as they are written."""
        return frozenset(word for word in _WORD.findall(self._plain) if word[0].isupper())

    @cached_property
    def joined_words(self) -> frozenset[str]:
        """Neighbouring words written as one: "wifi" for "Wi-Fi" and "wi fi"."""
        words = comparable_words(self._plain)
        return frozenset(map("".join, pairwise(words)))

    @cached_property
    def versions(self) -> frozenset[str]:
        """Numbers of three or more parts with full stops between them, as they are written: "4.8.2"."""
        return frozenset(match.group() for match in VERSION.finditer(self._plain))

    @cached_property
    def initials(self) -> tuple[str, ...]:
        """First letters of its runs of capitalised words, one string per run: "un" for "the United Nations"."""
        runs = [""]
        for chunk in self._plain.split():
            capitalised = _CAPITALISED_PREFIX.match(chunk)
            rest = chunk
            if capitalised:
                runs[-1] += capitalised[1].lower()
                rest = chunk[capitalised.end() :]
            if rest and rest.lower() not in SMALL_WORDS:
                runs.append("")
        return tuple(run for run in runs if len(run) > 1)

    @cached_property
    def content_initials(self) -> str:
        """First letters of its words in lower or upper case, in runs without function words: "bmi" is in it for "body
        mass index". Blanks separate runs."""
        runs = _BETWEEN_PHRASES.split(self._plain.lower())
        words = (_WORD.findall(run) for run in runs)
        return " ".join("".join(" " if one in FUNCTION_WORDS else one[0] for one in run) for run in words)

    @cached_property
    def _found(self) -> tuple[tuple[frozenset[Decimal], int], ...]:
        """What each number may amount to, and where it ends."""
        found = [(frozenset({worded_amount(match.group())}), match.end()) for match in worded_numbers(self._plain)]
        if self._has_digits:
            found += [(frozenset(amounts(match)), match.end()) for match in NUMBER.finditer(self._plain)]
        return tuple(found)

    @cached_property
    def _date_numbers(self) -> frozenset[Decimal]:
        dates = ISO_DATE.finditer(self._plain) if self._has_digits else ()
        return frozenset(Decimal(part) for match in dates for part in match.groups())

    @cached_property
    def _has_fractions(self) -> bool:
        return _FRACTION_WORD.search(self._plain) is not None

    @cached_property
    def _has_digits(self) -> bool:
        return _DIGIT.search(self._plain) is not None


@remembered
def _known_content(text: str, title: str | None) -> PassageContent:
    return PassageContent(Passage(text=text, title=title))


def content_of(passage: Passage) -> PassageContent:
    """What a passage says; logs repeat their passages, so that of the last ones is remembered."""
    return _known_content(passage.text, passage.title)


def comparable_words(text: str) -> list[str]:
    """The words of a text as ``PassageContent.words`` has them; "U.S." is "us", and a possessive 's is left out."""
    plain = _POSSESSIVE.sub("", plain_text(text).lower())
    return _WORD.findall(_FULL_STOP_AFTER_LETTER.sub("", plain))

"""Masks what should not be written: in a text, in the values of an Arrow array, and in a whole record.

A mask has as many characters as what it hides, so every offset stays valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from attribeam.logs.privacy.card_numbers import card_numbers
from attribeam.logs.privacy.email_addresses import email_addresses
from attribeam.logs.privacy.own_patterns import SlowPatternError, own_ranges
from attribeam.logs.privacy.phone_numbers import phone_numbers
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.schemas import CharRange, Passage, QARecord

MASK = "█"


@dataclass(frozen=True, slots=True)
class Redactor:
    """Finds and masks what the settings ask for; equal settings mask the same everywhere."""

    settings: PrivacySettings

    def ranges(self, text: str) -> tuple[CharRange, ...]:
        """What is to be masked in a text: ascending ranges that do not touch.

        Raises:
            SlowPatternError: if one of the user's patterns takes too long.
        """
        return tuple(_united(chain(self._usual(text), own_ranges(self.settings.own_patterns, text))))

    def masked(self, text: str) -> str:
        """The text with its masks.

        Raises:
            SlowPatternError: if one of the user's patterns takes too long.
        """
        return with_masks(text, self.ranges(text)) if self.settings.masks else text

    def mask(self, text: str) -> str:
        """The text with its masks, or all of it masked where one of the user's patterns takes too long."""
        try:
            return self.masked(text)
        except SlowPatternError:
            return MASK * len(text)

    def _usual(self, text: str) -> Iterator[CharRange]:
        if self.settings.redact:
            yield from email_addresses(text)
            yield from card_numbers(text)
            yield from phone_numbers(text)


def with_masks(text: str, ranges: Iterable[CharRange]) -> str:
    """The text with every character of the ascending ``ranges`` masked."""
    parts, last = [], 0
    for chars in ranges:
        parts += [text[last : chars.char_start], MASK * (chars.char_end - chars.char_start)]
        last = chars.char_end
    return "".join([*parts, text[last:]])


def _united(ranges: Iterable[CharRange]) -> Iterator[CharRange]:
    """Ranges that overlap or touch as one, ascending."""
    start = end = 0
    for chars in sorted(ranges, key=lambda one: one.char_start):
        if chars.char_start > end and end > start:
            yield CharRange(start, end)
        if chars.char_start > end or end == start:
            start = chars.char_start
        end = max(end, chars.char_end)
    if end > start:
        yield CharRange(start, end)


def masked_record(record: QARecord, redactor: Redactor) -> QARecord:
    """A record as it may be shown: ids and texts masked; it holds no extra columns, which are not shown from a log."""
    mask = redactor.mask
    return replace(
        record,
        record_id=mask(record.record_id),
        question=mask(record.question),
        answer=mask(record.answer),
        passages=tuple(
            Passage(mask(one.text), _mask_if_any(one.title, redactor), _mask_if_any(one.passage_id, redactor))
            for one in record.passages
        ),
        generator=_mask_if_any(record.generator, redactor),
        extra_columns=(),
    )


def _mask_if_any(text: str | None, redactor: Redactor) -> str | None:
    return None if text is None else redactor.mask(text)

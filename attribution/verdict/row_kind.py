"""What an answer was asked for, as its row shows: an answer to a question, a summary, or a text from records.

Answers of the three kinds err in different ways, and how often they err differs, so a verdict may weigh what it
measures of an answer by its kind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from statistics import median
from typing import Generic, TypeVar

from pydantic import Discriminator, Tag

from attribeam.attribution.verdict.record_fields import RecordLine
from attribeam.schemas.json_file import ALTERNATIVE, Form

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

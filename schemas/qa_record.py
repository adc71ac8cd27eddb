"""One question-answer row of a RAG log, as the rest of the system sees it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from schemas.char_range import CharRange


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrieved passage. ``title`` and ``passage_id`` are None where the log has none."""

    text: str
    title: str | None = None
    passage_id: str | None = None


@dataclass(frozen=True, slots=True)
class RowSource:
    """Where a row was read: the input file and the 0-based row within that file."""

    source_file: str
    source_row: int


@dataclass(frozen=True, slots=True)
class QARecord:
    """One valid row of the input.

    ``target_spans`` is None where the row has none. ``extra_columns`` holds (column, value) pairs in the order
    of ``--extra-columns``; the values are plain Python values of that column's Arrow type.
    """

    record_id: str
    question: str
    passages: tuple[Passage, ...]
    answer: str
    source: RowSource
    target_spans: tuple[CharRange, ...] | None = None
    answered_at: datetime | None = None
    generator: str | None = None
    extra_columns: tuple[tuple[str, object], ...] = ()

"""Answers whose spans are labelled as supported by the passages or not, and in which way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from attribeam.lab.evaluation.datasets.dataset_file import DataRow, read_rows
from attribeam.lab.evaluation.datasets.row_parts import passage_of, span_chars
from attribeam.schemas import CharRange, QARecord, RowSource

SHIPPED_ROWS = Path(__file__).with_name("support_rows.jsonl")
"""The rows that were written for this project."""

EVERYDAY_ROWS = Path(__file__).with_name("everyday_rows.jsonl")
"""More of them: short, freely worded answers over help pages, policies, leaflets and the like."""


class SpanTruth(StrEnum):
    """The kinds of labelled spans; the passages support the first two and not the others."""

    SUPPORTED = "supported"
    PARAPHRASE = "paraphrase"
    WRONG_NUMBER = "wrong number"
    WRONG_NAME = "wrong name"
    WRONG_DATE = "wrong date"
    INVENTED_CLAUSE = "invented clause"
    TRUE_BUT_ABSENT = "true but absent"
    CONTRADICTED = "contradicted"

    @property
    def supported(self) -> bool:
        """Whether the passages say it, in the same or in other words."""
        return self in (SpanTruth.SUPPORTED, SpanTruth.PARAPHRASE)


@dataclass(frozen=True, slots=True)
class SupportAnswer:
    """One answer; ``truths`` holds the kind of each of its target spans, of which there is at least one."""

    record: QARecord
    truths: tuple[SpanTruth, ...]

    @property
    def truth_of(self) -> dict[CharRange, SpanTruth]:
        """The kind of each target span, by its range."""
        return dict(zip(self.record.target_spans or (), self.truths, strict=True))


def load_support_rows(path: Path) -> tuple[SupportAnswer, ...]:
    """The answers of a ``.jsonl`` or ``.jsonl.xz`` file, in order.

    A row has ``record_id``, ``question``, ``answer``, ``passages`` (with ``passage_id``, ``text`` and ``title``, which
    may be null) and ``spans`` (with ``text``, ``occurrence``, ``supported`` and ``kind``). A span lies where its
    ``text`` occurs in the answer; ``occurrence``, counted from 1, says which place is meant if there are several.

    Raises:
        DataError: if the file cannot be read or a row is faulty; the message names row and field, not the text.
    """
    return tuple(_answer(row, path) for row in read_rows(path))


def _answer(row: DataRow, path: Path) -> SupportAnswer:
    answer = row.text("answer")
    spans = row.objects("spans")
    passages = row.objects("passages")
    if not spans or not passages:
        raise row.error("spans" if passages else "passages", "should have at least one item, was empty")
    chars = [span_chars(span, answer) for span in spans]
    if len(set(chars)) < len(chars):
        raise row.error("spans", f"should have {len(chars)} different ranges, some are equal")
    record = QARecord(
        record_id=row.text("record_id"),
        question=row.text("question"),
        passages=tuple(passage_of(passage) for passage in passages),
        answer=answer,
        source=RowSource(path.name, row.row),
        target_spans=tuple(chars),
    )
    return SupportAnswer(record, tuple(_truth(span) for span in spans))


def _truth(span: DataRow) -> SpanTruth:
    kind = span.text("kind")
    if kind not in [*SpanTruth]:
        raise span.error("kind", f"should be one of {[*map(str, SpanTruth)]}, was: {kind!r}")
    truth = SpanTruth(kind)
    if span.boolean("supported") is not truth.supported:
        raise span.error("supported", f"should be {str(truth.supported).lower()} for kind {kind!r}, was the opposite")
    return truth

"""Answers with labels from any source, and the rows that were left out.

A labelled answer says where each of its target spans comes from. Of a judged answer people said whether the passages
support it: they marked characters that are not supported, or they judged the answer as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attribeam.schemas import CharRange, QARecord


@dataclass(frozen=True, slots=True, order=True)
class PassageRange:
    """Characters of one passage's text: what a person marked as a span's source, or what a method found."""

    passage_index: int
    chars: CharRange


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """One answer and where each of its target spans comes from.

    Attributes:
        record: the answer; its ``target_spans`` are given, one or more.
        gold_passages: for each target span the passages that count as right, at least one; the whole tuple is empty if
            the data set labels none.
        gold_evidence: for each target span the marked source characters; empty where the data set marks none.
        citations: for each target span the passages that the answer itself cites for it, in its order; some may not
            exist, and empty where the data set keeps no citations.

    Raises:
        ValueError: if a span has no gold passage, or one that the record does not have.
    """

    record: QARecord
    gold_passages: tuple[frozenset[int], ...] = ()
    gold_evidence: tuple[tuple[PassageRange, ...], ...] = ()
    citations: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        spans, passages = len(self.spans), len(self.record.passages)
        if not spans:
            raise ValueError("a labelled answer should have target spans, has none")
        for name in ("gold_passages", "gold_evidence", "citations"):
            labels = len(getattr(self, name))
            if labels not in (0, spans):
                raise ValueError(f"{name} should be given for all {spans} spans, was for {labels}")
        for gold in self.gold_passages:
            if not gold or min(gold) < 0 or max(gold) >= passages:
                raise ValueError(f"gold passages should lie in [0, {passages}), were: {sorted(gold)}")

    @property
    def spans(self) -> tuple[CharRange, ...]:
        """The target spans."""
        return self.record.target_spans or ()


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A row left out of the evaluation, and why; ``row`` is 0-based within its file, named if the data has several."""

    row: int
    reason: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class LabelledDataset:
    """All usable answers of a data file, in its order, and the rows that were left out."""

    answers: tuple[LabelledAnswer, ...]
    skipped: tuple[SkippedRow, ...] = ()

    def first(self, count: int) -> LabelledDataset:
        """The first ``count`` answers, at least one, with the rows skipped before the last of them."""
        if count >= len(self.answers):
            return self
        return LabelledDataset(self.answers[:count], skipped_before(self.answers[count - 1].record, self.skipped))


def skipped_before(record: QARecord, skipped: Sequence[SkippedRow]) -> tuple[SkippedRow, ...]:
    """The skipped rows that come before the record's row; several files are read in the order of their names."""
    file, row = record.source.source_file, record.source.source_row
    return tuple(skip for skip in skipped if (skip.file or file, skip.row) < (file, row))


@dataclass(frozen=True, slots=True)
class UnsupportedRange:
    """Characters of an answer that its passages do not support, and in which way; ``kind`` is None if unknown."""

    chars: CharRange
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One answer and what people found unsupported in it.

    Attributes:
        record: the answer.
        unsupported: ranges that a person marked, which may overlap; empty where everything is supported, None where
            the answer was judged as a whole and nobody marked characters.
        judged: the ranges that the person looked at; None for the whole answer.
        group: part of the data set, such as a task.
        split: training, development or test part of the data set.
        answer_supported: whether the passages support all of the answer; None where only ranges say so.
        faithfulness: the mean grade that people gave, larger for better; None where they gave none.
        error_kinds: in which ways an answer that was judged as a whole is unsupported; empty if unknown.

    Raises:
        ValueError: if a range ends beyond the answer, or if neither ranges nor a judgement are given.
    """

    record: QARecord
    unsupported: tuple[UnsupportedRange, ...] | None
    judged: tuple[CharRange, ...] | None = None
    group: str | None = None
    split: str | None = None
    answer_supported: bool | None = None
    faithfulness: float | None = None
    error_kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        length = len(self.record.answer)
        if any(one.chars.char_end > length for one in self.unsupported or ()):
            raise ValueError(f"unsupported ranges should end within the answer's {length} code points")
        if self.unsupported is None and self.answer_supported is None:
            raise ValueError("a judged answer should have unsupported ranges or answer_supported, has neither")

    @property
    def is_supported(self) -> bool:
        """Whether people found all of it supported: as they judged the whole answer, else by their ranges."""
        return not self.unsupported if self.answer_supported is None else self.answer_supported


@dataclass(frozen=True, slots=True)
class JudgedDataset:
    """All usable answers of a data set, in its order, and the rows that were left out."""

    answers: tuple[JudgedAnswer, ...]
    skipped: tuple[SkippedRow, ...] = ()

    def first(self, count: int) -> JudgedDataset:
        """The first ``count`` answers, at least one, with the rows skipped before the last of them."""
        if count >= len(self.answers):
            return self
        return JudgedDataset(self.answers[:count], skipped_before(self.answers[count - 1].record, self.skipped))

    def of_split(self, split: str) -> JudgedDataset:
        """The answers of one split, or all if the data set has no such split."""
        chosen = tuple(answer for answer in self.answers if answer.split == split)
        return JudgedDataset(chosen or self.answers, self.skipped)

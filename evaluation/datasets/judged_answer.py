"""Answers of which a person said what the passages do not support."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.datasets.labelled_answer import SkippedRow, skipped_before
from schemas import CharRange, QARecord


@dataclass(frozen=True, slots=True)
class UnsupportedRange:
    """Characters of an answer that its passages do not support, and in which way; None where that is not said."""

    chars: CharRange
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One answer and its unsupported ranges, which may overlap.

    Attributes:
        record: the answer.
        unsupported: ranges that a person marked; empty where everything is supported.
        judged: the ranges that the person looked at; None for the whole answer.
        group: part of the data set, such as a task.
        split: training, development or test part of the data set.

    Raises:
        ValueError: if a range ends beyond the answer.
    """

    record: QARecord
    unsupported: tuple[UnsupportedRange, ...]
    judged: tuple[CharRange, ...] | None = None
    group: str | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        length = len(self.record.answer)
        if any(one.chars.char_end > length for one in self.unsupported):
            raise ValueError(f"unsupported ranges should end within the answer's {length} code points")


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
        """The answers of one split; all of them where the data set has no such split."""
        chosen = tuple(answer for answer in self.answers if answer.split == split)
        return JudgedDataset(chosen or self.answers, self.skipped)

"""Rows of a data file that are of use, and those that are skipped, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from evaluation.datasets.dataset_file import DataRow
from evaluation.datasets.labelled_answer import SkippedRow

_Answer = TypeVar("_Answer")


def select_rows(
    rows: Iterable[DataRow], read: Callable[[DataRow], _Answer | str]
) -> tuple[tuple[_Answer, ...], tuple[SkippedRow, ...]]:
    """What ``read`` makes of each row, in order; where it gives a text, that is why the row is skipped."""
    answers: list[_Answer] = []
    skipped: list[SkippedRow] = []
    for row in rows:
        found = read(row)
        if isinstance(found, str):
            skipped.append(SkippedRow(row.row, found))
        else:
            answers.append(found)
    return tuple(answers), tuple(skipped)

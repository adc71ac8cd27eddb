"""Data sets whose answers carry their labels as mark-up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evaluation.datasets.dataset_file import DataRow, read_rows
from evaluation.datasets.labelled_answer import LabelledAnswer, LabelledDataset
from evaluation.datasets.row_selection import select_rows
from evaluation.datasets.span_markup import MarkedText, remove_markup


def load_marked(
    path: Path, *, field: str, labelled: Callable[[DataRow, MarkedText, Path], LabelledAnswer]
) -> LabelledDataset:
    """The answers of a ``.jsonl`` file; rows whose ``field`` has no marked span are skipped (``no_span``).

    Raises:
        DatasetError: if the file cannot be read, or a row's mark-up is broken.
    """

    def read(row: DataRow) -> LabelledAnswer | str:
        marked = marked_answer(row, field)
        return labelled(row, marked, path) if marked.spans else "no_span"

    return LabelledDataset(*select_rows(read_rows(path), read))


def marked_answer(row: DataRow, field: str) -> MarkedText:
    """The field's text without mark-up.

    Raises:
        DatasetError: if the mark-up is broken.
    """
    try:
        return remove_markup(row.text(field))
    except ValueError as error:
        raise row.error(field, f"has broken mark-up: {error}") from error

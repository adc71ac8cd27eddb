"""MTRAG: answers in conversations over passages, graded for faithfulness by several people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from attribeam.lab.evaluation.datasets.dataset_file import DataRow, select_from_files
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset

REFERENCE = "reference"
"""The ``model`` of answers that people wrote; they form a split of their own, those of models are ``test``."""

UNFAITHFUL_GRADE = 2.0
"""Answers with this mean grade or a lower one count as unsupported; grades are 1 to 4."""

_GRADES = ("1", "2", "3", "4")


def load_mtrag(path: Path) -> JudgedDataset:
    """The answers of an MTRAG ``.jsonl`` file, or of all such files of a directory.

    The question is the last turn of the conversation. ``faithfulness`` is the mean of the grades; who graded does not
    count. An answer with a mean of at most 2 is unsupported. Rows without an answer (``empty_answer``), without a
    passage that has text (``no_passages``: nothing was retrieved, so nothing can be compared) or without a grade
    (``not_judged``) are skipped.

    Raises:
        DataError: if a file cannot be read, or a row is not in MTRAG's format.
    """
    return JudgedDataset(*select_from_files(path, "mtrag", _judged))


def _judged(row: DataRow, file: Path) -> Sequence[JudgedAnswer] | str:
    answer, model, turns = row.text("answer"), row.text("model"), row.objects("conversation")
    grades = [_grade(row, grade) for grade in row.texts("faithfulness")]
    passages = tuple(_passage(one) for one in row.objects("passages"))
    if not turns or turns[-1].text("speaker") != "user":
        raise row.error("conversation", "should end with a turn of the user, does not")
    if not answer.strip():
        return "empty_answer"
    if not any(one.text.strip() for one in passages):
        return "no_passages"
    if not grades:
        return "not_judged"
    mean = fmean(grades)
    record = QARecord(
        record_id=row.text("id"),
        question=turns[-1].text("text"),
        passages=passages,
        answer=answer,
        source=RowSource(file.name, row.row),
        generator=model,
    )
    split = REFERENCE if model == REFERENCE else "test"
    return [JudgedAnswer(record, None, split=split, answer_supported=mean > UNFAITHFUL_GRADE, faithfulness=mean)]


def _grade(row: DataRow, grade: str) -> int:
    if grade not in _GRADES:
        raise row.error("faithfulness", f"should have grades from {_GRADES[0]} to {_GRADES[-1]}, has: {grade!r}")
    return int(grade)


def _passage(row: DataRow) -> Passage:
    return Passage(
        text=row.text("text"), title=row.optional_text("title") or None, passage_id=row.optional_text("passage_id")
    )

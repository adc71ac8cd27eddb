"""Answers that were made up for this project, with what their passages do not support, as more rows to fit on.

They are short and freely worded, as answers of assistants over help pages, policies or encyclopaedias are, which
RAGTruth hardly has. No figure of a verdict counts them.
"""

from __future__ import annotations

from pathlib import Path

from attribeam.lab.evaluation.datasets.dataset_file import DataRow, read_rows
from attribeam.lab.evaluation.datasets.row_parts import passage_of, span_chars
from attribeam.schemas import QARecord, RowSource
from attribeam.schemas.labelled_answer import JudgedAnswer, UnsupportedRange

MADE_ANSWERS = Path(__file__).with_name("made_answers.jsonl")
_GROUP = "made up"


def load_made_answers(path: Path = MADE_ANSWERS) -> tuple[JudgedAnswer, ...]:
    """The answers of a ``.jsonl`` or ``.jsonl.xz`` file, in order.

    A row has ``record_id``, ``question``, ``answer``, ``passages`` (with ``passage_id``, ``text`` and ``title``, which
    may be null) and ``unsupported`` (with ``text``, ``occurrence`` and ``kind``), empty for a faithful answer.

    Raises:
        DataError: if the file cannot be read or a row is faulty; the message names row and field, not the text.
    """
    return tuple(_answer(row, path) for row in read_rows(path))


def _answer(row: DataRow, path: Path) -> JudgedAnswer:
    answer = row.text("answer")
    record = QARecord(
        record_id=row.text("record_id"),
        question=row.text("question"),
        passages=tuple(passage_of(passage) for passage in row.objects("passages")),
        answer=answer,
        source=RowSource(path.name, row.row),
    )
    marks = tuple(UnsupportedRange(span_chars(one, answer), one.text("kind")) for one in row.objects("unsupported"))
    return JudgedAnswer(record, marks, group=_GROUP)

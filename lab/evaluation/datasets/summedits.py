"""SummEdits: summaries of documents of several domains, many of them edited, labelled as consistent or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attribeam.lab.evaluation.datasets.dataset_file import DataRow, select_from_files
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset

_NAME = "summedits"


def load_summedits(path: Path) -> JudgedDataset:
    """The summaries of a SummEdits ``.jsonl`` file, or of all such files of a directory.

    The document is the passage, the summary the answer, and label 1 means supported. The group is the domain, which is
    the name of the file; the kinds of errors are the edits. Rows with an empty summary (``empty_answer``) or document
    (``no_passages``) are skipped, and so are those that repeat a document and its summary (``duplicate``).

    Raises:
        DataError: if a file cannot be read, or a row is not in SummEdits' format.
    """
    seen: set[tuple[str, str]] = set()

    def read(row: DataRow, file: Path) -> Sequence[JudgedAnswer] | str:
        pair = (row.text("doc"), row.text("summary"))
        if pair in seen:
            return "duplicate"
        seen.add(pair)
        return _judged(row, file)

    return JudgedDataset(*select_from_files(path, _NAME, read))


def _judged(row: DataRow, file: Path) -> Sequence[JudgedAnswer] | str:
    document, summary, label = row.text("doc"), row.text("summary"), row.integer("label")
    if label not in (0, 1):
        raise row.error("label", f"should be 0 or 1, was: {label}")
    if not summary.strip():
        return "empty_answer"
    if not document.strip():
        return "no_passages"
    record = QARecord(
        record_id=row.text("id"),
        question="",
        passages=(Passage(text=document),),
        answer=summary,
        source=RowSource(file.name, row.row),
    )
    kinds = tuple(row.texts("edit_types")) if label == 0 else ()
    return [JudgedAnswer(record, None, group=_domain(file), answer_supported=label == 1, error_kinds=kinds)]


def _domain(file: Path) -> str:
    return file.name.split(".")[0].removeprefix(f"{_NAME}_")

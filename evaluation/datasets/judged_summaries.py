"""BUMP and SummEdits: summaries of a document, many of them with an error that was edited into them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attribeam.evaluation.datasets.dataset_file import DataRow, select_from_files
from attribeam.schemas import Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset

_KIND_SUFFIX = " Error"


def load_bump(path: Path) -> JudgedDataset:
    """The summaries of a BUMP ``.jsonl`` file, or of all such files of a directory: two of each row.

    The article is the passage. The edited summary is unsupported, of the kind ``corrected_error_type`` if the row has
    one, else ``error_type``. The reference summary is taken as supported, and counts once however many rows edit it;
    nobody checked that it is, and in task 1 some are not. The group is the name of the file. Rows with an empty article
    (``no_passages``) or summary (``empty_answer``) and those that repeat an article and its edited summary
    (``duplicate``) are skipped.

    Raises:
        DataError: if a file cannot be read, or a row is not in BUMP's format.
    """
    seen: set[tuple[str, str]] = set()

    def read(row: DataRow, file: Path) -> Sequence[JudgedAnswer] | str:
        article, reference, edited = (row.text(name) for name in ("article", "reference_summary", "edited_summary"))
        if not article.strip():
            return "no_passages"
        if not (reference.strip() and edited.strip()):
            return "empty_answer"
        if (article, edited) in seen:
            return "duplicate"
        found = [] if (article, reference) in seen else [_bump_summary(row, file, reference, supported=True)]
        seen.update([(article, reference), (article, edited)])
        return [*found, _bump_summary(row, file, edited, supported=False)]

    return JudgedDataset(*select_from_files(path, "bump", read))


def _bump_summary(row: DataRow, file: Path, summary: str, *, supported: bool) -> JudgedAnswer:
    task = file.name.split(".")[0]
    record = QARecord(
        record_id=f"{task}-{row.integer('id')}-{'reference' if supported else 'edited'}",
        question="",
        passages=(Passage(text=row.text("article")),),
        answer=summary,
        source=RowSource(file.name, row.row),
    )
    kinds = () if supported else (_error_kind(row),)
    return JudgedAnswer(record, None, group=task, answer_supported=supported, error_kinds=kinds)


def _error_kind(row: DataRow) -> str:
    return (row.optional_text("corrected_error_type") or row.text("error_type")).removesuffix(_KIND_SUFFIX)


_SUMMEDITS = "summedits"


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
        return _summedits_summary(row, file)

    return JudgedDataset(*select_from_files(path, _SUMMEDITS, read))


def _summedits_summary(row: DataRow, file: Path) -> Sequence[JudgedAnswer] | str:
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
    return file.name.split(".")[0].removeprefix(f"{_SUMMEDITS}_")

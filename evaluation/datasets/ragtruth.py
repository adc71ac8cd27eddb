"""RAGTruth: answers of six models to three tasks, with the characters that a person found unsupported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evaluation.datasets.dataset_file import DataRow, DatasetError, read_rows
from evaluation.datasets.judged_answer import JudgedAnswer, JudgedDataset, UnsupportedRange
from evaluation.datasets.ragtruth_source import RagTruthSource, read_source
from evaluation.datasets.row_selection import select_rows
from schemas import CharRange, QARecord, RowSource


def load_ragtruth(path: Path) -> JudgedDataset:
    """The answers of a directory with RAGTruth's ``response.jsonl`` and ``source_info.jsonl``, each plain or ``.xz``.

    Passages are those of ``evaluation.datasets.ragtruth_source``. Skipped are rows with an empty answer
    (``empty_answer``), with a source that the directory does not have (``no_source``) or that has no text
    (``no_passages``), and with a label that does not lie in the answer (``label_out_of_range``) or whose text is
    another there (``label_text_differs``).

    Raises:
        DatasetError: if a file cannot be read, or a row is not in RAGTruth's format.
    """
    sources = {row.text("source_id"): read_source(row) for row in read_rows(_file(path, "source_info"))}
    responses = _file(path, "response")
    return JudgedDataset(*select_rows(read_rows(responses), lambda row: _judged(row, sources, responses)))


def _file(directory: Path, name: str) -> Path:
    for file in (directory / f"{name}.jsonl", directory / f"{name}.jsonl.xz"):
        if file.is_file():
            return file
    raise DatasetError(
        f"--data {directory} should be a directory with response.jsonl and source_info.jsonl, has no {name}.jsonl"
    )


def _judged(row: DataRow, sources: Mapping[str, RagTruthSource], file: Path) -> JudgedAnswer | str:
    """The answer, or why its row is left out."""
    answer, source = row.text("response"), sources.get(row.text("source_id"))
    labels = row.objects("labels")
    if not answer.strip():
        return "empty_answer"
    if source is None:
        return "no_source"
    if not any(passage.text.strip() for passage in source.passages):
        return "no_passages"
    for label in labels:
        start, end = label.integer("start"), label.integer("end")
        if not 0 <= start < end <= len(answer):
            return "label_out_of_range"
        if label.text("text") != answer[start:end]:
            return "label_text_differs"
    record = QARecord(
        record_id=row.text("id"),
        question=source.question,
        passages=source.passages,
        answer=answer,
        source=RowSource(file.name, row.row),
        generator=row.optional_text("model"),
    )
    unsupported = tuple(sorted((_unsupported(label) for label in labels), key=lambda one: one.chars))
    return JudgedAnswer(record, unsupported, group=source.task, split=row.optional_text("split"))


def _unsupported(label: DataRow) -> UnsupportedRange:
    return UnsupportedRange(CharRange(label.integer("start"), label.integer("end")), label.text("label_type"))

"""QuoteSum: answers that quote up to eight sources, each quote marked with its source's number."""

from __future__ import annotations

from pathlib import Path

from evaluation.datasets.dataset_file import DataRow
from evaluation.datasets.labelled_answer import LabelledAnswer, LabelledDataset
from evaluation.datasets.marked_rows import load_marked
from evaluation.datasets.span_markup import MarkedText
from schemas import Passage, QARecord, RowSource

_SOURCE_NUMBERS = range(1, 9)


def load_quotesum(path: Path) -> LabelledDataset:
    """The answers of a QuoteSum ``.jsonl`` file; a passage is a source with its title.

    Raises:
        DatasetError: if the file cannot be read, or a row is not in QuoteSum's format.
    """
    return load_marked(path, field="summary", labelled=_labelled)


def _labelled(row: DataRow, marked: MarkedText, path: Path) -> LabelledAnswer:
    numbers = [number for number in _SOURCE_NUMBERS if row.text(f"source{number}")]
    gold = []
    for span in marked.spans:
        if span.number not in numbers:
            raise row.error("summary", f"marks source {span.number}, but the row has the sources {numbers}")
        gold.append(frozenset({numbers.index(span.number)}))
    record = QARecord(
        record_id=row.text("unique_id"),
        question=row.text("question"),
        passages=tuple(_passage(row, number) for number in numbers),
        answer=marked.text,
        source=RowSource(path.name, row.row),
        target_spans=tuple(span.chars for span in marked.spans),
    )
    return LabelledAnswer(record, tuple(gold))


def _passage(row: DataRow, number: int) -> Passage:
    return Passage(
        text=row.text(f"source{number}"), title=row.text(f"title{number}") or None, passage_id=f"source{number}"
    )

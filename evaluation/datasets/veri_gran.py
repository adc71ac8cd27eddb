"""VERI-GRAN: one annotated statement a row, its spans marked with the number of a source sentence."""

from __future__ import annotations

from pathlib import Path

from evaluation.datasets.dataset_file import DataRow
from evaluation.datasets.labelled_answer import LabelledAnswer, LabelledDataset
from evaluation.datasets.marked_rows import load_marked
from evaluation.datasets.span_markup import MarkedText
from schemas import Passage, QARecord, RowSource


def load_veri_gran(path: Path) -> LabelledDataset:
    """The answers of a VERI-GRAN ``.jsonl`` file; a passage is a sentence, the answer the whole summary.

    Rows without a marked span are skipped (``no_span``).

    Raises:
        DatasetError: if the file cannot be read, or a row is not in VERI-GRAN's format.
    """
    return load_marked(path, field="summary", labelled=_labelled)


def _labelled(row: DataRow, marked: MarkedText, path: Path) -> LabelledAnswer:
    sentences = row.texts("passages")
    for span in marked.spans:
        if not 1 <= span.number <= len(sentences):
            raise row.error("summary", f"marks sentence {span.number}, but the row has {len(sentences)} passages")
    record = QARecord(
        record_id=str(row.row),
        question=row.text("question"),
        passages=tuple(Passage(text=sentence) for sentence in sentences),
        answer=marked.text,
        source=RowSource(path.name, row.row),
        target_spans=tuple(span.chars for span in marked.spans),
    )
    return LabelledAnswer(record, tuple(frozenset({span.number - 1}) for span in marked.spans))

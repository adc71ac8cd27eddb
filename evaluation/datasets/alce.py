"""ALCE: the result files of ASQA and ELI5, whose answers cite their documents as ``[1][2]``."""

from __future__ import annotations

from pathlib import Path

from evaluation.datasets.citation_markers import remove_citations
from evaluation.datasets.dataset_file import DataRow, read_json_rows
from evaluation.datasets.labelled_answer import LabelledAnswer, LabelledDataset
from evaluation.datasets.row_selection import select_rows
from schemas import Passage, QARecord, RowSource

_END_OF_TURN = "<|im_end|>"


def load_alce(path: Path) -> LabelledDataset:
    """The answers of an ALCE result file; a passage is a document, and every sentence of the answer a target span.

    The file is a list of objects, or an object with such a list in ``data``. An object has ``question``, ``output``
    and ``docs`` (``text``, and perhaps ``title`` and ``id``). Of ``output`` the first line is read, as ALCE does, and
    its markers are removed and kept as ``citations``. Rows without a sentence (``empty_answer``) and without documents
    (``no_passages``) are skipped. Nothing says which passage is right.

    Raises:
        DatasetError: if the file cannot be read, or a row is not in ALCE's format.
    """
    rows = read_json_rows(path, field="data")
    return LabelledDataset(*select_rows(rows, lambda row: _labelled(row, path)))


def _labelled(row: DataRow, path: Path) -> LabelledAnswer | str:
    question, documents = row.text("question"), row.objects("docs")
    cited = remove_citations(_first_line(row))
    if not cited.sentences:
        return "empty_answer"
    passages = tuple(_passage(document) for document in documents)
    if not any(passage.text.strip() for passage in passages):
        return "no_passages"
    record = QARecord(
        record_id=str(row.row),
        question=question,
        passages=passages,
        answer=cited.text,
        source=RowSource(path.name, row.row),
        target_spans=tuple(sentence.chars for sentence in cited.sentences),
    )
    return LabelledAnswer(record, citations=tuple(sentence.citations for sentence in cited.sentences))


def _first_line(row: DataRow) -> str:
    if isinstance(row.fields.get("output"), list):
        raise row.error(
            "output", "should be one string, is a list; write each sample of the answer as a row of its own"
        )
    return row.text("output").strip().split("\n")[0].replace(_END_OF_TURN, "").strip()


def _passage(document: DataRow) -> Passage:
    number = document.fields.get("id")
    return Passage(
        text=document.text("text"),
        title=document.optional_text("title") or None,
        passage_id=str(number) if isinstance(number, int) else document.optional_text("id"),
    )

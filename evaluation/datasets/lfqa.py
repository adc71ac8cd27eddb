"""LFQA with localised attribution: a person highlighted the source characters of each answer sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attribeam.evaluation.datasets.dataset_file import DataRow, read_rows, select_rows
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import LabelledAnswer, LabelledDataset, PassageRange


def load_lfqa(path: Path) -> LabelledDataset:
    """The answers of an LFQA ``.jsonl`` or ``.jsonl.xz`` file; a passage is a document, a target span a sentence.

    The gold passages of a sentence are the documents with highlights for it. Rows without highlights
    (``no_highlight``) and rows that repeat an earlier query and response (``duplicate``) are skipped.

    Raises:
        DataError: if the file cannot be read, or a row is not in LFQA's format.
    """
    seen: set[tuple[str, str]] = set()

    def read(row: DataRow) -> LabelledAnswer | str:
        key = (row.text("query"), row.text("response"))
        if key in seen:
            return "duplicate"
        seen.add(key)
        return _labelled(row, path) if row.objects("set_of_highlights_in_context") else "no_highlight"

    return LabelledDataset(*select_rows(read_rows(path), read))


def _labelled(row: DataRow, path: Path) -> LabelledAnswer:
    documents = row.objects("documents")
    texts = [document.text("rawDocumentText") for document in documents]
    names = {name: index for index, name in enumerate(_names(documents))}
    if len(names) < len(documents):
        raise row.error(
            "documents", f"should have different documentFiles, {len(documents)} documents have {len(names)}"
        )
    sentences: dict[CharRange, set[PassageRange]] = {}
    for highlight in row.objects("set_of_highlights_in_context"):
        sentence = _sentence(highlight, row.text("response"))
        sentences.setdefault(sentence, set()).update(_gold_ranges(highlight, names, texts))
    spans = sorted(sentences)
    evidence = tuple(tuple(sorted(sentences[span])) for span in spans)
    record = QARecord(
        record_id=row.text("unique_id"),
        question=row.text("query"),
        passages=tuple(
            Passage(text=text, passage_id=name) for text, name in zip(texts, _names(documents), strict=True)
        ),
        answer=row.text("response"),
        source=RowSource(path.name, row.row),
        target_spans=tuple(spans),
    )
    return LabelledAnswer(
        record, tuple(frozenset(gold.passage_index for gold in ranges) for ranges in evidence), evidence
    )


def _names(documents: list[DataRow]) -> list[str]:
    return [document.text("documentFile") for document in documents]


def _sentence(highlight: DataRow, response: str) -> CharRange:
    sentence, start = highlight.text("scuSentence"), highlight.integer("scuSentCharIdx")
    if not sentence or start < 0 or response[start : start + len(sentence)] != sentence:
        raise highlight.error("scuSentCharIdx", f"should be the place of scuSentence in the response, was: {start}")
    return CharRange(start, start + len(sentence))


def _gold_ranges(highlight: DataRow, names: Mapping[str, int], texts: list[str]) -> set[PassageRange]:
    name = highlight.text("documentFile")
    if name not in names:
        raise highlight.error("documentFile", f"should be one of the row's {len(names)} documents, is none of them")
    length = len(texts[names[name]])
    ranges = highlight.ranges("docSpanOffsets")
    for start, end in ranges:
        if not 0 <= start < end <= length:
            raise highlight.error(
                "docSpanOffsets", f"should lie within the document's {length} characters, was: [{start}, {end}]"
            )
    if not ranges:
        raise highlight.error("docSpanOffsets", "should have at least one range, has none")
    return {PassageRange(names[name], CharRange(start, end)) for start, end in ranges}

"""ALCE: the result files of ASQA and ELI5, whose answers cite documents as ``[1][2]``.

The markers are removed and kept as citations of the sentence that they belong to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from attribeam.attribution.answers.text_sentences import whole_sentences
from attribeam.lab.evaluation.datasets.dataset_file import DataRow, read_json_rows, select_rows
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import LabelledAnswer, LabelledDataset

_MARKER = re.compile(r"\s*\[\s*\d{1,9}(?:\s*[,;]\s*\d{1,9})*\s*\]")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence of an answer and the 0-based passages that it cites, in order, each once; some may not exist."""

    chars: CharRange
    citations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CitedText:
    """A text without its markers, and its sentences."""

    text: str
    sentences: tuple[CitedSentence, ...]


@dataclass(frozen=True, slots=True)
class _Marker:
    """The numbers in one bracket; ``place`` is its offset in the text without markers."""

    place: int
    numbers: tuple[int, ...]


def remove_citations(cited: str) -> CitedText:
    """The text without markers such as ``[1]``, ``[1][2]`` and ``[1, 2]`` and the white space before them.

    A marker belongs to the last sentence that begins before it, so that "ends [1]." and "ends. [1]" cite for the same
    sentence; a marker at the very start belongs to the first sentence. Numbers of more than nine digits are not
    citations and stay in the text.
    """
    text, position = "", 0
    markers = []
    for match in _MARKER.finditer(cited):
        text = (text + cited[position : match.start()]).lstrip()
        markers.append(_Marker(len(text), tuple(int(number) for number in _NUMBER.findall(match.group()))))
        position = match.end()
    text = (text + cited[position:]).lstrip()
    sentences = whole_sentences(text)
    cited_by = [_owner(marker, sentences) for marker in markers]
    return CitedText(
        text,
        tuple(
            CitedSentence(
                chars, _citations([one for one, owner in zip(markers, cited_by, strict=True) if owner == index])
            )
            for index, chars in enumerate(sentences)
        ),
    )


def _owner(marker: _Marker, sentences: tuple[CharRange, ...]) -> int:
    """The index of the last sentence that begins before the marker, else of the first one."""
    return max(0, sum(one.char_start < marker.place for one in sentences) - 1)


def _citations(markers: list[_Marker]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(number - 1 for marker in markers for number in marker.numbers))


_END_OF_TURN = "<|im_end|>"


def load_alce(path: Path) -> LabelledDataset:
    """The answers of an ALCE result file; a passage is a document, and every sentence of the answer a target span.

    The file is a list of objects, or an object with such a list in ``data``. Each object has ``question``, ``output``
    and ``docs`` (with ``text``, and possibly ``title`` and ``id``). As in ALCE, only the first line of ``output`` is
    read; its markers are removed and kept as ``citations``. Rows without a sentence (``empty_answer``) or without
    documents (``no_passages``) are skipped. No label says which passage is right.

    Raises:
        DataError: if the file cannot be read, or a row is not in ALCE's format.
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
        raise row.error("output", "should be one string, was a list; write each sample of the answer as a separate row")
    return row.text("output").strip().split("\n")[0].replace(_END_OF_TURN, "").strip()


def _passage(document: DataRow) -> Passage:
    number = document.fields.get("id")
    return Passage(
        text=document.text("text"),
        title=document.optional_text("title") or None,
        passage_id=str(number) if isinstance(number, int) else document.optional_text("id"),
    )

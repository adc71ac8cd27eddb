"""Data sets of answers over passages: ALCE, CLAPnq and MTRAG.

ALCE: the result files of ASQA and ELI5, whose answers cite documents as ``[1][2]``.

The markers are removed and kept as citations of the sentence that they belong to.

CLAPnq: questions with a passage, answers that people wrote from it, and the passage sentences that they chose.

MTRAG: answers in conversations over passages, graded for faithfulness by several people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from attribeam.attribution.answers.text_sentences import whole_sentences
from attribeam.evaluation.datasets.dataset_file import DataRow, read_json_rows, select_from_files, select_rows
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset, LabelledAnswer, LabelledDataset, PassageRange

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


def load_clapnq(path: Path) -> LabelledDataset:
    """The answers of a CLAPnq ``.jsonl`` file, or of all such files of a directory; two people's answers are two.

    The target span is the whole answer, because the sentences were chosen for all of it; they are its gold evidence.
    Rows without an answer are skipped (``unanswerable``), and so are rows of whose answers none is new and has chosen
    sentences (``no_selected_sentence``).

    Raises:
        DataError: if a file cannot be read, or a row is not in CLAPnq's format.
    """
    return LabelledDataset(*select_from_files(path, "clapnq", _labelled_clapnq))


def _labelled_clapnq(row: DataRow, file: Path) -> Sequence[LabelledAnswer] | str:
    passages = row.objects("passages")
    outputs = {one.text("answer"): one for one in row.objects("output") if one.text("answer").strip()}
    if not outputs:
        return "unanswerable"
    found = []
    for number, (answer, output) in enumerate(outputs.items(), start=1):
        gold = tuple(sorted(set(_selected(output, passages))))
        if gold:
            record = _record(row, file, answer, record_id=f"{row.text('id')}-{number}")
            found.append(LabelledAnswer(record, (frozenset(one.passage_index for one in gold),), (gold,)))
    return found or "no_selected_sentence"


def _record(row: DataRow, file: Path, answer: str, *, record_id: str) -> QARecord:
    start = len(answer) - len(answer.lstrip())
    return QARecord(
        record_id=record_id,
        question=row.text("input"),
        passages=tuple(
            Passage(text=one.text("text"), title=one.optional_text("title") or None) for one in row.objects("passages")
        ),
        answer=answer,
        source=RowSource(file.name, row.row),
        target_spans=(CharRange(start, len(answer.rstrip())),),
    )


def _selected(output: DataRow, passages: Sequence[DataRow]) -> Iterator[PassageRange]:
    """Where the chosen sentences stand in the passages; of several equal ones the first counts."""
    for sentence in output.texts("selected_sentences"):
        places = [(index, passage.text("text").find(sentence)) for index, passage in enumerate(passages)]
        index, start = next(((index, start) for index, start in places if start >= 0), (0, -1))
        if start < 0 or not sentence:
            raise output.error("selected_sentences", "should be parts of a passage's text, one is not")
        yield PassageRange(index, CharRange(start, start + len(sentence)))


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
    passages = tuple(_mtrag_passage(one) for one in row.objects("passages"))
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


def _mtrag_passage(row: DataRow) -> Passage:
    return Passage(
        text=row.text("text"), title=row.optional_text("title") or None, passage_id=row.optional_text("passage_id")
    )

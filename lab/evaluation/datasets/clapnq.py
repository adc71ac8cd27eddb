"""CLAPnq: questions with a passage, answers that people wrote from it, and the passage sentences that they chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attribeam.lab.evaluation.datasets.dataset_file import DataRow, select_from_files
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import LabelledAnswer, LabelledDataset, PassageRange


def load_clapnq(path: Path) -> LabelledDataset:
    """The answers of a CLAPnq ``.jsonl`` file, or of all such files of a directory; two people's answers are two.

    The target span is the whole answer, because the sentences were chosen for all of it; they are its gold evidence.
    Rows without an answer are skipped (``unanswerable``), and so are rows of whose answers none is new and has chosen
    sentences (``no_selected_sentence``).

    Raises:
        DataError: if a file cannot be read, or a row is not in CLAPnq's format.
    """
    return LabelledDataset(*select_from_files(path, "clapnq", _labelled))


def _labelled(row: DataRow, file: Path) -> Sequence[LabelledAnswer] | str:
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

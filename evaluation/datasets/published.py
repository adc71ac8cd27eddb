"""Published data sets: QuoteSum, VERI-GRAN, LFQA and CLAPnq, in which people name the source of each span, and others.

ALCE's answers cite documents, which nobody judged. Of RAGTruth, MTRAG, SummEdits and BUMP people judged the support.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from statistics import fmean

from attribeam.attribution.answers.parsed_answer import whole_sentences
from attribeam.evaluation.datasets.dataset_file import (
    DataRow,
    JudgedAnswer,
    JudgedDataset,
    LabelledAnswer,
    LabelledDataset,
    PassageRange,
    UnsupportedRange,
    read_json_rows,
    read_rows,
    select_from_files,
    select_rows,
)
from attribeam.schemas import CharRange, Passage, QARecord
from attribeam.schemas.errors import DataError

_OPENING = re.compile(r"\[ (\d+) ")
_MARKED = re.compile(r"\[ (\d+) (.*?) ?\]", re.DOTALL)
_SPACE_BEFORE_MARK = re.compile(r" (?=[.,;:!?)\]}%])")

MarkedSpans = list[tuple[CharRange, int]]
"""Ranges of a text without its mark-up, each with the number N of its mark."""


def remove_markup(marked: str) -> tuple[str, MarkedSpans]:
    """The text with every ``[ N text ]`` replaced by ``text``, and the range of each ``text`` without outer spaces.

    A space between ``]`` and a closing punctuation mark is an artefact of tokenisation and is dropped. Brackets without
    a number and spaces, such as a citation ``[1]``, are left alone. Raises ``ValueError`` if a bracket is not closed,
    or contains only spaces.
    """
    text, position = "", 0
    spans: MarkedSpans = []

    def between(end: int) -> str:
        plain = marked[position:end]
        return plain[1:] if spans and _SPACE_BEFORE_MARK.match(plain) else plain

    for match in _MARKED.finditer(marked):
        number, inner = match.groups()
        if not inner.strip():
            raise ValueError(f"bracket {number} at character {match.start()} contains no text")
        if _OPENING.search(inner):
            raise ValueError(f"bracket {number} at character {match.start()} is not closed before the next opens")
        text += between(match.start())
        start = len(text) + len(inner) - len(inner.lstrip())
        spans.append((CharRange(start, len(text) + len(inner.rstrip())), int(number)))
        text += inner
        position = match.end()
    if _OPENING.search(marked[position:]):
        raise ValueError("a bracket '[ N ' is never closed by ']'")
    return text + between(len(marked)), spans


def load_quotesum(path: Path) -> LabelledDataset:
    """The answers of a QuoteSum ``.jsonl`` file; a passage is a source with its title.

    Rows without a marked span are skipped (``no_span``), as of VERI-GRAN. Raises ``DataError`` if the file cannot be
    read, or a row is not in the format. All loaders raise it likewise.
    """

    def passages(row: DataRow) -> Mapping[int, Passage]:
        texts = {number: row.text(f"source{number}") for number in range(1, 9)}
        given = [(number, text) for number, text in texts.items() if text]
        return {number: Passage(text, row.text(f"title{number}") or None, f"source{number}") for number, text in given}

    return _load_marked(path, passages, kind="source", id_field="unique_id")


def load_veri_gran(path: Path) -> LabelledDataset:
    """The answers of a VERI-GRAN ``.jsonl`` file; a passage is a sentence, and the answer is the whole summary."""
    return _load_marked(
        path, lambda row: dict(enumerate(map(Passage, row.texts("passages")), start=1)), kind="sentence"
    )


def _load_marked(
    path: Path, passages_of: Callable[[DataRow], Mapping[int, Passage]], *, kind: str, id_field: str | None = None
) -> LabelledDataset:
    """``passages_of`` gives a row's passages by the numbers of their marks; a row without ids has its number."""

    def read(row: DataRow) -> Sequence[LabelledAnswer] | str:
        summary = row.text("summary")
        try:
            answer, spans = remove_markup(summary)
        except ValueError as error:
            raise row.error("summary", f"has broken mark-up: {error}") from error
        if not spans:
            return "no_span"
        passages = passages_of(row)
        for _, number in spans:
            if number not in passages:
                raise row.error("summary", f"marks {kind} {number}, but the row has the {kind}s {[*passages]}")
        targets, numbers = zip(*spans, strict=True)
        texts = row.text("question"), tuple(passages.values()), answer
        record_id = str(row.row) if id_field is None else row.text(id_field)
        record = QARecord(record_id, *texts, row.source, target_spans=targets)
        order = [*passages]
        return [LabelledAnswer(record, tuple(frozenset({order.index(number)}) for number in numbers))]

    return select_rows(read_rows(path), read)


def load_lfqa(path: Path) -> LabelledDataset:
    """The answers of an LFQA ``.jsonl`` or ``.jsonl.xz`` file; a passage is a document, a target span a sentence.

    The gold passages of a sentence are the documents with highlights for it. Rows without highlights
    (``no_highlight``) and rows that repeat an earlier query and response (``duplicate``) are skipped.
    """
    seen: set[tuple[str, str]] = set()

    def read(row: DataRow) -> Sequence[LabelledAnswer] | str:
        key = (row.text("query"), row.text("response"))
        if key in seen:
            return "duplicate"
        seen.add(key)
        return [_lfqa_answer(row)] if row.objects("set_of_highlights_in_context") else "no_highlight"

    return select_rows(read_rows(path), read)


def _lfqa_answer(row: DataRow) -> LabelledAnswer:
    documents, response = row.objects("documents"), row.text("response")
    names = [document.text("documentFile") for document in documents]
    passages = {
        name: Passage(doc.text("rawDocumentText"), None, name) for name, doc in zip(names, documents, strict=True)
    }
    if len(passages) < len(documents):
        raise row.error(
            "documents", f"should have different documentFiles, {len(documents)} documents have {len(passages)}"
        )
    sentences: dict[CharRange, set[PassageRange]] = {}
    for highlight in row.objects("set_of_highlights_in_context"):
        sentence, start = highlight.text("scuSentence"), highlight.integer("scuSentCharIdx")
        if not sentence or start < 0 or response[start : start + len(sentence)] != sentence:
            raise highlight.error("scuSentCharIdx", f"should be the place of scuSentence in the response, was: {start}")
        gold = sentences.setdefault(CharRange(start, start + len(sentence)), set())
        gold.update(_highlighted(highlight, passages))
    spans = tuple(sorted(sentences))
    evidence = tuple(tuple(sorted(sentences[span])) for span in spans)
    parts = row.text("unique_id"), row.text("query"), tuple(passages.values()), response
    return LabelledAnswer(
        QARecord(*parts, row.source, target_spans=spans),
        tuple(frozenset(chars.passage_index for chars in ranges) for ranges in evidence),
        evidence,
    )


def _highlighted(highlight: DataRow, passages: Mapping[str, Passage]) -> Iterator[PassageRange]:
    name, ranges = highlight.text("documentFile"), highlight.ranges("docSpanOffsets")
    if name not in passages:
        raise highlight.error("documentFile", f"should be one of the row's {len(passages)} documents, is none of them")
    if not ranges:
        raise highlight.error("docSpanOffsets", "should have at least one range, has none")
    length = len(passages[name].text)
    for start, end in ranges:
        if not 0 <= start < end <= length:
            should = f"should lie within the document's {length} characters, was: [{start}, {end}]"
            raise highlight.error("docSpanOffsets", should)
        yield PassageRange([*passages].index(name), CharRange(start, end))


def load_clapnq(path: Path) -> LabelledDataset:
    """The answers of a CLAPnq ``.jsonl`` file, or of all such files of a directory; two people's answers are two.

    The target span is the whole answer, because the sentences were chosen for all of it; they are its gold evidence.
    Rows without an answer are skipped (``unanswerable``), and so are rows of whose answers none is new and has chosen
    sentences (``no_selected_sentence``).
    """
    return select_from_files(path, "clapnq", _clapnq_answers)


def _clapnq_answers(row: DataRow) -> Sequence[LabelledAnswer] | str:
    documents = row.objects("passages")
    outputs = {output.text("answer"): output for output in row.objects("output") if output.text("answer").strip()}
    if not outputs:
        return "unanswerable"
    answers = []
    for number, (answer, output) in enumerate(outputs.items(), start=1):
        if gold := tuple(sorted(set(_selected(output, documents)))):
            passages = tuple(document.passage() for document in documents)
            whole = CharRange(len(answer) - len(answer.lstrip()), len(answer.rstrip()))
            texts = f"{row.text('id')}-{number}", row.text("input"), passages, answer
            record = QARecord(*texts, row.source, target_spans=(whole,))
            answers.append(LabelledAnswer(record, (frozenset(chars.passage_index for chars in gold),), (gold,)))
    return answers or "no_selected_sentence"


def _selected(output: DataRow, passages: Sequence[DataRow]) -> Iterator[PassageRange]:
    """Where the chosen sentences stand in the passages; of several equal ones the first counts."""
    for sentence in output.texts("selected_sentences"):
        starts = [passage.text("text").find(sentence) for passage in passages]
        index = next((index for index, start in enumerate(starts) if start >= 0), None)
        if index is None or not sentence:
            raise output.error("selected_sentences", "should be parts of a passage's text, one is not")
        yield PassageRange(index, CharRange(starts[index], starts[index] + len(sentence)))


_MARKER = re.compile(r"\s*\[\s*\d{1,9}(?:\s*[,;]\s*\d{1,9})*\s*\]")


def load_alce(path: Path) -> LabelledDataset:
    """The answers of an ALCE result file; a passage is a document, and every sentence of the answer a target span.

    The file is a list of objects, or an object with such a list in ``data``. As in ALCE, only the first line of
    ``output`` is read; its markers are removed and kept as ``citations``. Rows without a sentence (``empty_answer``) or
    without documents (``no_passages``) are skipped. No label says which passage is right.
    """
    return select_rows(read_json_rows(path, field="data"), _alce_answer)


def _alce_answer(row: DataRow) -> Sequence[LabelledAnswer] | str:
    question, documents = row.text("question"), row.objects("docs")
    if isinstance(row.fields.get("output"), list):
        raise row.error("output", "should be one string, was a list; write each sample of the answer as a separate row")
    first_line = row.text("output").strip().split("\n")[0]
    answer, sentences = remove_citations(first_line.replace("<|im_end|>", "").strip())
    if not sentences:
        return "empty_answer"
    passages = tuple(document.passage(_document_id(document)) for document in documents)
    if not any(passage.text.strip() for passage in passages):
        return "no_passages"
    spans, citations = zip(*sentences, strict=True)
    record = QARecord(str(row.row), question, passages, answer, row.source, target_spans=spans)
    return [LabelledAnswer(record, citations=citations)]


def _document_id(document: DataRow) -> str | None:
    number = document.fields.get("id")
    return str(number) if isinstance(number, int) else document.optional_text("id")


def remove_citations(cited: str) -> tuple[str, list[tuple[CharRange, tuple[int, ...]]]]:
    """The text without markers such as ``[1]`` and ``[1, 2]``, and its sentences with their citations, 0-based.

    A marker belongs to the last sentence that begins before it, so that "ends [1]." and "ends. [1]" cite for the same
    sentence; one at the very start belongs to the first. Numbers of more than nine digits stay in the text. Each
    passage counts once, in order, and may not exist.
    """
    text, position = "", 0
    markers = []
    for match in _MARKER.finditer(cited):
        text = (text + cited[position : match.start()]).lstrip()
        markers.append((len(text), [int(number) - 1 for number in re.findall(r"\d+", match.group())]))
        position = match.end()
    text = (text + cited[position:]).lstrip()
    sentences = whole_sentences(text)
    citations: list[dict[int, None]] = [{} for _ in sentences]
    for start, numbers in markers if sentences else ():
        owner = max(0, sum(sentence.char_start < start for sentence in sentences) - 1)
        citations[owner] |= dict.fromkeys(numbers)
    return text, [(chars, tuple(own)) for chars, own in zip(sentences, citations, strict=True)]


_PASSAGE = re.compile(r"^passage (\d+):", re.MULTILINE)
_Source = tuple[str, str, tuple[Passage, ...]]
"""The task (``QA``, ``Summary`` or ``Data2txt``), the question or an empty string, and the passages."""


def load_ragtruth(path: Path) -> JudgedDataset:
    """The answers of a directory with RAGTruth's ``response.jsonl`` and ``source_info.jsonl``, each plain or ``.xz``.

    Rows are skipped if the answer is empty (``empty_answer``), if the source is missing (``no_source``) or has no text
    (``no_passages``), or if a label lies outside the answer (``label_out_of_range``) or does not match its text
    (``label_text_differs``).
    """
    sources = {row.text("source_id"): _source(row) for row in read_rows(_file(path, "source_info"))}
    responses = read_rows(_file(path, "response"))
    return select_rows(responses, lambda row: _ragtruth_answer(row, sources))


def _file(directory: Path, name: str) -> Path:
    for file in (directory / f"{name}.jsonl", directory / f"{name}.jsonl.xz"):
        if file.is_file():
            return file
    raise DataError(
        f"--data {directory} should be a directory with response.jsonl and source_info.jsonl, has no {name}.jsonl"
    )


def _source(row: DataRow) -> _Source:
    """The source of one line of ``source_info.jsonl``, whose ``source_info`` is one of three kinds.

    A string becomes one passage. An object with ``passages`` has a list of strings, or one string in which each passage
    begins with ``passage N:`` on a line of its own. Of another object, such as that of a business, each item of a list
    of objects becomes a passage with the list's name and its number as title; all else forms the first one.
    """
    task, source = row.text("task_type"), row.fields.get("source_info")
    if isinstance(source, str):
        return task, "", (Passage(source, passage_id="1"),)
    if not isinstance(source, dict):
        raise row.error("source_info", f"should be a string or an object, was: {type(source).__name__}")
    info = row.inner("source_info")
    passages = _numbered(info) if "passages" in source else _record_passages(source)
    return task, info.optional_text("question") or "", tuple(passages)


def _numbered(info: DataRow) -> Iterator[Passage]:
    if isinstance(info.fields["passages"], list):
        texts: Iterable[tuple[object, str]] = enumerate(info.texts("passages"), start=1)
    else:
        first, *rest = _PASSAGE.split(info.text("passages"))
        is_whole = not rest or first.strip()
        numbered = zip(rest[::2], map(str.strip, rest[1::2]), strict=True)
        texts = [(1, info.text("passages"))] if is_whole else numbered
    return (Passage(text, passage_id=str(number)) for number, text in texts)


def _record_passages(record: Mapping[str, object]) -> Iterator[Passage]:
    lists: dict[str, list[Mapping[str, object]]] = {
        name: value
        for name, value in record.items()
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    }
    if rest := {name: value for name, value in record.items() if name not in lists}:
        yield Passage("\n".join(_lines(rest)), passage_id="record")
    for name, items in lists.items():
        for number, item in enumerate(items, start=1):
            yield Passage("\n".join(_lines(item)), f"{name} {number}", f"{name} {number}")


def _lines(record: Mapping[str, object], path: str = "") -> Iterator[str]:
    """One line per value; the names of nested objects precede those of their members."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _lines(value, f"{path}{name} ")
        else:
            yield f"{path}{name}: {value if isinstance(value, str) else dumps(value, ensure_ascii=False)}"


def _ragtruth_answer(row: DataRow, sources: Mapping[str, _Source]) -> Sequence[JudgedAnswer] | str:
    answer, source = row.text("response"), sources.get(row.text("source_id"))
    labels = row.objects("labels")
    if not answer.strip():
        return "empty_answer"
    if source is None:
        return "no_source"
    task, question, passages = source
    if not any(passage.text.strip() for passage in passages):
        return "no_passages"
    unsupported = []
    for label in labels:
        start, end = label.integer("start"), label.integer("end")
        if not 0 <= start < end <= len(answer):
            return "label_out_of_range"
        if label.text("text") != answer[start:end]:
            return "label_text_differs"
        unsupported.append(UnsupportedRange(CharRange(start, end), label.text("label_type")))
    unsupported.sort(key=lambda marked: marked.chars)
    model, split = row.optional_text("model"), row.optional_text("split")
    record = QARecord(row.text("id"), question, passages, answer, row.source, generator=model)
    return [JudgedAnswer(record, tuple(unsupported), group=task, split=split)]


REFERENCE = "reference"
"""The ``model`` of answers that people wrote; they form a split of their own, those of models are ``test``."""
UNFAITHFUL_GRADE = 2.0
"""Answers with this mean grade or a lower one count as unsupported; grades are 1 to 4."""


def load_mtrag(path: Path) -> JudgedDataset:
    """The answers of an MTRAG ``.jsonl`` file, or of all such files of a directory; the question is the last turn.

    ``faithfulness`` is the mean of the grades; with at most 2 an answer is unsupported. Rows without an answer
    (``empty_answer``), without a passage that has text (``no_passages``) or without a grade (``not_judged``) are
    skipped.
    """
    return select_from_files(path, "mtrag", _mtrag_answer)


def _mtrag_answer(row: DataRow) -> Sequence[JudgedAnswer] | str:
    answer, model, turns = row.text("answer"), row.text("model"), row.objects("conversation")
    grades = row.texts("faithfulness")
    if others := [grade for grade in grades if grade not in ("1", "2", "3", "4")]:
        raise row.error("faithfulness", f"should have grades from 1 to 4, has: {others[0]!r}")
    passages = tuple(passage.passage(passage.optional_text("passage_id")) for passage in row.objects("passages"))
    if not turns or turns[-1].text("speaker") != "user":
        raise row.error("conversation", "should end with a turn of the user, does not")
    if not answer.strip():
        return "empty_answer"
    if not any(passage.text.strip() for passage in passages):
        return "no_passages"
    if not grades:
        return "not_judged"
    mean = fmean(map(int, grades))
    record = QARecord(row.text("id"), turns[-1].text("text"), passages, answer, row.source, generator=model)
    split = REFERENCE if model == REFERENCE else "test"
    return [JudgedAnswer(record, None, split=split, answer_supported=mean > UNFAITHFUL_GRADE, faithfulness=mean)]


def load_bump(path: Path) -> JudgedDataset:
    """The summaries of a BUMP ``.jsonl`` file, or of all such files of a directory: two of each row, grouped by file.

    The edited summary is unsupported, of the kind ``corrected_error_type``, else ``error_type``. The reference summary
    is taken as supported, and counts once however many rows edit it; nobody checked that it is, and in task 1 some are
    not. Rows with an empty article (``no_passages``) or summary (``empty_answer``) and those that repeat an article and
    its edited summary (``duplicate``) are skipped.
    """
    seen: set[tuple[str, str]] = set()

    def read(row: DataRow) -> Sequence[JudgedAnswer] | str:
        article, reference, edited = (row.text(name) for name in ("article", "reference_summary", "edited_summary"))
        if not article.strip():
            return "no_passages"
        if not (reference.strip() and edited.strip()):
            return "empty_answer"
        if (article, edited) in seen:
            return "duplicate"
        task, number = row.file.split(".")[0], row.integer("id")
        kind = (row.optional_text("corrected_error_type") or row.text("error_type")).removesuffix(" Error")
        answers = [_summary(f"{task}-{number}-edited", row, article, edited, task, [kind])]
        if (article, reference) not in seen:
            answers.insert(0, _summary(f"{task}-{number}-reference", row, article, reference, task))
        seen.update([(article, reference), (article, edited)])
        return answers

    return select_from_files(path, "bump", read)


def load_summedits(path: Path) -> JudgedDataset:
    """The summaries of a SummEdits ``.jsonl`` file, or of all such files of a directory; label 1 means supported.

    The group is the domain, which is the name of the file; the kinds of errors are the edits. Rows with an empty
    summary (``empty_answer``) or document (``no_passages``) and those that repeat both (``duplicate``) are skipped.
    """
    seen: set[tuple[str, str]] = set()

    def read(row: DataRow) -> Sequence[JudgedAnswer] | str:
        document, summary = row.text("doc"), row.text("summary")
        if (document, summary) in seen:
            return "duplicate"
        seen.add((document, summary))
        label = row.integer("label")
        if label not in (0, 1):
            raise row.error("label", f"should be 0 or 1, was: {label}")
        if not summary.strip():
            return "empty_answer"
        if not document.strip():
            return "no_passages"
        domain = row.file.split(".")[0].removeprefix("summedits_")
        return [_summary(row.text("id"), row, document, summary, domain, None if label else row.texts("edit_types"))]

    return select_from_files(path, "summedits", read)


def _summary(
    record_id: str, row: DataRow, document: str, summary: str, group: str, errors: Sequence[str] | None = None
) -> JudgedAnswer:
    """A summary of a document; None for the kinds of errors if it is supported."""
    record = QARecord(record_id, "", (Passage(document),), summary, row.source)
    return JudgedAnswer(record, None, group=group, answer_supported=errors is None, error_kinds=tuple(errors or ()))

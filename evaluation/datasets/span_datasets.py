"""Data sets in which people, or the answers themselves, name the source of each span.

QuoteSum and VERI-GRAN mark the spans as ``[ N text ]``, LFQA highlights passage texts for each sentence, CLAPnq has the
passage sentences that an answer was written from. ALCE's answers cite documents as ``[1][2]``, which nobody judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attribeam.attribution.answers.parsed_answer import whole_sentences
from attribeam.evaluation.datasets.dataset_file import (
    DataRow,
    LabelledAnswer,
    LabelledDataset,
    PassageRange,
    read_json_rows,
    read_rows,
    select_from_files,
    select_rows,
)
from attribeam.schemas import CharRange, Passage, QARecord

_OPENING = re.compile(r"\[ (\d+) ")
_MARKED = re.compile(r"\[ (\d+) (.*?) ?\]", re.DOTALL)
_SPACE_BEFORE_MARK = re.compile(r" (?=[.,;:!?)\]}%])")

MarkedSpans = list[tuple[CharRange, int]]
"""Ranges of a text without its mark-up, each with the number N of its mark."""


def remove_markup(marked: str) -> tuple[str, MarkedSpans]:
    """The text with every ``[ N text ]`` replaced by ``text``, and the resulting character range of each ``text``.

    A space between ``]`` and a closing punctuation mark is an artefact of tokenisation and is dropped. Spaces at the
    ends of a marked text stay in the text but not in its span. Brackets without a number and spaces, such as a
    citation ``[1]``, are left alone.

    Raises:
        ValueError: if a bracket is not closed, or contains only spaces.
    """
    text, position = "", 0
    spans: MarkedSpans = []
    for match in _MARKED.finditer(marked):
        inner = match.group(2)
        _check(match, inner)
        text += _without_artefact(marked[position : match.start()], after_bracket=bool(spans))
        start = len(text) + len(inner) - len(inner.lstrip())
        spans.append((CharRange(start, len(text) + len(inner.rstrip())), int(match.group(1))))
        text += inner
        position = match.end()
    rest = marked[position:]
    if _OPENING.search(rest):
        raise ValueError("a bracket '[ N ' is never closed by ']'")
    return text + _without_artefact(rest, after_bracket=bool(spans)), spans


def _check(match: re.Match[str], inner: str) -> None:
    if not inner.strip():
        raise ValueError(f"bracket {match.group(1)} at character {match.start()} contains no text")
    if _OPENING.search(inner):
        raise ValueError(f"bracket {match.group(1)} at character {match.start()} is not closed before the next opens")


def _without_artefact(text: str, *, after_bracket: bool) -> str:
    return text[1:] if after_bracket and _SPACE_BEFORE_MARK.match(text) else text


def load_quotesum(path: Path) -> LabelledDataset:
    """The answers of a QuoteSum ``.jsonl`` file; a passage is a source with its title.

    Rows without a marked span are skipped (``no_span``), as of VERI-GRAN.

    Raises:
        DataError: if the file cannot be read, or a row is not in the format. The functions below raise it likewise.
    """
    return _load_marked(path, _quotesum_answer)


def load_veri_gran(path: Path) -> LabelledDataset:
    """The answers of a VERI-GRAN ``.jsonl`` file; a passage is a sentence, and the answer is the whole summary."""
    return _load_marked(path, _veri_gran_answer)


def _load_marked(path: Path, labelled: Callable[[DataRow, str, MarkedSpans], LabelledAnswer]) -> LabelledDataset:
    def read(row: DataRow) -> Sequence[LabelledAnswer] | str:
        summary = row.text("summary")
        try:
            answer, spans = remove_markup(summary)
        except ValueError as error:
            raise row.error("summary", f"has broken mark-up: {error}") from error
        return [labelled(row, answer, spans)] if spans else "no_span"

    return LabelledDataset(*select_rows(read_rows(path), read))


def _quotesum_answer(row: DataRow, answer: str, spans: MarkedSpans) -> LabelledAnswer:
    numbers = [number for number in range(1, 9) if row.text(f"source{number}")]
    for _, number in spans:
        if number not in numbers:
            raise row.error("summary", f"marks source {number}, but the row has the sources {numbers}")
    passages = tuple(
        Passage(row.text(f"source{number}"), row.text(f"title{number}") or None, f"source{number}")
        for number in numbers
    )
    targets, marks = zip(*spans, strict=True)
    record = QARecord(row.text("unique_id"), row.text("question"), passages, answer, row.source, target_spans=targets)
    return LabelledAnswer(record, tuple(frozenset({numbers.index(number)}) for number in marks))


def _veri_gran_answer(row: DataRow, answer: str, spans: MarkedSpans) -> LabelledAnswer:
    sentences = row.texts("passages")
    for _, number in spans:
        if not 1 <= number <= len(sentences):
            raise row.error("summary", f"marks sentence {number}, but the row has {len(sentences)} passages")
    targets, marks = zip(*spans, strict=True)
    passages = tuple(map(Passage, sentences))
    record = QARecord(str(row.row), row.text("question"), passages, answer, row.source, target_spans=targets)
    return LabelledAnswer(record, tuple(frozenset({number - 1}) for number in marks))


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

    return LabelledDataset(*select_rows(read_rows(path), read))


def _lfqa_answer(row: DataRow) -> LabelledAnswer:
    passages = [
        Passage(one.text("rawDocumentText"), passage_id=one.text("documentFile")) for one in row.objects("documents")
    ]
    names = [one.passage_id or "" for one in passages]
    if len(set(names)) < len(names):
        raise row.error(
            "documents", f"should have different documentFiles, {len(names)} documents have {len(set(names))}"
        )
    sentences: dict[CharRange, set[PassageRange]] = {}
    for highlight in row.objects("set_of_highlights_in_context"):
        sentence = _sentence(highlight, row.text("response"))
        sentences.setdefault(sentence, set()).update(_gold_ranges(highlight, names, passages))
    spans = tuple(sorted(sentences))
    evidence = tuple(tuple(sorted(sentences[span])) for span in spans)
    texts = row.text("unique_id"), row.text("query"), tuple(passages), row.text("response")
    gold = tuple(frozenset(one.passage_index for one in ranges) for ranges in evidence)
    return LabelledAnswer(QARecord(*texts, row.source, target_spans=spans), gold, evidence)


def _sentence(highlight: DataRow, response: str) -> CharRange:
    sentence, start = highlight.text("scuSentence"), highlight.integer("scuSentCharIdx")
    if not sentence or start < 0 or response[start : start + len(sentence)] != sentence:
        raise highlight.error("scuSentCharIdx", f"should be the place of scuSentence in the response, was: {start}")
    return CharRange(start, start + len(sentence))


def _gold_ranges(highlight: DataRow, names: Sequence[str], passages: Sequence[Passage]) -> Iterator[PassageRange]:
    name = highlight.text("documentFile")
    if name not in names:
        raise highlight.error("documentFile", f"should be one of the row's {len(names)} documents, is none of them")
    index = names.index(name)
    length, ranges = len(passages[index].text), highlight.ranges("docSpanOffsets")
    if not ranges:
        raise highlight.error("docSpanOffsets", "should have at least one range, has none")
    for start, end in ranges:
        if not 0 <= start < end <= length:
            place = f"should lie within the document's {length} characters, was: [{start}, {end}]"
            raise highlight.error("docSpanOffsets", place)
        yield PassageRange(index, CharRange(start, end))


def load_clapnq(path: Path) -> LabelledDataset:
    """The answers of a CLAPnq ``.jsonl`` file, or of all such files of a directory; two people's answers are two.

    The target span is the whole answer, because the sentences were chosen for all of it; they are its gold evidence.
    Rows without an answer are skipped (``unanswerable``), and so are rows of whose answers none is new and has chosen
    sentences (``no_selected_sentence``).
    """
    return LabelledDataset(*select_from_files(path, "clapnq", _clapnq_answers))


def _clapnq_answers(row: DataRow) -> Sequence[LabelledAnswer] | str:
    documents = row.objects("passages")
    outputs = {one.text("answer"): one for one in row.objects("output") if one.text("answer").strip()}
    if not outputs:
        return "unanswerable"
    found = []
    for number, (answer, output) in enumerate(outputs.items(), start=1):
        gold = tuple(sorted(set(_selected(output, documents))))
        if gold:
            passages = tuple(one.passage() for one in documents)
            whole = CharRange(len(answer) - len(answer.lstrip()), len(answer.rstrip()))
            texts = f"{row.text('id')}-{number}", row.text("input"), passages, answer
            record = QARecord(*texts, row.source, target_spans=(whole,))
            found.append(LabelledAnswer(record, (frozenset(one.passage_index for one in gold),), (gold,)))
    return found or "no_selected_sentence"


def _selected(output: DataRow, passages: Sequence[DataRow]) -> Iterator[PassageRange]:
    """Where the chosen sentences stand in the passages; of several equal ones the first counts."""
    for sentence in output.texts("selected_sentences"):
        places = [(index, passage.text("text").find(sentence)) for index, passage in enumerate(passages)]
        index, start = next(((index, start) for index, start in places if start >= 0), (0, -1))
        if start < 0 or not sentence:
            raise output.error("selected_sentences", "should be parts of a passage's text, one is not")
        yield PassageRange(index, CharRange(start, start + len(sentence)))


_MARKER = re.compile(r"\s*\[\s*\d{1,9}(?:\s*[,;]\s*\d{1,9})*\s*\]")
_NUMBER = re.compile(r"\d+")
_END_OF_TURN = "<|im_end|>"


def load_alce(path: Path) -> LabelledDataset:
    """The answers of an ALCE result file; a passage is a document, and every sentence of the answer a target span.

    The file is a list of objects, or an object with such a list in ``data``. Each object has ``question``, ``output``
    and ``docs`` (with ``text``, and possibly ``title`` and ``id``). As in ALCE, only the first line of ``output`` is
    read; its markers are removed and kept as ``citations``. Rows without a sentence (``empty_answer``) or without
    documents (``no_passages``) are skipped. No label says which passage is right.
    """
    return LabelledDataset(*select_rows(read_json_rows(path, field="data"), _alce_answer))


def _alce_answer(row: DataRow) -> Sequence[LabelledAnswer] | str:
    question, documents = row.text("question"), row.objects("docs")
    if isinstance(row.fields.get("output"), list):
        raise row.error("output", "should be one string, was a list; write each sample of the answer as a separate row")
    first_line = row.text("output").strip().split("\n")[0]
    answer, sentences = remove_citations(first_line.replace(_END_OF_TURN, "").strip())
    if not sentences:
        return "empty_answer"
    passages = tuple(one.passage(_document_id(one)) for one in documents)
    if not any(passage.text.strip() for passage in passages):
        return "no_passages"
    spans = tuple(chars for chars, _ in sentences)
    record = QARecord(str(row.row), question, passages, answer, row.source, target_spans=spans)
    return [LabelledAnswer(record, citations=tuple(citations for _, citations in sentences))]


def _document_id(document: DataRow) -> str | None:
    number = document.fields.get("id")
    return str(number) if isinstance(number, int) else document.optional_text("id")


def remove_citations(cited: str) -> tuple[str, list[tuple[CharRange, tuple[int, ...]]]]:
    """The text without markers such as ``[1]``, ``[1][2]`` and ``[1, 2]`` and the white space before them.

    A marker belongs to the last sentence that begins before it, so that "ends [1]." and "ends. [1]" cite for the same
    sentence; a marker at the very start belongs to the first sentence. Numbers of more than nine digits are not
    citations and stay in the text.

    Returns:
        The text, and its sentences with the 0-based passages that each cites, in order, each once; some may not exist.
    """
    text, position = "", 0
    markers = []
    for match in _MARKER.finditer(cited):
        text = (text + cited[position : match.start()]).lstrip()
        markers.append((len(text), [int(number) - 1 for number in _NUMBER.findall(match.group())]))
        position = match.end()
    text = (text + cited[position:]).lstrip()
    sentences = whole_sentences(text)
    citations: list[dict[int, None]] = [{} for _ in sentences]
    for place, numbers in markers if sentences else ():
        owner = max(0, sum(one.char_start < place for one in sentences) - 1)
        citations[owner] |= dict.fromkeys(numbers)
    return text, [(chars, tuple(own)) for chars, own in zip(sentences, citations, strict=True)]

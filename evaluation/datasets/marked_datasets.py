"""Data sets in which people named the source of each span: QuoteSum and VERI-GRAN by mark-up, LFQA by highlights.

The mark-up, ``[ N text ]``, is removed, and the character range of every marked text is recorded while the answer is
built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from attribeam.evaluation.datasets.dataset_file import DataRow, read_rows, select_rows
from attribeam.schemas import CharRange, Passage, QARecord, RowSource
from attribeam.schemas.labelled_answer import LabelledAnswer, LabelledDataset, PassageRange

_OPENING = re.compile(r"\[ (\d+) ")
_MARKED = re.compile(r"\[ (\d+) (.*?) ?\]", re.DOTALL)
_SPACE_BEFORE_MARK = re.compile(r" (?=[.,;:!?)\]}%])")


@dataclass(frozen=True, slots=True)
class MarkedSpan:
    """A marked text: its range in the text without mark-up, and the number N of its mark."""

    chars: CharRange
    number: int


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text without its mark-up, and the spans that were marked in it."""

    text: str
    spans: tuple[MarkedSpan, ...]


def remove_markup(marked: str) -> MarkedText:
    """The text with every ``[ N text ]`` replaced by ``text``, and the resulting character range of each ``text``.

    A space between ``]`` and a closing punctuation mark is an artefact of tokenisation and is dropped. Spaces at the
    ends of a marked text stay in the text but not in its span. Brackets without a number and spaces, such as a
    citation ``[1]``, are left alone.

    Raises:
        ValueError: if a bracket is not closed, or contains only spaces.
    """
    text, position = "", 0
    spans: list[MarkedSpan] = []
    for match in _MARKED.finditer(marked):
        inner = match.group(2)
        _check(match, inner)
        text += _without_artefact(marked[position : match.start()], after_bracket=bool(spans))
        start = len(text) + len(inner) - len(inner.lstrip())
        spans.append(MarkedSpan(CharRange(start, len(text) + len(inner.rstrip())), int(match.group(1))))
        text += inner
        position = match.end()
    rest = marked[position:]
    if _OPENING.search(rest):
        raise ValueError("a bracket '[ N ' is never closed by ']'")
    return MarkedText(text + _without_artefact(rest, after_bracket=bool(spans)), tuple(spans))


def _check(match: re.Match[str], inner: str) -> None:
    if not inner.strip():
        raise ValueError(f"bracket {match.group(1)} at character {match.start()} contains no text")
    if _OPENING.search(inner):
        raise ValueError(f"bracket {match.group(1)} at character {match.start()} is not closed before the next opens")


def _without_artefact(text: str, *, after_bracket: bool) -> str:
    return text[1:] if after_bracket and _SPACE_BEFORE_MARK.match(text) else text


def load_marked(
    path: Path, *, field: str, labelled: Callable[[DataRow, MarkedText, Path], LabelledAnswer]
) -> LabelledDataset:
    """The answers of a ``.jsonl`` file; rows without a marked span in ``field`` are skipped (``no_span``).

    Raises:
        DataError: if the file cannot be read, or a row's mark-up is broken.
    """

    def read(row: DataRow) -> LabelledAnswer | str:
        marked = marked_answer(row, field)
        return labelled(row, marked, path) if marked.spans else "no_span"

    return LabelledDataset(*select_rows(read_rows(path), read))


def marked_answer(row: DataRow, field: str) -> MarkedText:
    """The field's text without mark-up.

    Raises:
        DataError: if there is no text, or the mark-up is broken.
    """
    text = row.text(field)
    try:
        return remove_markup(text)
    except ValueError as error:
        raise row.error(field, f"has broken mark-up: {error}") from error


_SOURCE_NUMBERS = range(1, 9)


def load_quotesum(path: Path) -> LabelledDataset:
    """The answers of a QuoteSum ``.jsonl`` file; a passage is a source with its title.

    Raises:
        DataError: if the file cannot be read, or a row is not in QuoteSum's format.
    """
    return load_marked(path, field="summary", labelled=_quotesum_answer)


def _quotesum_answer(row: DataRow, marked: MarkedText, path: Path) -> LabelledAnswer:
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


def load_veri_gran(path: Path) -> LabelledDataset:
    """The answers of a VERI-GRAN ``.jsonl`` file; a passage is a sentence, and the answer is the whole summary.

    Rows without a marked span are skipped (``no_span``).

    Raises:
        DataError: if the file cannot be read, or a row is not in VERI-GRAN's format.
    """
    return load_marked(path, field="summary", labelled=_veri_gran_answer)


def _veri_gran_answer(row: DataRow, marked: MarkedText, path: Path) -> LabelledAnswer:
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

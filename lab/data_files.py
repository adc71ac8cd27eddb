"""Files that training and benchmarks draw from: pages of running text, and parts of the rows that we wrote."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from attribeam.evaluation.datasets.dataset_file import DataRow
from attribeam.schemas import CharRange, Passage


@dataclass(frozen=True, slots=True)
class PageText:
    """One page as its file holds it."""

    title: str
    paragraphs: list[str]


def read_page_file(path: Path) -> Iterator[PageText]:
    """The pages of a file of ``{"title": str, "paras": [str, ...]}`` lines, plain or ``.xz``, in their order.

    Raises:
        OSError: if the file cannot be read.
    """
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            page = json.loads(line)
            yield PageText(page["title"], page["paras"])


def passage_of(passage: DataRow) -> Passage:
    """A passage with ``passage_id``, ``text`` and ``title``, which may be null.

    Raises:
        DataError: if a field is missing or of another type.
    """
    title = None if passage.fields.get("title") is None else passage.text("title")
    return Passage(text=passage.text("text"), title=title, passage_id=passage.text("passage_id"))


def span_chars(span: DataRow, answer: str) -> CharRange:
    """Where the span's ``text`` occurs in the answer; ``occurrence``, from 1, says which place if there are several.

    Raises:
        DataError: if it does not occur, or it is not said which place is meant.
    """
    text = span.text("text")
    starts = _starts(text, answer)
    if not starts:
        raise span.error("text", "should be part of the row's answer, does not occur in it")
    if "occurrence" not in span.fields and len(starts) > 1:
        raise span.error("text", f"occurs {len(starts)} times in the answer; 'occurrence' should say which is meant")
    occurrence = span.integer("occurrence") if "occurrence" in span.fields else 1
    if not 1 <= occurrence <= len(starts):
        raise span.error("occurrence", f"should be from 1 to {len(starts)}, was: {occurrence}")
    return CharRange(starts[occurrence - 1], starts[occurrence - 1] + len(text))


def _starts(text: str, answer: str) -> Sequence[int]:
    return [start for start in range(len(answer)) if text and answer.startswith(text, start)]

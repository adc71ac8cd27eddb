"""Generated QA logs of two shapes, their answers stitched from their passages."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.benchmark_text import PASSAGE_WORDS, Page

ANSWER_WORDS = 40
_CONNECTING = (
    "According to the first source,",
    "Another page states that",
    "In addition,",
    "It is also known that",
    "However,",
    "By contrast,",
    "The answer is that",
    "One of the sources says",
)
_SHORT_CONNECTING = ("In short,", "It is said that", "also,", "while", "The answer is that", "and later", "there,")
_QUOTESUM_PASSAGE_WORDS = 82
_BATCH_ROWS = 1000
_PASSAGE = pa.struct([("passage_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_SPAN = pa.struct([("char_start", pa.int32()), ("char_end", pa.int32())])
_SCHEMA = pa.schema(
    [
        ("record_id", pa.string()),
        ("question", pa.string()),
        ("passages", pa.list_(_PASSAGE)),
        ("answer", pa.string()),
        ("target_spans", pa.list_(_SPAN)),
    ]
)


class RowShape(StrEnum):
    """What a row is like.

    ``WIKIPEDIA``: two to six passages of 90 words, an answer of 40 words, no spans. ``QUOTESUM``: three to five
    passages, 2,000 characters in all, an answer of 275 characters with four or five spans, 4.6 on average.
    """

    WIKIPEDIA = "wikipedia"
    QUOTESUM = "quotesum"


@dataclass(frozen=True, slots=True)
class BenchmarkPassage:
    """A passage of a generated row."""

    passage_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """A generated row of a QA log."""

    record_id: str
    question: str
    passages: tuple[BenchmarkPassage, ...]
    answer: str
    target_spans: tuple[tuple[int, int], ...] | None = None


def benchmark_rows(
    pages: Sequence[Page], *, rows: int, seed: int, shape: RowShape = RowShape.WIKIPEDIA
) -> Iterator[BenchmarkRow]:
    """``rows`` rows; row n depends on the pages, ``seed``, ``shape`` and n alone."""
    make = _wikipedia_row if shape is RowShape.WIKIPEDIA else _quotesum_row
    for number in range(rows):
        yield make(pages, number, random.Random(f"{seed}/{number}"))


def write_log(path: Path, rows: Iterator[BenchmarkRow]) -> None:
    """The rows as a zstd Parquet QA log, written ``_BATCH_ROWS`` at a time."""
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        while batch := list(islice(rows, _BATCH_ROWS)):
            writer.write_batch(pa.RecordBatch.from_pylist([_plain(row) for row in batch], schema=_SCHEMA))


def _wikipedia_row(pages: Sequence[Page], number: int, rng: random.Random) -> BenchmarkRow:
    chosen = _chosen_pages(pages, rng, others=rng.randint(1, 5))
    texts = [_passage_words(page, rng, PASSAGE_WORDS) for page in chosen]
    return _row(number, chosen, texts, _answer(texts, rng))


def _quotesum_row(pages: Sequence[Page], number: int, rng: random.Random) -> BenchmarkRow:
    chosen = _chosen_pages(pages, rng, others=rng.randint(2, 4))
    texts = [_passage_words(page, rng, _QUOTESUM_PASSAGE_WORDS) for page in chosen]
    answer, spans = "", []
    for _ in range(rng.choices((4, 5), (0.4, 0.6))[0]):
        answer += rng.choice(_SHORT_CONNECTING) + " "
        quote = " ".join(_run_of(rng.choice(texts), rng, length=rng.randint(6, 10)))
        spans.append((len(answer), len(answer) + len(quote)))
        answer += quote + ". "
    return _row(number, chosen, texts, answer.rstrip(), tuple(spans))


def _row(
    number: int,
    pages: Sequence[Page],
    texts: Sequence[tuple[str, ...]],
    answer: str,
    target_spans: tuple[tuple[int, int], ...] | None = None,
) -> BenchmarkRow:
    passages = tuple(
        BenchmarkPassage(f"p{index}", page.title, " ".join(words))
        for index, (page, words) in enumerate(zip(pages, texts, strict=True))
    )
    question = f"What is said about {pages[0].title}, and what is {' '.join(texts[0][:4])}?"
    return BenchmarkRow(f"row-{number:07d}", question, passages, answer, target_spans)


def _chosen_pages(pages: Sequence[Page], rng: random.Random, *, others: int) -> list[Page]:
    """A page, and as many more, half of them the same."""
    base = rng.choice(pages)
    return [base, *(base if rng.random() < 0.5 else rng.choice(pages) for _ in range(others))]


def _passage_words(page: Page, rng: random.Random, length: int) -> tuple[str, ...]:
    return _run_of(page.words, rng, length=length)


def _run_of(words: tuple[str, ...], rng: random.Random, *, length: int) -> tuple[str, ...]:
    start = rng.randrange(len(words) - length + 1)
    return words[start : start + length]


def _answer(texts: Sequence[tuple[str, ...]], rng: random.Random) -> str:
    """Sentences of connecting words and a run of a passage's words, ``ANSWER_WORDS`` in all."""
    answer: list[str] = []
    while len(answer) < ANSWER_WORDS:
        words = rng.choice(texts)
        length = rng.randint(6, 14)
        sentence = [*rng.choice(_CONNECTING).split(), *_run_of(words, rng, length=length)]
        answer += _ended(sentence[: ANSWER_WORDS - len(answer)])
    return " ".join(answer)


def _ended(sentence: list[str]) -> list[str]:
    return [*sentence[:-1], sentence[-1].rstrip(".,;:") + "."]


def _plain(row: BenchmarkRow) -> dict[str, object]:
    passages = [{"passage_id": one.passage_id, "title": one.title, "text": one.text} for one in row.passages]
    spans = row.target_spans and [{"char_start": start, "char_end": end} for start, end in row.target_spans]
    return {
        "record_id": row.record_id,
        "question": row.question,
        "passages": passages,
        "answer": row.answer,
        "target_spans": spans,
    }

"""Generated QA logs: two to six passages of 90 words, and an answer of 40 words stitched from them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
_BATCH_ROWS = 1000
_PASSAGE = pa.struct([("passage_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_SCHEMA = pa.schema(
    [("record_id", pa.string()), ("question", pa.string()), ("passages", pa.list_(_PASSAGE)), ("answer", pa.string())]
)


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


def benchmark_rows(pages: Sequence[Page], *, rows: int, seed: int) -> Iterator[BenchmarkRow]:
    """``rows`` rows; row n depends on the pages, ``seed`` and n alone."""
    for number in range(rows):
        yield _row(pages, number, random.Random(f"{seed}/{number}"))


def write_log(path: Path, rows: Iterator[BenchmarkRow]) -> None:
    """The rows as a zstd Parquet QA log, written ``_BATCH_ROWS`` at a time."""
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        while batch := list(islice(rows, _BATCH_ROWS)):
            writer.write_batch(pa.RecordBatch.from_pylist([_plain(row) for row in batch], schema=_SCHEMA))


def _row(pages: Sequence[Page], number: int, rng: random.Random) -> BenchmarkRow:
    base = rng.choice(pages)
    chosen = [base, *(base if rng.random() < 0.5 else rng.choice(pages) for _ in range(rng.randint(1, 5)))]
    texts = [_passage_words(page, rng) for page in chosen]
    passages = tuple(
        BenchmarkPassage(f"p{index}", page.title, " ".join(words))
        for index, (page, words) in enumerate(zip(chosen, texts, strict=True))
    )
    question = f"What is said about {base.title}, and what is {' '.join(texts[0][:4])}?"
    return BenchmarkRow(f"row-{number:07d}", question, passages, _answer(texts, rng))


def _passage_words(page: Page, rng: random.Random) -> tuple[str, ...]:
    start = rng.randrange(len(page.words) - PASSAGE_WORDS + 1)
    return page.words[start : start + PASSAGE_WORDS]


def _answer(texts: Sequence[tuple[str, ...]], rng: random.Random) -> str:
    """Sentences of connecting words and a run of a passage's words, ``ANSWER_WORDS`` in all."""
    answer: list[str] = []
    while len(answer) < ANSWER_WORDS:
        words = rng.choice(texts)
        length = rng.randint(6, 14)
        start = rng.randrange(len(words) - length + 1)
        sentence = [*rng.choice(_CONNECTING).split(), *words[start : start + length]]
        answer += _ended(sentence[: ANSWER_WORDS - len(answer)])
    return " ".join(answer)


def _ended(sentence: list[str]) -> list[str]:
    return [*sentence[:-1], sentence[-1].rstrip(".,;:") + "."]


def _plain(row: BenchmarkRow) -> dict[str, object]:
    passages = [{"passage_id": one.passage_id, "title": one.title, "text": one.text} for one in row.passages]
    return {"record_id": row.record_id, "question": row.question, "passages": passages, "answer": row.answer}

"""Rows of the three shapes of the paper's table of latencies, of made-up text."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.benchmark_text import Page, made_up_pages
from schemas import CharRange, Passage, QARecord, RowSource

_FREQUENT = 200
"""Words of the vocabulary: mostly frequent English ones, so that a token has about four characters, as in English."""


@dataclass(frozen=True, slots=True)
class LatencyShape:
    """What a row of one data set is like.

    Attributes:
        passages, passage_characters: number of passages, and characters of all of them.
        answer_characters: characters of the answer.
        spans: numbers of target spans, row by row, over and over.
        span_characters: characters of a span; None where a span is a sentence.
    """

    name: str
    passages: int
    passage_characters: int
    answer_characters: int
    spans: tuple[int, ...]
    span_characters: int | None


SHAPES = (
    LatencyShape("QuoteSum", 4, 2000, 275, (4, 4, 5, 5, 5), 45),
    LatencyShape("ASQA", 5, 3000, 430, (3, 4), None),
    LatencyShape("VERI-GRAN", 8, 8200, 400, (1, 1, 1, 1, 2), 60),
)
"""By growing length: 4.6, 3.5 and 1.2 spans a row."""


def latency_records(shape: LatencyShape, rows: int, *, seed: int = 0) -> list[QARecord]:
    """``rows`` records; record n depends on the shape, ``seed`` and n alone."""
    pages = made_up_pages(seed=seed, pages=60, words_a_page=2000, vocabulary=_FREQUENT)
    return [_record(shape, pages, number, random.Random(f"{seed}/{shape.name}/{number}")) for number in range(rows)]


def _record(shape: LatencyShape, pages: Sequence[Page], number: int, rng: random.Random) -> QARecord:
    size = shape.passage_characters // shape.passages
    passages = tuple(Passage(text=_run(rng.choice(pages), rng, size)) for _ in range(shape.passages))
    count = shape.spans[number % len(shape.spans)]
    answer, spans = "", []
    for _ in range(count):
        sentence = _run(rng.choice(pages), rng, shape.answer_characters // count - 2).rstrip(".,") + "."
        length = len(sentence) if shape.span_characters is None else min(shape.span_characters, len(sentence) - 1)
        spans.append(CharRange(len(answer), len(answer) + length))
        answer += sentence + " "
    return QARecord(
        record_id=f"{shape.name}-{number}",
        question=f"What is said about {_run(rng.choice(pages), rng, 30)}?",
        passages=passages,
        answer=answer.rstrip(),
        source=RowSource("", number),
        target_spans=tuple(spans),
    )


def _run(page: Page, rng: random.Random, characters: int) -> str:
    """Words of the page from some place on, as many as fit into ``characters``."""
    text = " ".join(page.words)
    start = text.index(" ", rng.randrange(len(text) - characters - 40)) + 1
    return text[start : start + characters].rsplit(" ", 1)[0]

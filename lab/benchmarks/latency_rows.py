"""Generated records in the shapes of the paper's latency table, from a made-up language."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from attribeam.lab.benchmarks.generated_rows import PageWords, made_up_pages
from attribeam.schemas import CharRange, Passage, QARecord, RowSource

_LATENCY_VOCABULARY = 200
"""Size of the vocabulary: mostly frequent English words, so that a token has about four characters as in English."""


@dataclass(frozen=True, slots=True)
class LatencyShape:
    """The shape of the rows of one data set.

    Attributes:
        passages, passage_characters: number of passages, and of their characters in total.
        answer_characters: number of characters in the answer.
        spans: numbers of target spans, which rows take in turn.
        span_characters: number of characters in a span, None if a span is a sentence.
    """

    name: str
    passages: int
    passage_characters: int
    answer_characters: int
    spans: tuple[int, ...]
    span_characters: int | None


LATENCY_SHAPES = (
    LatencyShape("QuoteSum", 4, 2000, 275, (4, 4, 5, 5, 5), 45),
    LatencyShape("ASQA", 5, 3000, 430, (3, 4), None),
    LatencyShape("VERI-GRAN", 8, 8200, 400, (1, 1, 1, 1, 2), 60),
)
"""In order of length, with 4.6, 3.5 and 1.2 spans per row."""


def latency_records(shape: LatencyShape, rows: int, *, seed: int = 0) -> list[QARecord]:
    """``rows`` records; record n depends only on the shape, ``seed`` and n."""
    pages = made_up_pages(seed=seed, pages=60, words_per_page=2000, vocabulary=_LATENCY_VOCABULARY)
    return [
        _latency_record(shape, pages, number, random.Random(f"{seed}/{shape.name}/{number}")) for number in range(rows)
    ]


def _latency_record(shape: LatencyShape, pages: Sequence[PageWords], number: int, rng: random.Random) -> QARecord:
    size = shape.passage_characters // shape.passages
    passages = tuple(Passage(text=_words_that_fit(rng.choice(pages), rng, size)) for _ in range(shape.passages))
    count = shape.spans[number % len(shape.spans)]
    answer, spans = "", []
    for _ in range(count):
        sentence = _words_that_fit(rng.choice(pages), rng, shape.answer_characters // count - 2).rstrip(".,") + "."
        length = len(sentence) if shape.span_characters is None else min(shape.span_characters, len(sentence) - 1)
        spans.append(CharRange(len(answer), len(answer) + length))
        answer += sentence + " "
    return QARecord(
        record_id=f"{shape.name}-{number}",
        question=f"What is said about {_words_that_fit(rng.choice(pages), rng, 30)}?",
        passages=passages,
        answer=answer.rstrip(),
        source=RowSource("", number),
        target_spans=tuple(spans),
    )


def _words_that_fit(page: PageWords, rng: random.Random, characters: int) -> str:
    """Consecutive words of the page from a random place, as many as fit into ``characters``."""
    text = " ".join(page.words)
    start = text.index(" ", rng.randrange(len(text) - characters - 40)) + 1
    return text[start : start + characters].rsplit(" ", 1)[0]

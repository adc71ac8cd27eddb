"""Generated rows of QA logs, of several shapes.

Their text comes from a file of pages or from a made-up language that follows Zipf's law; answers quote passages.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lab.data_files import read_page_file

PASSAGE_WORDS = 90
_ONSETS = ("b", "br", "d", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v", "w")
_VOWELS = ("a", "e", "i", "o", "u", "ea", "ou")
_CODAS = ("", "", "n", "r", "s", "t", "l", "m", "rd", "nt", "ck")
_FREQUENT_TEXT = """
the of and in to a was is for as on with by at from that his it were an which are this be had also first has its but
their not he who they after or have one new other during two been when all into there more between later may most
about would time such some over only years up used under many then made year where became three part through called
state no can before while since city early known number including world season out than being use until several
second both group team played national war area school church work university following film around town well family
life district company system county found south north government river won name day built small large born published
public long band music house album member same general however set because each people located station end history
home local held started near line original high population road building could led main four village party game
within took form law back water final based old production president service every king along games club center
community died major five age island international land power now court order place single white left right great
next million army art east west side run show species site women men
"""
_FREQUENT_WORDS = tuple(_FREQUENT_TEXT.split())
_NEVER_A_NAME = 120


@dataclass(frozen=True, slots=True)
class PageWords:
    """One page of at least ``PASSAGE_WORDS`` words with their punctuation attached."""

    title: str
    words: tuple[str, ...]


def read_pages(path: Path) -> tuple[PageWords, ...]:
    """The pages of a file that are long enough (see ``read_page_file``).

    Raises:
        ValueError: if no page is long enough.
    """
    read = (PageWords(page.title, tuple(" ".join(page.paragraphs).split())) for page in read_page_file(path))
    pages = tuple(page for page in read if len(page.words) >= PASSAGE_WORDS)
    if not pages:
        raise ValueError(f"{path} should have a page of at least {PASSAGE_WORDS} words, has none")
    return pages


def made_up_pages(
    *, seed: int, pages: int = 2000, words_per_page: int = 400, vocabulary: int = 20_000
) -> tuple[PageWords, ...]:
    """Pages of sentences whose words follow Zipf's law, with names and numbers; equal seeds give equal pages."""
    rng = random.Random(seed)
    words = _vocabulary(rng, vocabulary)
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return tuple(_made_up_page(rng, words, weights, words_per_page) for _ in range(pages))


def _vocabulary(rng: random.Random, size: int) -> list[str]:
    words = dict.fromkeys(_FREQUENT_WORDS)
    while len(words) < size:
        syllables = rng.choice((1, 2, 2, 3))
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables)) + rng.choice(_CODAS)
        words[word] = None
    return list(words)


def _made_up_page(rng: random.Random, words: Sequence[str], weights: Sequence[float], length: int) -> PageWords:
    title = " ".join(word.capitalize() for word in rng.choices(words[_NEVER_A_NAME:], k=2))
    text: list[str] = []
    while len(text) < length:
        sentence = rng.choices(words, cum_weights=weights, k=rng.randint(8, 25))
        sentence = [_with_names_and_numbers(rng, word) for word in sentence]
        text += [sentence[0].capitalize(), *sentence[1:-1], sentence[-1] + "."]
    return PageWords(title, tuple(text[:length]))


def _with_names_and_numbers(rng: random.Random, word: str) -> str:
    chance = rng.random()
    if chance < 0.03:
        return str(rng.randint(2, 2020))
    if chance < 0.12 and word not in _FREQUENT_WORDS[:_NEVER_A_NAME]:
        return word.capitalize()
    return word + "," if chance > 0.96 else word


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
_SHORT_PASSAGE_WORDS = 30
SHORT_ANSWER_WORDS = 8
_LOG_BATCH_ROWS = 1000
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
    """The shape of a row.

    ``WIKIPEDIA``: two to six passages of 90 words, an answer of 40 words, no spans. ``QUOTESUM``: three to five
    passages with 2,000 characters in total, an answer of 275 characters with four or five spans, 4.6 on average.
    ``SHORT``: one or two passages of 30 words, an answer of one clause of 8 words, no spans.
    """

    WIKIPEDIA = "wikipedia"
    QUOTESUM = "quotesum"
    SHORT = "short"


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
    pages: Sequence[PageWords], *, rows: int, seed: int, shape: RowShape = RowShape.WIKIPEDIA
) -> Iterator[BenchmarkRow]:
    """``rows`` rows; row n depends only on the pages, ``seed``, ``shape`` and n."""
    make = _ROW_OF[shape]
    for number in range(rows):
        yield make(pages, number, random.Random(f"{seed}/{number}"))


def write_log(path: Path, rows: Iterator[BenchmarkRow]) -> None:
    """Write the rows in batches as a QA log in Parquet with zstd compression."""
    with pq.ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        while batch := list(islice(rows, _LOG_BATCH_ROWS)):
            writer.write_batch(pa.RecordBatch.from_pylist([_log_row(row) for row in batch], schema=_SCHEMA))


def _wikipedia_row(pages: Sequence[PageWords], number: int, rng: random.Random) -> BenchmarkRow:
    chosen = _chosen_pages(pages, rng, others=rng.randint(1, 5))
    texts = [_passage_words(page, rng, PASSAGE_WORDS) for page in chosen]
    return _benchmark_row(number, chosen, texts, _stitched_answer(texts, rng))


def _quotesum_row(pages: Sequence[PageWords], number: int, rng: random.Random) -> BenchmarkRow:
    chosen = _chosen_pages(pages, rng, others=rng.randint(2, 4))
    texts = [_passage_words(page, rng, _QUOTESUM_PASSAGE_WORDS) for page in chosen]
    answer, spans = "", []
    for _ in range(rng.choices((4, 5), (0.4, 0.6))[0]):
        answer += rng.choice(_SHORT_CONNECTING) + " "
        quote = " ".join(_run_of(rng.choice(texts), rng, length=rng.randint(6, 10)))
        spans.append((len(answer), len(answer) + len(quote)))
        answer += quote + ". "
    return _benchmark_row(number, chosen, texts, answer.rstrip(), tuple(spans))


def _short_row(pages: Sequence[PageWords], number: int, rng: random.Random) -> BenchmarkRow:
    chosen = _chosen_pages(pages, rng, others=rng.randint(0, 1))
    texts = [_passage_words(page, rng, _SHORT_PASSAGE_WORDS) for page in chosen]
    answer = _with_full_stop(list(_run_of(texts[0], rng, length=SHORT_ANSWER_WORDS)))
    return _benchmark_row(number, chosen, texts, " ".join(answer))


_ROW_OF = {RowShape.WIKIPEDIA: _wikipedia_row, RowShape.QUOTESUM: _quotesum_row, RowShape.SHORT: _short_row}


def _benchmark_row(
    number: int,
    pages: Sequence[PageWords],
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


def _chosen_pages(pages: Sequence[PageWords], rng: random.Random, *, others: int) -> list[PageWords]:
    """A page and ``others`` more, each of which is the same page with probability one half."""
    base = rng.choice(pages)
    return [base, *(base if rng.random() < 0.5 else rng.choice(pages) for _ in range(others))]


def _passage_words(page: PageWords, rng: random.Random, length: int) -> tuple[str, ...]:
    return _run_of(page.words, rng, length=length)


def _run_of(words: tuple[str, ...], rng: random.Random, *, length: int) -> tuple[str, ...]:
    start = rng.randrange(len(words) - length + 1)
    return words[start : start + length]


def _stitched_answer(texts: Sequence[tuple[str, ...]], rng: random.Random) -> str:
    """Sentences of connecting words and a run of a passage's words, with ``ANSWER_WORDS`` words in total."""
    answer: list[str] = []
    while len(answer) < ANSWER_WORDS:
        words = rng.choice(texts)
        length = rng.randint(6, 14)
        sentence = [*rng.choice(_CONNECTING).split(), *_run_of(words, rng, length=length)]
        answer += _with_full_stop(sentence[: ANSWER_WORDS - len(answer)])
    return " ".join(answer)


def _with_full_stop(sentence: list[str]) -> list[str]:
    return [*sentence[:-1], sentence[-1].rstrip(".,;:") + "."]


def _log_row(row: BenchmarkRow) -> dict[str, object]:
    passages = [{"passage_id": item.passage_id, "title": item.title, "text": item.text} for item in row.passages]
    spans = row.target_spans and [{"char_start": start, "char_end": end} for start, end in row.target_spans]
    return {
        "record_id": row.record_id,
        "question": row.question,
        "passages": passages,
        "answer": row.answer,
        "target_spans": spans,
    }

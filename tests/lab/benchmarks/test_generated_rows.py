"""Generated rows: equal seeds give equal rows, and rows have the sizes of their shape."""

from __future__ import annotations

import json
import lzma

import pyarrow.parquet as pq
import pytest

from lab.benchmarks.generated_rows import (
    ANSWER_WORDS,
    PASSAGE_WORDS,
    SHORT_ANSWER_WORDS,
    RowShape,
    benchmark_rows,
    made_up_pages,
    read_pages,
    write_log,
)
from lab.benchmarks.latency_methods import LATENCY_SHAPES, LatencyShape, latency_records


@pytest.fixture(scope="module")
def pages():
    return made_up_pages(seed=3, pages=20, vocabulary=500)


def test_equal_seeds_give_equal_rows(pages):
    assert made_up_pages(seed=3, pages=20, vocabulary=500) == pages
    assert list(benchmark_rows(pages, rows=5, seed=1)) == list(benchmark_rows(pages, rows=5, seed=1))
    assert list(benchmark_rows(pages, rows=5, seed=1)) != list(benchmark_rows(pages, rows=5, seed=2))


def test_rows_have_the_requested_lengths(pages):
    rows = list(benchmark_rows(pages, rows=200, seed=0))
    assert {len(row.passages) for row in rows} == {2, 3, 4, 5, 6}
    assert {len(passage.text.split()) for row in rows for passage in row.passages} == {PASSAGE_WORDS}
    assert {len(row.answer.split()) for row in rows} == {ANSWER_WORDS}
    assert len({row.record_id for row in rows}) == 200


def test_short_rows_are_short_and_quote_their_first_passage(pages):
    rows = list(benchmark_rows(pages, rows=100, seed=0, shape=RowShape.SHORT))
    assert {len(row.passages) for row in rows} == {1, 2}
    assert {len(passage.text.split()) for row in rows for passage in row.passages} == {30}
    assert {len(row.answer.split()) for row in rows} == {SHORT_ANSWER_WORDS}
    assert all(row.answer.rstrip(".") in row.passages[0].text for row in rows)


def test_quotesum_rows_have_the_shape_of_quotesum(pages):
    rows = list(benchmark_rows(pages, rows=300, seed=0, shape=RowShape.QUOTESUM))
    assert {len(row.passages) for row in rows} == {3, 4, 5}
    assert 4.5 < sum(len(row.target_spans) for row in rows) / 300 < 4.7
    characters = sum(len(passage.text) for row in rows for passage in row.passages) / 300
    assert 6.5 < characters / (sum(len(row.answer) for row in rows) / 300) < 8.2


def test_log_has_the_columns_of_a_qa_log(tmp_path, pages):
    path = tmp_path / "qa_logs.parquet"
    write_log(path, benchmark_rows(pages, rows=1003, seed=0))
    table = pq.read_table(path)
    assert table.num_rows == 1003
    assert table.column_names == ["record_id", "question", "passages", "answer", "target_spans"]
    first = next(benchmark_rows(pages, rows=1, seed=0))
    assert table["passages"][0].as_py()[1]["text"] == first.passages[1].text
    assert table["answer"][0].as_py() == first.answer


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.jsonl.xz"])
def test_pages_are_read_and_short_ones_left_out(tmp_path, name):
    lines = [{"title": "Long", "paras": ["one two", "three " * 90]}, {"title": "Short", "paras": ["few words"]}]
    text = "\n".join(json.dumps(line) for line in lines).encode()
    path = tmp_path / name
    path.write_bytes(lzma.compress(text) if name.endswith(".xz") else text)
    (page,) = read_pages(path)
    assert (page.title, len(page.words)) == ("Long", 92)


@pytest.mark.parametrize("shape", LATENCY_SHAPES, ids=lambda shape: shape.name)
def test_rows_have_the_characters_and_spans_of_their_shape(shape: LatencyShape) -> None:
    records = latency_records(shape, 10)
    for record in records:
        characters = sum(len(passage.text) for passage in record.passages)
        assert 0.93 * shape.passage_characters < characters <= shape.passage_characters
        assert 0.9 * shape.answer_characters < len(record.answer) <= shape.answer_characters
        for span in record.target_spans or ():
            assert span.char_end <= len(record.answer)
    spans = sum(len(record.target_spans or ()) for record in records) / len(records)
    assert spans == {"QuoteSum": 4.6, "ASQA": 3.5, "VERI-GRAN": 1.2}[shape.name]

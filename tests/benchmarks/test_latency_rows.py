"""Rows of the table of latencies have the sizes that the table names."""

from __future__ import annotations

import pytest

from benchmarks.latency_rows import SHAPES, LatencyShape, latency_records
from benchmarks.matrix_peak import forward_operations
from benchmarks.random_model import SHAPES as MODELS


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
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


def test_rows_are_the_same_each_time() -> None:
    assert latency_records(SHAPES[0], 2) == latency_records(SHAPES[0], 3)[:2]


def test_operations_are_those_of_the_layers_that_are_run() -> None:
    config, tokens = MODELS["qwen2-7b"], 100
    projections = 3584 * (3584 + 2 * 512)
    layer = projections + 3584 * 3584 + 3 * 3584 * 18_944
    attention = 2 * tokens * tokens * 3584
    assert forward_operations(config, tokens=tokens, layer=15) == (
        14 * (2 * tokens * layer + attention) + 2 * tokens * projections
    )

"""Seconds of stages, and counters of runners that report attempted values only, committed values only, or none."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.metrics.execution import MetricKey, MetricResult
from apache_beam.metrics.metricbase import MetricName
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from tests.report.made_audit import supported_span

from attribeam.schemas import AnswerKind, ClaimKind, Passage, QARecord, RowSource, SpanEvidence, Support
from attribeam.schemas.passage_sample import sample_passages
from attribeam.schemas.run_manifest import ReadingNote, StageSeconds, sum_stage_seconds
from attribeam.transforms.stage_metrics import (
    NAMESPACE,
    RecordsSeen,
    count_audited_rows,
    counter_sum,
    see_records,
    stage,
    take_seen,
    take_stage_seconds,
)


@pytest.fixture(autouse=True)
def _fresh_clock() -> None:
    take_stage_seconds()
    take_seen()


def test_stages_stand_in_the_order_of_the_graph_and_are_taken_once() -> None:
    for name in ("write", "parse", "read", "parse"):
        with stage(name):
            pass
    assert [one.stage for one in take_stage_seconds()] == ["read", "parse", "write"]
    assert take_stage_seconds() == ()


def test_work_that_fails_counts() -> None:
    with pytest.raises(ValueError, match="no"), stage("parse"):
        raise ValueError("no")
    (parse,) = take_stage_seconds()
    assert parse.wall_seconds >= 0


def test_seconds_of_chunks_are_summed_a_stage() -> None:
    chunks = [(StageSeconds("read", 1.0, 0.5),), (StageSeconds("read", 2.0, 0.25), StageSeconds("write", 1.0, 1.0))]
    assert sum_stage_seconds(chunks) == (StageSeconds("read", 3.0, 0.75), StageSeconds("write", 1.0, 1.0))


class _CountRows(beam.DoFn):
    def process(self, rows: list[tuple[SpanEvidence, ...]]) -> None:
        count_audited_rows(rows, tokens=7, in_windows=0, unread=0, asked=0)


def test_claims_count_once_and_answers_by_their_kind() -> None:
    claim = supported_span()
    part = replace(claim, span_index=1)
    heading = replace(claim, span_index=2, claim_index=None, support=Support.NO_CLAIM, claim_kind=ClaimKind.HEADING)
    refusal = replace(heading, span_index=0, answer_kind=AnswerKind.REFUSAL)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | beam.Create([[(claim, part, heading), (refusal,)]]) | beam.ParDo(_CountRows())
    names = ("spans", "spans.supported", "claims", "claims.supported", "claims.no_claim", "answers", "answers.refusal")
    assert [counter_sum(pipeline.result, name) for name in names] == [4, 2, 3, 1, 2, 2, 1]


def _result(*values: tuple[str, int | None, int | None]) -> SimpleNamespace:
    """A finished run with counters given as name, committed, attempted; each from a step of its own."""
    counters = [
        MetricResult(MetricKey(f"step {place}", MetricName(NAMESPACE, name)), committed, attempted)
        for place, (name, committed, attempted) in enumerate(values)
    ]
    return SimpleNamespace(metrics=lambda: SimpleNamespace(query=lambda _: {"counters": counters}))


@pytest.mark.parametrize("values", [(None, 5), (5, None), (5, 9)])
def test_the_committed_value_counts_where_there_is_one(values: tuple[int | None, int | None]) -> None:
    assert counter_sum(_result(("tokens", *values), ("tokens", *values), ("spans", 100, 100)), "tokens") == 10


@pytest.mark.parametrize("values", [(None, None), (0, None), (None, 0)])
def test_a_step_that_counted_nothing_adds_nothing(values: tuple[int | None, int | None]) -> None:
    assert counter_sum(_result(("tokens", *values), ("tokens", 3, None)), "tokens") == 3


def test_without_any_counters_the_sum_is_unknown() -> None:
    assert counter_sum(_result(), "tokens") is None


def test_notes_of_rows_are_counted_and_their_passages_sampled() -> None:
    record = QARecord("r", "?", (Passage("A lamp."), Passage("")), "A lamp.", RowSource("log", 0), notes=("no text",))
    see_records([record, replace(record, notes=())])
    see_records([record])
    found = take_seen()
    assert found == RecordsSeen(sample_passages(["A lamp.", ""]), (ReadingNote("no text", 2),))
    assert take_seen() == RecordsSeen()

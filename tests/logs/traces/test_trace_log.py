"""Spans of many traces, mixed as an export mixes them, come back trace by trace."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribeam.logs.traces import trace_log
from attribeam.logs.traces.assembly import Role, Span
from attribeam.logs.traces.trace_log import trace_spool
from attribeam.schemas import Reason, RowFault


def span(trace: int, number: int) -> Span:
    """A span that can be told from all others."""
    return Span(f"trace-{trace}", str(number), None, Role.CHAIN, input={"text": "é\udce9" * number})


@settings(max_examples=25, deadline=None)
@given(order=st.lists(st.integers(0, 6), max_size=40))
def test_spans_are_grouped_as_a_dictionary_would(order: list[int]) -> None:
    naive: dict[str, list[Span]] = {}
    with trace_spool() as spool:
        for number, trace in enumerate(order):
            one = span(trace, number)
            naive.setdefault(one.trace_id, []).append(one)
            spool.add(0, f"line {number}", one)
        found = list(spool.traces())
    assert [(one.trace_id, one.spans) for one in found] == list(naive.items())
    assert [one.place for one in found] == [f"line {spans[0].span_id}" for spans in naive.values()]


def test_faulty_records_stand_where_they_stood_and_never_merge() -> None:
    with trace_spool() as spool:
        spool.add(0, "line 1", span(0, 0))
        spool.add(0, "line 2", RowFault(Reason.INVALID_JSON, "broken", column="a"))
        spool.add(1, "line 1", RowFault(Reason.INVALID_JSON, "broken", column="a"))
        spool.add(1, "line 2", span(0, 1))
        found = list(spool.traces())
    assert [(one.file, one.place, one.trace_id) for one in found] == [
        (0, "line 1", "trace-0"), (0, "line 2", None), (1, "line 1", None)
    ]  # fmt: skip
    assert [getattr(one.fault, "column", None) for one in found] == [None, "a", "a"]


@pytest.mark.parametrize(("name", "limit"), [("MOST_SPANS", 3), ("MOST_BYTES", 1000)])
def test_very_large_trace_is_not_read_into_memory(name: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_log, name, limit)
    with trace_spool() as spool:
        for number in range(50):
            spool.add(0, "line", span(0, number))
        spool.add(0, "line", span(1, 0))
        found = list(spool.traces())
    assert [(one.trace_id, None if one.spans is None else len(one.spans)) for one in found] == [
        ("trace-0", None), ("trace-1", 1)
    ]  # fmt: skip


def test_many_traces_in_any_order() -> None:
    order = [trace for trace in range(2000) for _ in range(3)]
    random.Random(5).shuffle(order)
    with trace_spool() as spool:
        for number, trace in enumerate(order):
            spool.add(0, "line", Span(str(trace), str(number), None, Role.CHAIN))
        found = list(spool.traces())
    assert [len(one.spans or ()) for one in found] == [3] * 2000
    firsts = np.array([int((one.spans or ())[0].span_id or 0) for one in found])
    assert (np.diff(firsts) > 0).all()

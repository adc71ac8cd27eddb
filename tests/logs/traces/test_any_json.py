"""Whatever JSON stands in an export, every record ends as a row, a dead letter, or no span; nothing else is raised."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.logs.traces.exports import EXPORTS

from attribeam.logs.rows import FaultyRow
from attribeam.logs.traces.formats import LOG_KINDS
from attribeam.logs.traces.paths import TraceOptions
from attribeam.logs.traces.trace_log import ExportRows
from attribeam.logs.traces.trace_reader import checked
from attribeam.schemas import QARecord, RowSource

SCALARS = st.none() | st.booleans() | st.integers(-5, 10**19) | st.floats() | st.text(max_size=6)
KEYS = st.sampled_from(
    ["role", "content", "parts", "type", "text", "messages", "input", "output", "documents", "document", "id", "kwargs",
     "metadata", "choices", "delta", "0", "1", "a.b", "", "question", "answer", "ids", "node", "data", "message"]
)  # fmt: skip
ODD = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)
ODD_OR_TEXT = ODD | ODD.map(json.dumps)


def leaves(value: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """The places in a record, its objects and lists among them."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, (*path, index))


def replaced(value: object, path: tuple[object, ...], by: object) -> object:
    """The record with another value at one place."""
    if not path:
        return by
    if isinstance(value, dict):
        return {key: replaced(one, path[1:], by) if key == path[0] else one for key, one in value.items()}
    assert isinstance(value, list)
    return [replaced(one, path[1:], by) if index == path[0] else one for index, one in enumerate(value)]


def outcomes(kind: str, records: list[object], options: TraceOptions) -> tuple[list[QARecord | FaultyRow], int]:
    """What the records come to, and how many are no spans."""

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        yield io.BytesIO("\n".join(map(json.dumps, records)).encode())

    rows = ExportRows(LOG_KINDS[kind], options)
    found = [checked(one.row, RowSource("a", one.number)) for one in rows.read([opened])]
    return found, rows.seen.skipped


@pytest.mark.parametrize("kind", EXPORTS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_record_with_any_value_in_any_place(kind: str, data: st.DataObject) -> None:
    records: list[object] = list(EXPORTS[kind]())
    number = data.draw(st.integers(0, len(records) - 1))
    path = data.draw(st.sampled_from(list(leaves(records[number]))))
    records[number] = replaced(records[number], path, data.draw(ODD_OR_TEXT))
    options = TraceOptions(history=data.draw(st.sampled_from([0, 2])), tool_outputs=data.draw(st.booleans()))
    found, skipped = outcomes(kind, records, options)
    assert found or skipped
    for one in found:
        assert isinstance(one, QARecord) or str(one.fault)


@pytest.mark.parametrize("kind", EXPORTS)
@settings(max_examples=25, deadline=None)
@given(records=st.lists(st.dictionaries(KEYS | st.text(max_size=4), ODD_OR_TEXT, max_size=5), min_size=1, max_size=4))
def test_records_of_any_shape(kind: str, records: list[object]) -> None:
    found, skipped = outcomes(kind, [{"first": "line is an object"}, *records], TraceOptions(tool_outputs=True))
    assert len(found) + skipped > 0


def nest(depth: int, key: str) -> object:
    """An object within itself."""
    value: object = "x"
    for _ in range(depth):
        value = {key: value}
    return value


@pytest.mark.parametrize("kind", EXPORTS)
@pytest.mark.parametrize("key", ["document", "messages"])
def test_value_deeper_than_python_goes_is_a_fault_of_its_record(kind: str, key: str) -> None:
    records: list[object] = list(EXPORTS[kind]())
    for path in list(leaves(records[0]))[::4]:
        some = [replaced(records[0], path, nest(450, key)), *records[1:]]
        found, skipped = outcomes(kind, some, TraceOptions(history=1, tool_outputs=True))
        assert found or skipped, path


def test_integer_of_otlp_that_is_none_stays_a_text() -> None:
    for text in ("--5", "-", "\u0663", "9" * 5000):
        (record,) = EXPORTS["otel-genai"]()
        span = record["resourceSpans"][0]["scopeSpans"][0]["spans"][0]  # type: ignore[index]
        span["attributes"].append({"key": "gen_ai.usage.input_tokens", "value": {"intValue": text}})
        (found,), _ = outcomes("otel-genai", [record], TraceOptions())
        assert isinstance(found, QARecord), text

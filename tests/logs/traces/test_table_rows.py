"""Rows of Parquet and Arrow come as the objects that JSON would hold, whatever types their columns have."""

from __future__ import annotations

import io
import json
import tracemalloc
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.traces.exports import ROW, imported, langsmith, openinference, text_of

from attribeam.logs import arrow_logs
from attribeam.logs.traces import record_files
from attribeam.logs.traces.record_files import records
from attribeam.schemas import Reason, RowFault

MOMENT = 1_795_168_800_000_000_000


def read(table: pa.Table) -> list[object]:
    """The records of a table, as a Parquet file and as an Arrow stream has it, with the reasons of faults."""
    parquet, stream = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    found = []
    for file in (parquet, stream):
        file.seek(0)
        values = [one.value for one in records(file)]
        found.append([one.reason if isinstance(one, RowFault) else one for one in values])
    assert found[0] == found[1]
    return found[0]


def test_maps_are_objects_at_any_depth() -> None:
    kind = pa.map_(pa.string(), pa.list_(pa.map_(pa.string(), pa.int64())))
    assert read(pa.table({"a": pa.array([[("x", [[("y", 1)]])], None], kind)})) == [
        {"a": {"x": [{"y": 1}]}},
        {"a": None},
    ]


def test_ids_that_are_no_texts_come_as_texts() -> None:
    one = uuid.UUID(int=7)
    storage = pa.array([one.bytes], pa.binary(16))
    table = pa.table(
        {
            "uuid": pa.ExtensionArray.from_storage(pa.uuid(), storage),
            "raw": storage,
            "text": pa.array([b"trace-1"], pa.binary()),
            "decimals": pa.array([[Decimal("7.00"), Decimal("0.25")]]),
        }
    )
    assert read(table) == [{"uuid": str(one), "raw": one.hex, "text": "trace-1", "decimals": [7, 0.25]}]


def test_nanoseconds_are_cut_at_any_depth() -> None:
    struct = pa.struct([("at", pa.timestamp("ns", "UTC")), ("all", pa.list_(pa.timestamp("ns")))])
    (row,) = read(pa.table({"a": pa.array([{"at": MOMENT + 1234, "all": [MOMENT + 999]}], struct)}))
    assert str(row["a"]["at"]) == "2026-11-20 10:00:00.000001+00:00"  # type: ignore[index]
    assert str(row["a"]["all"][0]) == "2026-11-20 10:00:00"  # type: ignore[index]


def test_moment_beyond_the_year_9999_is_a_fault_of_its_row() -> None:
    for kind, value in ((pa.timestamp("us"), 2**62), (pa.date32(), 2**30), (pa.duration("s"), 2**60)):
        table = pa.table({"a": ["x", "y"], "at": pa.array([0, value], kind)})
        first, second = read(table)
        assert first["a"] == "x"  # type: ignore[index]
        assert second == Reason.INVALID_VALUE, kind


def test_traces_with_maps_and_uuids_come_to_rows(tmp_path: Path) -> None:
    attributes = [
        [(name, one if isinstance(one, str) else json.dumps(one)) for name, one in span["attributes"].items()]  # type: ignore[attr-defined]
        for span in openinference()
    ]
    spans = [{**span, "attributes": None} for span in openinference()]
    table = pa.Table.from_pylist(spans)
    place = table.schema.get_field_index("attributes")
    table = table.set_column(place, "attributes", pa.array(attributes, pa.map_(pa.string(), pa.string())))
    pq.write_table(table, tmp_path / "spans.parquet")
    _, (row,), _ = imported("openinference", str(tmp_path / "spans.parquet"), output=tmp_path / "log.parquet")
    assert text_of(row) == ROW

    ids = {"a": uuid.UUID(int=1), "b": uuid.UUID(int=2), "c": uuid.UUID(int=3)}
    runs = langsmith()
    columns = {"run_type": pa.array([str(run["run_type"]) for run in runs])}
    for name in ("id", "trace_id", "parent_run_id"):
        raw = [ids[str(run[name])].bytes if run[name] else None for run in runs]
        columns[name] = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(raw, pa.binary(16)))
    for name in ("inputs", "outputs"):
        columns[name] = pa.array([json.dumps(run[name]) for run in runs])
    pq.write_table(pa.table(columns), tmp_path / "runs.parquet")
    _, (row,), _ = imported("langsmith", str(tmp_path / "runs.parquet"), output=tmp_path / "runs_log.parquet")
    assert (text_of(row), row["record_id"]) == (ROW, str(ids["a"]))


def test_value_that_many_rows_share_is_held_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    value, rows = "word " * 50_000, 250
    for module in (arrow_logs, record_files):
        monkeypatch.setattr(module, "BATCH_BYTES", 8 * len(value))
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))
    table = pa.table({"answer": shared, "number": range(rows), "embedding": [0.5] * rows})
    parquet, arrow = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    with pa.ipc.new_file(arrow, table.schema) as writer:
        writer.write_table(table)
    for file in (parquet, arrow):
        file.seek(0)
        tracemalloc.start()
        found = [(one.line, one.value["number"], len(one.value["answer"])) for one in records(file)]  # type: ignore[call-overload, index]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found == [(number + 1, number, len(value)) for number in range(rows)]
        assert peak < 20 * len(value)

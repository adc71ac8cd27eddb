"""Rows of an audit as CSV and JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made_audit import made_audit

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.row_export import BYTE_ORDER_MARK, csv_lines, jsonl_lines
from attribeam.schemas.errors import RunError

HOSTILE = '=HYPERLINK("http://x"),\n<script>\r\u2028\''


def _batch(values: list[object], kind: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, kind)})


def _read_csv(lines: Iterator[str]) -> list[list[str]]:
    text = "".join(lines)
    assert text.startswith(BYTE_ORDER_MARK)
    return list(csv.reader(io.StringIO(text.removeprefix(BYTE_ORDER_MARK), newline="")))


def test_csv_has_every_row_and_field_and_lists_as_json(tmp_path: Path) -> None:
    audit = AuditDirectory.open(made_audit(tmp_path).root)
    names, *rows = _read_csv(csv_lines(audit.evidence_schema, audit.evidence_batches()))
    assert names == audit.evidence_schema.names
    table = [row for batch in audit.evidence_batches() for row in batch.to_pylist()]
    assert len(rows) == len(table) == 6
    for row, record in zip(rows, table, strict=True):
        cells = dict(zip(names, row, strict=True))
        assert cells["text"] == record["text"]
        assert json.loads(cells["evidence"]) == record["evidence"]
        assert float(cells["evidence_mass"]) == record["evidence_mass"]
        assert cells["evidence_isolated"] == "false"
        assert (cells["margin"] == "") == (record["margin"] is None)


@given(st.lists(st.text(st.sampled_from("=+-@＝\t\r\n ,\"';aé"), max_size=8)))
def test_no_text_of_a_csv_is_taken_for_a_formula_and_none_is_lost(texts: list[str]) -> None:
    batch = _batch(list(texts), pa.string())
    _, *rows = _read_csv(csv_lines(batch.schema, [batch]))
    assert len(rows) == len(texts)
    for row, text in zip(rows, texts, strict=True):
        (cell,) = row or [""]
        assert cell.removeprefix("'") == text or cell == text
        assert not cell.startswith(("\t", "\r", "\n"))
        assert not cell.lstrip().startswith(tuple("=+-@＝"))


MOMENT = datetime(2026, 11, 19, 2, 0, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "kind", "plain"),
    [
        (MOMENT, pa.timestamp("us", "UTC"), "2026-11-19T02:00:00.000005+00:00"),
        (1_795_053_600_000_000_001, pa.timestamp("ns"), "2026-11-19T02:00:00.000000001"),
        (date(2026, 11, 19), pa.date32(), "2026-11-19"),
        (timedelta(seconds=90), pa.duration("s"), 90.0),
        (b"\xff\x00", pa.binary(), "/wA="),
        (Decimal("4.20"), pa.decimal128(5, 2), "4.20"),
        (float("nan"), pa.float64(), None),
        (float("inf"), pa.float32(), None),
        (np.float16(0.5), pa.float16(), 0.5),
        (True, pa.bool_(), True),
        ([{"a": float("nan")}], pa.list_(pa.struct([("a", pa.float64())])), [{"a": None}]),
        ([{"a": 1.5}], pa.list_(pa.struct([("a", pa.float64())])), [{"a": 1.5}]),
        ([("k", 1)], pa.map_(pa.string(), pa.int8()), [["k", 1]]),
        (None, pa.null(), None),
    ],
)
def test_extra_columns_of_any_type_have_a_plain_value(value: object, kind: pa.DataType, plain: object) -> None:
    (line,) = jsonl_lines([_batch([value], kind)])
    assert json.loads(line) == {"value": plain}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([10**12], pa.list_(pa.timestamp("s"))),
        (0, pa.timestamp("s", "Mars/Base")),
        (0, pa.timestamp("ns", "Mars/Base")),
    ],
)
def test_a_value_that_python_has_no_type_for_is_an_error_that_names_its_column(
    value: object, kind: pa.DataType
) -> None:
    batch = _batch([value], kind)
    with pytest.raises(RunError, match="'value'"):
        list(jsonl_lines([batch]))

"""Parquet: small batches whatever the row groups, and only the columns that are needed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.log_files import LOG_SCHEMA, log_row

from attribeam.logs import parquet_log
from attribeam.logs.columns import ColumnMap, ColumnPart, LogOptions
from attribeam.logs.parquet_log import ParquetReader
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import BATCH_ROWS
from attribeam.schemas import Passage, QARecord


def test_row_group_of_60000_rows_is_read_in_small_batches(tmp_path: Path) -> None:
    rows = 60_000
    table = pa.table({"answer": pa.array([f"answer {number}" for number in range(rows)])})
    pq.write_table(table, tmp_path / "big.parquet", row_group_size=rows)
    with (tmp_path / "big.parquet").open("rb") as file:
        sizes = [one.rows.num_rows for one in ParquetReader().open(file).batches([ColumnPart("answer")], range(rows))]
    assert pq.read_metadata(tmp_path / "big.parquet").num_row_groups == 1
    assert max(sizes) <= BATCH_ROWS
    assert sum(sizes) == rows


def test_value_that_many_rows_share_makes_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value, rows = "word " * 50_000, 250
    monkeypatch.setattr(parquet_log, "BATCH_BYTES", 8 * len(value), raising=False)
    pq.write_table(pa.table({"answer": pa.array([value] * rows)}), tmp_path / "shared.parquet")
    assert (tmp_path / "shared.parquet").stat().st_size < len(value)
    with (tmp_path / "shared.parquet").open("rb") as file:
        batches = [one.rows for one in ParquetReader().open(file).batches([ColumnPart("answer")], range(rows))]
    assert sum(one.num_rows for one in batches) == rows
    assert max(one.nbytes for one in batches) < 8 * len(value)


def test_neighbour_of_a_large_row_is_read_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_log, "BATCH_BYTES", 1 << 16, raising=False)
    answers = ["small"] * 9
    answers[5] = "word " * 100_000
    pq.write_table(pa.table({"answer": pa.array(answers)}), tmp_path / "log.parquet", use_dictionary=False)
    before = pa.total_allocated_bytes()
    with (tmp_path / "log.parquet").open("rb") as file:
        (batch,) = ParquetReader().open(file).batches([ColumnPart("answer")], [4])
        assert pa.total_allocated_bytes() - before < len(answers[5])
    assert (batch.first_row, batch.rows.to_pylist()) == (4, [{"answer": "small"}])


def test_only_needed_columns_are_read(tmp_path: Path) -> None:
    item = pa.struct([("text", pa.string()), ("embedding", pa.list_(pa.float32()))])
    schema = pa.schema([*LOG_SCHEMA.remove(2), ("passages", pa.list_(item)), ("prompt", pa.string()), ("x", pa.int8())])
    rows = [log_row(0, passages=[{"text": "One.", "embedding": [0.5]}], prompt="long", x=1)]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "log.parquet")
    options = LogOptions(extra_columns=("x",))
    with (tmp_path / "log.parquet").open("rb") as file:
        log = ParquetReader().open(file)
        (batch,) = log.batches(ColumnMap.from_schema("log", log.schema, options).parts(), [0])
    assert batch.rows.schema.field("passages").type == pa.list_(pa.field("element", pa.struct([("text", pa.string())])))
    assert {"x", "answer"} < set(batch.rows.schema.names)
    assert "prompt" not in batch.rows.schema.names
    (record,) = QALog(str(tmp_path / "log.parquet"), options).outcomes()
    assert isinstance(record, QARecord)
    assert (record.passages, record.extra_columns) == ((Passage("One."),), (("x", 1),))

"""Parquet: small batches whatever the row groups, and only the columns that are needed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.logs.log_files import LOG_SCHEMA, log_row

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

"""Parquet: small batches whatever the row groups, and only the columns that are needed."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet.encryption import CryptoFactory, EncryptionConfiguration, KmsClient, KmsConnectionConfig
from tests.logs.log_files import LOG_SCHEMA, log_row, write_log

from attribeam.logs import arrow_logs
from attribeam.logs.arrow_logs import ParquetReader
from attribeam.logs.columns import ColumnMap, ColumnPart, LogOptions
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import BATCH_ROWS
from attribeam.logs.traces.record_files import parquet_rows
from attribeam.schemas import Passage, QARecord
from attribeam.schemas.errors import DataError


def test_row_group_of_60000_rows_is_read_in_small_batches(tmp_path: Path) -> None:
    rows = 60_000
    table = pa.table({"answer": pa.array([f"answer {number}" for number in range(rows)])})
    pq.write_table(table, tmp_path / "big.parquet", row_group_size=rows)
    with (tmp_path / "big.parquet").open("rb") as file:
        sizes = [one.rows.num_rows for one in ParquetReader().open(file).batches([ColumnPart("answer")], range(rows))]
    assert pq.read_metadata(tmp_path / "big.parquet").num_row_groups == 1
    assert max(sizes) <= BATCH_ROWS
    assert sum(sizes) == rows


COUNTS: dict[str, Callable[[pq.FileMetaData], int]] = {
    "rows of the file": lambda metadata: metadata.num_rows,
    "rows of the row group": lambda metadata: metadata.row_group(0).num_rows,
    "values of the first column": lambda metadata: metadata.row_group(0).column(0).num_values,
}


@pytest.mark.parametrize("found", [1, 23, 25])
@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
def test_footer_whose_counts_of_rows_differ_is_an_error_that_names_the_file(
    tmp_path: Path, count: Callable[[pq.FileMetaData], int], found: int
) -> None:
    path = tmp_path / "log.parquet"
    write_log(path, [log_row(number) for number in range(24)])
    path.write_bytes(
        next(one for one in changed_footers(path.read_bytes(), 24, found) if count_in(one, count) == found)
    )
    with pytest.raises(DataError, match=rf"log\.parquet' should have one count of rows, has .*{found}"):
        QALog(str(path)).check()
    with path.open("rb") as file, pytest.raises(DataError, match="should have one count of rows"):
        list(parquet_rows(file, Counter()))


class PlainKeys(KmsClient):
    """Keys that are kept as they are."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:  # noqa: ARG002
        return b64encode(key_bytes)


@pytest.mark.parametrize("columns", [{"c": ["answer"]}, {"c": ["record_id", "question"]}])
@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_encrypted_file_is_an_error_that_says_so(
    tmp_path: Path, columns: dict[str, list[str]], plaintext_footer: bool
) -> None:
    asked = EncryptionConfiguration(footer_key="f", column_keys=columns, plaintext_footer=plaintext_footer)
    factory = CryptoFactory(lambda _: PlainKeys())
    properties = factory.file_encryption_properties(KmsConnectionConfig(), asked)
    table = pa.Table.from_pylist([log_row(0)], schema=LOG_SCHEMA)
    with pq.ParquetWriter(tmp_path / "log.parquet", LOG_SCHEMA, encryption_properties=properties) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match=r"log\.parquet' should .* is encrypted"):
        list(QALog(str(tmp_path / "log.parquet")).outcomes())


def changed_footers(content: bytes, number: int, other: int) -> Iterator[bytes]:
    """The file with another number in its footer, in each place where the bytes of the number stand in turn."""
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for index in range(footer, len(content) - 8):
        if content[index] == 2 * number:  # as Thrift writes small numbers
            yield content[:index] + bytes([2 * other]) + content[index + 1 :]


def count_in(content: bytes, count: Callable[[pq.FileMetaData], int]) -> int | None:
    try:
        return count(pq.read_metadata(BytesIO(content)))
    except (OSError, pa.ArrowException):
        return None


def test_file_with_a_column_too_deep_for_arrow_is_an_error_that_says_so(tmp_path: Path) -> None:
    kind = pa.int8()
    for _ in range(200):
        kind = pa.struct([("a", kind)])
    schema = LOG_SCHEMA.append(pa.field("deep", kind))
    write_log(tmp_path / "log.parquet", [log_row(0)], schema=schema)
    with pytest.raises(DataError, match=r"log\.parquet' .* nested more than 100 levels deep.*; write it anew"):
        QALog(str(tmp_path / "log.parquet")).check()


def test_value_that_many_rows_share_makes_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value, rows = "word " * 50_000, 250
    monkeypatch.setattr(arrow_logs, "BATCH_BYTES", 8 * len(value), raising=False)
    pq.write_table(pa.table({"answer": pa.array([value] * rows)}), tmp_path / "shared.parquet")
    assert (tmp_path / "shared.parquet").stat().st_size < len(value)
    with (tmp_path / "shared.parquet").open("rb") as file:
        batches = [one.rows for one in ParquetReader().open(file).batches([ColumnPart("answer")], range(rows))]
    assert sum(one.num_rows for one in batches) == rows
    assert max(one.nbytes for one in batches) < 8 * len(value)


def test_neighbour_of_a_large_row_is_read_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_logs, "BATCH_BYTES", 1 << 16, raising=False)
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

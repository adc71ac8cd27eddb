"""Columns that stand in the names of folders."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.pipeline.small_log import log_rows, write_log

from attribeam.logs.columns import LogOptions, parse_column_mapping
from attribeam.logs.qa_log import QALog
from attribeam.schemas import QARecord
from attribeam.schemas.errors import LogFormatError


def records_of(path: Path, options: LogOptions) -> list[QARecord]:
    """The rows of a file, all of which can be audited."""
    found = [*QALog(str(path), options).outcomes()]
    records = [one for one in found if isinstance(one, QARecord)]
    assert len(records) == len(found) > 0
    return records


@pytest.mark.parametrize(
    ("folder", "values"),
    [
        ("dt=2026-01-01", {"dt": "2026-01-01"}),
        ("dt=2026-01-01/hour=7", {"dt": "2026-01-01", "hour": "7"}),
        ("dt=2026-01-01%2000%3A30%3A00", {"dt": "2026-01-01 00:30:00"}),
        ("region=M%C3%BCnchen", {"region": "München"}),
        ("region=a+b", {"region": "a+b"}),
        ("region=a%2Fb%3Dc", {"region": "a/b=c"}),
        ("a=b=c", {"a": "b=c"}),
        ("my%20region=x", {"my region": "x"}),
        ("region=__HIVE_DEFAULT_PARTITION__", {"region": None}),
        ("region=", {"region": ""}),
        ("region=x/part/region=y", {"region": "y"}),
        ("team=elsewhere", {"team": "harbour"}),
    ],
)
def test_columns_of_folders_are_carried(folder: str, values: dict[str, str | None], tmp_path: Path) -> None:
    path = write_log(tmp_path / folder / "part.parquet", log_rows(3))
    for record in records_of(path, LogOptions(extra_columns=(*values,))):
        assert dict(record.extra_columns) == values


def test_lines_of_json_have_them_too(tmp_path: Path) -> None:
    path = tmp_path / "dt=2026-01-01" / "part.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in log_rows(300)))
    records = records_of(path, LogOptions(extra_columns=("dt", "team"), format="jsonl"))
    assert {one.extra_columns for one in records} == {(("dt", "2026-01-01"), ("team", "harbour"))}
    assert [one.record_id for one in records] == [row["record_id"] for row in log_rows(300)]


@pytest.mark.parametrize(
    ("folder", "moment"),
    [
        ("dt=2026-01-01", datetime(2026, 1, 1, tzinfo=UTC)),
        ("dt=2026-01-01%2007%3A30%3A00", datetime(2026, 1, 1, 7, 30, tzinfo=UTC)),
        ("dt=__HIVE_DEFAULT_PARTITION__", None),
    ],
)
def test_they_may_be_fields(folder: str, moment: datetime | None, tmp_path: Path) -> None:
    path = write_log(tmp_path / folder / "generator=small%201" / "part.parquet", log_rows(2))
    for record in records_of(path, LogOptions(columns=parse_column_mapping("answered_at=dt"))):
        assert (record.answered_at, record.generator) == (moment, "small 1")


def test_a_record_may_have_its_id_from_a_folder(tmp_path: Path) -> None:
    path = write_log(tmp_path / "ticket=7" / "part.parquet", log_rows(2))
    log = QALog(str(path), LogOptions(columns=parse_column_mapping("record_id=ticket")))
    assert log.duplicate_rows().tolist() == [1]


def test_file_beside_the_folders_lacks_them(tmp_path: Path) -> None:
    path = write_log(tmp_path / "part.parquet", log_rows(1))
    with pytest.raises(LogFormatError, match="one column 'dt' is needed, there is none"):
        QALog(str(path), LogOptions(extra_columns=("dt",))).check()

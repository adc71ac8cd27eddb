"""Delta and Iceberg: one version's files and rows, whatever else lies in the folder."""

import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.logs.lakes import DAYS, dated_rows, delta_table, edit_log, iceberg_table, protocol, with_deletion_vector
from tests.pipeline.audit_process import log_rows, write_log

from attribeam.logs.columns import LogOptions
from attribeam.logs.files import ArrowStorage, find_logs, match_files
from attribeam.logs.qa_log import QALog
from attribeam.schemas import QARecord
from attribeam.schemas.errors import DataError, UsageError

ALL = {f"ferry-{number}" for number in range(8)}


def find(pattern, version=None, storage=None):
    return find_logs([str(pattern)], ".parquet", storage or ArrowStorage(), option="--input", version=version)


def ids_of(pattern, version=None):
    found = find(pattern, version)
    logs = [QALog(path, LogOptions(tables=found.tables)) for path in found.paths]
    records = [one for log in logs for one in log.outcomes()]
    assert sum(log.check().row_count for log in logs) == len(records)
    return sorted(one.record_id for one in records if isinstance(one, QARecord))


@pytest.fixture(name="make", params=["delta", "iceberg"])
def maker(request):
    pytest.importorskip("deltalake" if request.param == "delta" else "pyiceberg")
    if request.param == "iceberg":
        pytest.importorskip("sqlalchemy")
    return delta_table if request.param == "delta" else iceberg_table


@pytest.fixture(name="iceberg")
def make_iceberg(tmp_path):
    pytest.importorskip("sqlalchemy")
    return iceberg_table(tmp_path / "qa")


@pytest.fixture(name="root")
def made(make, tmp_path):
    make(tmp_path / "lake" / "qa")
    return tmp_path / "lake" / "qa"


@pytest.mark.parametrize("pattern", ["lake/qa", "lake/qa/", "lake", "l*/q*", "**", "lake/**/*.parquet", "lake/{qa,x}"])
def test_rows_that_were_removed_do_not_come_back(pattern, root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len([*root.rglob("*.parquet")]) > len(find(pattern).paths)
    assert ids_of(pattern) == sorted(ALL - {"ferry-0"})
    assert ids_of(f"file://{tmp_path}/{pattern}") == sorted(ALL - {"ferry-0"})


def test_note_and_options_name_the_version_that_is_read(root):
    found = find(root)
    (table,) = found.tables
    assert (table.root, table.deletes_rows) == (str(root), False)
    assert f"is read at version {table.version}: {len(found.paths)} of" in found.notes[0]
    assert ids_of(root, table.version) == ids_of(root)


def test_named_iceberg_snapshot_is_read(iceberg, tmp_path):
    first, second, *_ = [one.snapshot_id for one in iceberg.snapshots()]
    assert ids_of(tmp_path / "qa", first) == sorted(f"ferry-{number}" for number in range(6))
    assert ids_of(tmp_path / "qa", second) == sorted(ALL)
    with pytest.raises(UsageError, match=rf"should have the snapshot at version 9, the last ones are: .*{first}"):
        ids_of(tmp_path / "qa", 9)


def test_part_of_a_table_is_a_part_of_its_version(root):
    (folder,) = root.rglob("dt=2026-01-01")
    assert set(ids_of(folder)) == {"ferry-3", "ferry-6"}
    (other,) = root.rglob("dt=2026-01-02")
    assert set(ids_of(f"{other}/*.parquet")) == {"ferry-1", "ferry-4", "ferry-7"}


def test_file_that_was_removed_is_refused(root):
    kept = set(find(root).paths)
    removed = next(path for path in root.rglob("*.parquet") if str(path) not in kept)
    with pytest.raises(UsageError, match="none of which belongs to its version"):
        ids_of(removed)


def test_version_some_of_whose_files_are_gone_is_refused(root):
    Path(find(root).paths[0]).unlink()
    with pytest.raises(UsageError, match=r"should have all files of its version \d+ in its folder, 1 of \d+ are not"):
        ids_of(root)


def test_table_version_says_nothing_to_loose_files_and_to_two_tables(make, tmp_path):
    write_log(tmp_path / "loose" / "a.parquet", log_rows(1))
    with pytest.raises(UsageError, match=r"--table-version 0 .* --input leads to 0"):
        ids_of(tmp_path / "loose", 0)
    make(tmp_path / "lake" / "one")
    make(tmp_path / "lake" / "two")
    assert len(ids_of(tmp_path / "lake")) == 14
    with pytest.raises(UsageError, match=r"leads to 2; leave it out"):
        ids_of(tmp_path / "lake", 0)


@pytest.mark.parametrize(
    ("mark", "extra"),
    [
        ("_delta_log/00000000000000000000.json", "delta"), ("_delta_log/_last_checkpoint/x", None),
        ("_delta_log/00000000000000000010.checkpoint.parquet", "delta"),
        ("metadata/00000-6a1b.metadata.json", "iceberg"), ("metadata/v3.metadata.json", "iceberg"),
        ("metadata/v12.gz.metadata.json", "iceberg"), ("metadata/site.json", None),
        ("metadata/site.metadata.json", None), ("_delta_log", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("inside", ["a.parquet", "data/a.parquet", "data/dt=2026-01-01/hour=1/a.parquet"])
def test_table_is_recognised_and_without_the_extra_refused(mark, extra, inside, tmp_path, monkeypatch):
    for name in ("deltalake", "pyiceberg", "pyiceberg.table"):
        monkeypatch.setitem(sys.modules, name, None)
    write_log(tmp_path / "lake" / "qa" / inside, log_rows(1))
    (tmp_path / "lake" / "qa" / mark).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "lake" / "qa" / mark).write_text("{}")
    root = tmp_path / "lake" / "qa"
    for pattern in (root, tmp_path, root / inside, f"{tmp_path}/*/q*/**/*.parquet"):
        if extra is None:
            assert ids_of(pattern) == ["ferry-0"]
            continue
        with pytest.raises(UsageError, match=rf"{extra.capitalize()} table '.*/lake/qa' needs the extra '{extra}'.*"):
            ids_of(pattern)


class _Closed(ArrowStorage):
    """A disk whose upper folders nobody may list."""

    def find(self, pattern, *, suffix):
        """Refused above ``lake``."""
        if "lake" not in pattern:
            raise OSError("AWS Error ACCESS_DENIED during ListObjectsV2 operation")
        return super().find(pattern, suffix=suffix)


def test_folders_above_that_may_not_be_listed_hold_no_table(tmp_path):
    path = write_log(tmp_path / "lake" / "a.parquet", log_rows(1))
    assert find(path, storage=_Closed()).paths == [str(path)]
    (path.parent / "_delta_log").mkdir()
    (path.parent / "_delta_log" / "00000000000000000000.json").write_text("{}")
    with pytest.raises(UsageError, match="the Delta table"):
        find(path, storage=_Closed())


@pytest.mark.parametrize("gone", [[0], [5], [1, 2, 4], [0, 1, 2, 3, 4, 5]])
def test_rows_deleted_by_a_vector_are_left_out(gone, tmp_path):
    pytest.importorskip("deltalake")
    root = with_deletion_vector(tmp_path / "qa", gone)
    assert ids_of(root) == sorted(f"ferry-{number}" for number in range(6) if number not in gone)
    found = find(root)
    assert [one.deletes_rows for one in found.tables] == [True]
    with pytest.raises(UsageError, match="rows are deleted, which only `attribeam audit` leaves out"):
        match_files([str(root)], ".parquet", ArrowStorage(), option="--data")


def test_rows_are_numbered_without_those_that_are_gone(tmp_path):
    pytest.importorskip("deltalake")
    root = with_deletion_vector(tmp_path / "qa", [0, 3])
    found = find(root)
    log = QALog(found.paths[0], LogOptions(tables=found.tables))
    some = [one for one in log.outcomes([0, 2, 3]) if isinstance(one, QARecord)]
    assert [(one.record_id, one.source.source_row) for one in some] == [("ferry-1", 0), ("ferry-4", 2), ("ferry-5", 3)]
    assert not log.duplicate_rows().size
    Path(found.paths[0]).unlink()
    pq.write_table(dated_rows(2), found.paths[0])
    with pytest.raises(DataError, match="should have 4 rows or more, which its table deleted, has 2"):
        log.check()


MAPPING = {"configuration": {"delta.columnMapping.mode": "name"}}


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": protocol(2, 5), "metaData": MAPPING}, {"protocol": protocol(3, 7, "catalogManaged")},
        {"add": {"path": "file:///elsewhere/part.parquet"}},
    ],
)  # fmt: skip
def test_delta_table_that_is_not_read_as_files_is_refused(changes, tmp_path):
    pytest.importorskip("deltalake").write_deltalake(str(tmp_path / "qa"), dated_rows(2))
    edit_log(tmp_path / "qa", **changes)
    with pytest.raises(UsageError, match=r"the Delta table '.*qa'"):
        ids_of(tmp_path / "qa")


def test_file_with_a_hidden_name_is_missed_and_said(tmp_path):
    pytest.importorskip("deltalake").write_deltalake(str(tmp_path / "qa"), dated_rows(2))
    (path,) = (tmp_path / "qa").glob("*.parquet")
    path.rename(path.with_name("_hidden.parquet"))
    edit_log(tmp_path / "qa", add={"path": "_hidden.parquet"})
    write_log(tmp_path / "qa" / "stray.parquet", log_rows(1))
    with pytest.raises(UsageError, match="1 of 1 are not there"):
        ids_of(tmp_path / "qa")


def test_renamed_or_replaced_iceberg_column_is_refused(iceberg, tmp_path):
    with iceberg.update_schema() as update:
        update.add_column("note", iceberg.schema().find_type("team"))
    assert len(ids_of(tmp_path / "qa")) == 7
    with iceberg.update_schema() as update:
        update.rename_column("team", "crew")
    with pytest.raises(UsageError, match="column 'team' was renamed or replaced"):
        ids_of(tmp_path / "qa")


def test_two_newest_metadata_files_are_refused(iceberg, tmp_path):
    newest = Path(iceberg.metadata_location.removeprefix("file://"))
    shutil.copy(newest, newest.with_name(f"{newest.name.partition('-')[0]}-other.metadata.json"))
    with pytest.raises(UsageError, match="are both its newest metadata"):
        ids_of(tmp_path / "qa")


@pytest.mark.usefixtures("iceberg")
def test_iceberg_position_deletes_are_left_out_and_others_refused(tmp_path, monkeypatch):
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.table import DataScan

    kind, plan = [FileFormat.PARQUET], DataScan.plan_files

    def with_deletes(scan):
        tasks = list(plan(scan))
        path = tmp_path / "qa" / "data" / "deletes.parquet"
        first = next(task for task in tasks if task.file.record_count == 2)
        pq.write_table(pa.table({"file_path": [first.file.file_path], "pos": pa.array([1], pa.int64())}), path)
        content = DataFileContent.POSITION_DELETES
        first.delete_files.add(
            DataFile.from_args(content=content, file_path=f"file://{path}", file_format=kind[0], record_count=1)
        )
        return tasks

    before = ids_of(tmp_path / "qa")
    monkeypatch.setattr(DataScan, "plan_files", with_deletes)
    after = ids_of(tmp_path / "qa")
    assert len(after) == len(before) - 1
    assert set(after) < set(before)
    kind[0] = FileFormat.ORC
    with pytest.raises(UsageError, match="its deletes are in ORC files"):
        ids_of(tmp_path / "qa")

    def refuse(_):
        raise ValueError("PyIceberg does not yet support equality deletes")

    monkeypatch.setattr(DataScan, "plan_files", refuse)
    with pytest.raises(UsageError, match="equality deletes"):
        ids_of(tmp_path / "qa")


def test_columns_of_partitions_are_carried(root):
    found = find(root)
    records = [one for path in found.paths for one in QALog(path, LogOptions(extra_columns=("dt",))).outcomes()]
    assert {dict(one.extra_columns)["dt"] for one in records if isinstance(one, QARecord)} == set(DAYS)

"""The files of a log: storages, patterns as a shell lists them, and columns in the names of folders."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow import fs
from tests.pipeline.audit_process import log_rows, write_log

from attribeam.logs import files
from attribeam.logs.columns import LogOptions, parse_column_mapping
from attribeam.logs.files import ArrowStorage, expand_braces, fingerprint_file
from attribeam.logs.qa_log import QALog
from attribeam.schemas import QARecord
from attribeam.schemas.errors import LogFormatError

STORAGE = ArrowStorage()


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A folder that takes the place of the bucket ``s3://logs``."""
    root = tmp_path / "logs"
    for name in ("day=1/a.parquet", "day=2/b c%20.parquet", "day=2/_c.parquet", "day=3/notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr(files, "_file_system", {"s3://logs/": (system, "logs")}.__getitem__)
    return root


@pytest.mark.parametrize(
    "pattern", ["s3://logs", "s3://logs/", "s3://logs/day=*/*.parquet", "s3://logs/**", "s3://logs/day={1,2}/*"]
)
@pytest.mark.usefixtures("bucket")
def test_logs_in_a_bucket_are_found(pattern):
    found = [path for path in STORAGE.find(pattern, suffix=".parquet") if path.endswith(".parquet")]
    assert found == ["s3://logs/day=1/a.parquet", "s3://logs/day=2/b c%20.parquet"]


def test_object_in_a_bucket_is_read_as_a_local_file_is(bucket):
    path = "s3://logs/day=2/b c%20.parquet"
    assert fingerprint_file(STORAGE, path) == fingerprint_file(STORAGE, str(bucket / "day=2" / "b c%20.parquet"))
    with STORAGE.open(path) as file:
        file.seek(4)
        assert file.read() == b"2/b c%20.parquet"


def test_changed_object_has_another_stamp(bucket):
    before = STORAGE.stamp("s3://logs/day=1/a.parquet")
    (bucket / "day=1" / "a.parquet").write_bytes(b"more than before")
    assert before is not None
    assert STORAGE.stamp("s3://logs/day=1/a.parquet") != before
    assert STORAGE.stamp("s3://logs/day=1/none.parquet") is None


def test_file_that_is_written_to_has_another_stamp_even_with_its_time_set_back(tmp_path):
    path = tmp_path / "log.parquet"
    path.write_bytes(b"one")
    before, times = STORAGE.stamp(str(path)), path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_mtime_ns == times.st_mtime_ns
    assert STORAGE.stamp(str(path)) != before


def test_unknown_scheme_is_an_error_that_names_the_known_ones():
    with pytest.raises(OSError, match="should begin with s3://, gs://, hdfs:// or file://"):
        STORAGE.find("zzz://logs/*.parquet", suffix=".parquet")


def test_file_uri_is_a_local_path(tmp_path):
    (tmp_path / "log.parquet").write_bytes(b"x")
    assert STORAGE.find(f"file://{tmp_path}", suffix=".parquet") == [f"file://{tmp_path}/log.parquet"]
    assert fingerprint_file(STORAGE, f"file://{tmp_path}/log.parquet")[0] == 1


def test_pipe_among_logs_is_passed_over_unless_named(tmp_path):
    os.mkfifo(tmp_path / "pipe.parquet")
    (tmp_path / "gone.parquet").symlink_to(tmp_path / "nowhere")
    (tmp_path / "log.parquet").write_bytes(b"one")
    (tmp_path / "loop.parquet").symlink_to(tmp_path / "loop.parquet")
    expected = [str(tmp_path / "gone.parquet"), str(tmp_path / "log.parquet"), str(tmp_path / "loop.parquet")]
    assert STORAGE.find(str(tmp_path), suffix=".parquet") == expected
    assert STORAGE.find(str(tmp_path / "*.parquet"), suffix=".parquet") == expected
    named = str(tmp_path / "pipe.parquet")
    assert STORAGE.find(named, suffix=".parquet") == [named]
    with pytest.raises(OSError, match="no file but a pipe"), STORAGE.open(named):
        pass


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Partitions, one of them a link, one that leads back, and files that are no logs."""
    for name in ("hv/d1/a.parquet", "real/d2/b.parquet", "hv/d1/_a.parquet", "hv/_tmp/c.parquet", "hv/.x/d.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "hv" / "notes.txt").touch()
    (tmp_path / "hv" / "d2").symlink_to("../real/d2")
    (tmp_path / "hv" / "d1" / "back").symlink_to("..")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(pattern):
    return ArrowStorage().find(pattern, suffix=".parquet")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("hv/*/*.parquet", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("hv/d?/[a-b].parquet", ["hv/d1/a.parquet", "hv/d2/b.parquet"]), ("hv", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("hv/", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("./hv/**/*.parquet", ["hv/d1/a.parquet", "hv/d2/b.parquet"]), (".//hv/d1/*.parquet", ["hv/d1/a.parquet"]),
        ("hv/**.parquet", ["hv/d1/a.parquet", "hv/d2/b.parquet"]), ("**/a.parquet", ["hv/d1/a.parquet"]),
        ("hv/d1/a.parquet", ["hv/d1/a.parquet"]), ("hv/d{1,2}/{a,b}.parquet", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("hv/_tmp/*.parquet", ["hv/_tmp/c.parquet"]), ("hv/d1/_a.parquet", []), ("hv/d3/*.parquet", []),
        ("hv/*", ["hv/d1/a.parquet", "hv/d2/b.parquet", "hv/notes.txt"]),
        ("hv/*/", ["hv/d1/a.parquet", "hv/d2/b.parquet"]), ("h[v]", ["hv/d1/a.parquet", "hv/d2/b.parquet"]),
        ("h*/**/d1", ["hv/d1/a.parquet"]), ("nowhere", []),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("tree")
def test_pattern_names_these_files(pattern, expected):
    assert found(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("hv", ["hv/d1/a.parquet"]), ("hv/**/*.parquet", ["hv/d1/a.parquet"]),
        ("hv/d2/evidence", ["hv/d2/evidence/e.parquet"]), ("hv/*/*/*.parquet", ["hv/d2/evidence/e.parquet"]),
        ("**/*/*/*.parquet", ["hv/d1/a.parquet"]), ("hv/**/evidence/*.parquet", ["hv/d2/evidence/e.parquet"]),
    ],
)  # fmt: skip
def test_output_of_an_audit_beside_the_logs_is_none_of_them(tree, pattern, expected):
    audit = tree / "real" / "d2"
    (audit / "evidence").mkdir()
    (audit / "evidence" / "e.parquet").touch()
    (audit / "_attribeam").touch()
    (audit / "b.parquet").unlink()
    (tree / "hv" / "d1" / "back").unlink()
    assert found(pattern) == expected


def test_output_of_a_distributed_audit_beside_the_logs_is_none_of_them(tree):
    for folder, name in (("evidence", "e.parquet"), ("dead_letters", "d.parquet"), ("_chunks", "c.json")):
        (tree / "hv" / "d1" / folder).mkdir()
        (tree / "hv" / "d1" / folder / name).touch()
    assert found("hv") == ["hv/d1/a.parquet", "hv/d2/b.parquet"]
    (tree / "hv" / "d1" / "_chunks" / "c.json").unlink()
    (tree / "hv" / "d1" / "_chunks").rmdir()
    assert "hv/d1/evidence/e.parquet" in found("hv")


def test_log_of_the_user_in_an_audits_directory_is_a_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("_attribeam", "evidence/e.jsonl", "dead_letters/d.jsonl", "logs/a.jsonl", "b.jsonl"):
        path = Path("out", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in ("run_manifest.json", "metrics.json", "c.json"):
        Path("out", name).touch()
    for folder in ("out", "."):
        files = ArrowStorage().find(folder, suffix="{.jsonl,.json}")
        assert files == ["out/b.jsonl", "out/c.json", "out/logs/a.jsonl"]


@pytest.mark.usefixtures("tree")
def test_links_that_lead_back_are_not_followed_for_ever():
    assert found(".") == ["hv/d1/a.parquet", "hv/d2/b.parquet", "real/d2/b.parquet"]


@pytest.mark.parametrize("name", ["log[1].parquet", "*.parquet", "log?.parquet", "{a,log1}.parquet"])
def test_file_with_the_name_of_a_pattern_is_found_beside_what_the_pattern_matches(tree, name):
    for one in (name, "log1.parquet", "day[1]/a.parquet"):
        (tree / one).parent.mkdir(exist_ok=True)
        (tree / one).touch()
    assert found(name) == sorted([name, "log1.parquet"])
    assert found("day[1]") == ["day[1]/a.parquet"]


def test_folder_that_matches_a_pattern_means_its_files_as_its_name_does(tree):
    for name in (
        "logs/n1.parquet/part-0.parquet",
        "logs/n1.parquet/_SUCCESS",
        "logs/n2.parquet",
        "logs/out/_attribeam",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    (tree / "logs" / "out" / "evidence").mkdir()
    (tree / "logs" / "out" / "evidence" / "e.parquet").touch()
    expected = ["logs/n1.parquet/part-0.parquet", "logs/n2.parquet"]
    for pattern in ("logs/*.parquet", "logs/**.parquet", "logs/n[12].parquet", "logs/{n1,n2}.parquet", "logs/*"):
        assert found(pattern) == expected
    assert found("logs/*/*") == ["logs/n1.parquet/part-0.parquet"]


@pytest.mark.parametrize("pattern", ["logs/*.parquet", "**/*.parquet", "logs/n*", "logs", "logs/{n1,n2}.parquet"])
def test_folder_that_is_named_like_a_log_and_holds_none_is_an_error(tree, pattern):
    for name in ("n1.parquet/_temporary/0/part-0.parquet", "n2.parquet", "notes/a.txt"):
        (tree / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / "logs" / name).touch()
    with pytest.raises(FileNotFoundError, match=r"'logs/n1\.parquet/' holds no \*\.parquet"):
        found(pattern)
    (tree / "logs" / "n1.parquet" / "part-0.PARQUET").touch()
    assert "logs/n1.parquet/part-0.PARQUET" in found(pattern)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("day={20,21}/x", ["day=20/x", "day=21/x"]), ("{a,b{c,d}}", ["a", "bc", "bd"]), ("{a}{,x}", ["{a}", "{a}x"]),
        ("plain", ["plain"]), ("{a,b", ["{a,b"]),
    ],
)  # fmt: skip
def test_braces_are_those_of_a_shell(pattern, expected):
    assert sorted(expand_braces(pattern)) == sorted(expected)


def records_of(path, options):
    found = [*QALog(str(path), options).outcomes()]
    records = [one for one in found if isinstance(one, QARecord)]
    assert len(records) == len(found) > 0
    return records


@pytest.mark.parametrize(
    ("folder", "values"),
    [
        ("dt=2026-01-01", {"dt": "2026-01-01"}), ("dt=2026-01-01/hour=7", {"dt": "2026-01-01", "hour": "7"}),
        ("dt=2026-01-01%2000%3A30%3A00", {"dt": "2026-01-01 00:30:00"}), ("region=M%C3%BCnchen", {"region": "München"}),
        ("region=a+b", {"region": "a+b"}), ("region=a%2Fb%3Dc", {"region": "a/b=c"}), ("a=b=c", {"a": "b=c"}),
        ("my%20region=x", {"my region": "x"}), ("region=__HIVE_DEFAULT_PARTITION__", {"region": None}),
        ("region=", {"region": ""}), ("region=x/part/region=y", {"region": "y"}),
        ("team=elsewhere", {"team": "harbour"}),
    ],
)  # fmt: skip
def test_columns_of_folders_are_carried(folder, values, tmp_path):
    path = write_log(tmp_path / folder / "part.parquet", log_rows(3))
    for record in records_of(path, LogOptions(extra_columns=(*values,))):
        assert dict(record.extra_columns) == values


def test_lines_of_json_have_them_too(tmp_path):
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
def test_they_may_be_fields(folder, moment, tmp_path):
    path = write_log(tmp_path / folder / "generator=small%201" / "part.parquet", log_rows(2))
    for record in records_of(path, LogOptions(columns=parse_column_mapping("answered_at=dt"))):
        assert (record.answered_at, record.generator) == (moment, "small 1")


def test_a_record_may_have_its_id_from_a_folder(tmp_path):
    path = write_log(tmp_path / "ticket=7" / "part.parquet", log_rows(2))
    log = QALog(str(path), LogOptions(columns=parse_column_mapping("record_id=ticket")))
    assert log.duplicate_rows().tolist() == [1]


def test_file_beside_the_folders_lacks_them(tmp_path):
    path = write_log(tmp_path / "part.parquet", log_rows(1))
    with pytest.raises(LogFormatError, match="one column 'dt' is needed, there is none"):
        QALog(str(path), LogOptions(extra_columns=("dt",))).check()


def test_a_folder_may_give_a_field_and_an_extra_column(tmp_path):
    path = write_log(tmp_path / "dt=2026-01-01" / "part.parquet", log_rows(1))
    (record,) = records_of(path, LogOptions(columns=(("answered_at", "dt"),), extra_columns=("dt",)))
    assert (record.answered_at, record.extra_columns) == (datetime(2026, 1, 1, tzinfo=UTC), (("dt", "2026-01-01"),))

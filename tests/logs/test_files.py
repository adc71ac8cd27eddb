"""Storages: local disks and Arrow's other file systems read alike, and a changed file has another stamp."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyarrow import fs

from attribeam.logs import files
from attribeam.logs.files import ArrowStorage, fingerprint_file

STORAGE = ArrowStorage()


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
def test_logs_in_a_bucket_are_found(pattern: str) -> None:
    found = [path for path in STORAGE.find(pattern, suffix=".parquet") if path.endswith(".parquet")]
    assert found == ["s3://logs/day=1/a.parquet", "s3://logs/day=2/b c%20.parquet"]


def test_object_in_a_bucket_is_read_as_a_local_file_is(bucket: Path) -> None:
    path = "s3://logs/day=2/b c%20.parquet"
    assert fingerprint_file(STORAGE, path) == fingerprint_file(STORAGE, str(bucket / "day=2" / "b c%20.parquet"))
    with STORAGE.open(path) as file:
        file.seek(4)
        assert file.read() == b"2/b c%20.parquet"


def test_changed_object_has_another_stamp(bucket: Path) -> None:
    before = STORAGE.stamp("s3://logs/day=1/a.parquet")
    (bucket / "day=1" / "a.parquet").write_bytes(b"more than before")
    assert before is not None
    assert STORAGE.stamp("s3://logs/day=1/a.parquet") != before
    assert STORAGE.stamp("s3://logs/day=1/none.parquet") is None


def test_file_that_is_written_to_has_another_stamp_even_with_its_time_set_back(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(b"one")
    before, times = STORAGE.stamp(str(path)), path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_mtime_ns == times.st_mtime_ns
    assert STORAGE.stamp(str(path)) != before


def test_unknown_scheme_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(OSError, match="should begin with s3://, gs://, hdfs:// or file://"):
        STORAGE.find("zzz://logs/*.parquet", suffix=".parquet")


def test_file_uri_is_a_local_path(tmp_path: Path) -> None:
    (tmp_path / "log.parquet").write_bytes(b"x")
    assert STORAGE.find(f"file://{tmp_path}", suffix=".parquet") == [f"file://{tmp_path}/log.parquet"]
    assert fingerprint_file(STORAGE, f"file://{tmp_path}/log.parquet")[0] == 1


def test_pipe_among_logs_is_passed_over_unless_named(tmp_path: Path) -> None:
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

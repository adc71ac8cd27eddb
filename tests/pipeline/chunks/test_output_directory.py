"""What an audit takes for its own, and what it never touches."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from attribeam.pipeline.chunks.output_directory import OutputDirectory, replace_status
from attribeam.schemas.errors import UsageError
from attribeam.schemas.run_manifest import RunStatus

HOLD = """
import sys
from pathlib import Path
from attribeam.pipeline.chunks.output_directory import OutputDirectory
with OutputDirectory(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="other files"), OutputDirectory(tmp_path).locked():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_of_somebody_else_among_the_evidence_is_refused(tmp_path: Path) -> None:
    with OutputDirectory(tmp_path / "out").locked():
        pass
    (tmp_path / "out" / "evidence" / "mine.parquet").write_text("")
    with pytest.raises(UsageError, match=r"mine\.parquet"):
        OutputDirectory(tmp_path / "out").check()


@pytest.mark.parametrize("place", ["_attempts/mine.txt", "_chunks/00000-log-r0000000000.json/x", "dead_letters"])
def test_what_is_not_as_an_audit_leaves_it_is_refused_by_name(tmp_path: Path, place: str) -> None:
    root = tmp_path / "out"
    with OutputDirectory(root).locked():
        pass
    path = root / place
    if path.is_dir():
        path.rmdir()
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    named = place.removesuffix("/x")
    with pytest.raises(UsageError, match=f"{named}.*move it away"), OutputDirectory(root).locked():
        pass
    assert path.exists()


def test_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        OutputDirectory(tmp_path / "out").check()


@pytest.mark.parametrize("made", ["long", "below a file", "dangling link"])
def test_output_that_cannot_be_made_is_refused_with_the_reason(tmp_path: Path, made: str) -> None:
    root = tmp_path / ("x" * 300 if made == "long" else "file/out" if made == "below a file" else "link")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/nowhere/at/all")
    with pytest.raises(UsageError, match=r"cannot be written to: .*choose another"), OutputDirectory(root).locked():
        pass


def _tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Modes and contents of all files below a folder."""
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in root.rglob("*")
    }


LINKS = [
    *("_attribeam", "run_manifest.json", "report.html", "metrics.json", "metrics.prom"),
    *("evidence", "dead_letters", "_chunks", "_attempts"),
    *("evidence/00000-log-r0000000000.parquet", "_chunks/00000-log-r0000000000.json", f"_attempts/x-{'0' * 32}"),
]


@pytest.mark.parametrize("place", LINKS)
def test_a_link_in_place_of_what_an_audit_writes_is_refused_and_not_followed(tmp_path: Path, place: str) -> None:
    root, outside = tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("years of work")
    (outside / "file").chmod(0o666)
    with OutputDirectory(root).locked():
        pass
    path = root / place
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.symlink_to(outside if "." not in place and place != "_attribeam" else outside / "file")
    before = _tree(tmp_path)
    with pytest.raises(UsageError, match=f"{place}.*move it away"), OutputDirectory(root).locked():
        pass
    assert _tree(tmp_path) == before


@pytest.mark.parametrize("name", ["_attribeam", "run_manifest.json"])
def test_a_link_that_appears_after_the_check_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    directory, outside = OutputDirectory(tmp_path / "out"), tmp_path / "outside"
    outside.write_text('{"status": "running"}' + " " * 9)
    with directory.locked():
        pass
    (directory.root / name).unlink(missing_ok=True)
    (directory.root / name).symlink_to(outside)
    monkeypatch.setattr(OutputDirectory, "check", lambda _: None)
    with pytest.raises((UsageError, OSError)), directory.locked():
        replace_status(directory.run_manifest, RunStatus.DONE)
    assert json.loads(outside.read_text()) == {"status": "running"}


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "an audit"])
def test_what_a_run_made_before_it_failed_is_removed_again(tmp_path: Path, there: str) -> None:
    root = tmp_path / "deep" / "out"
    if there != "nothing":
        root.mkdir(parents=True)
    if there == "an audit":
        with OutputDirectory(root).locked():
            (root / "run_manifest.json").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="no such model"), OutputDirectory(root).locked():
        raise UsageError("no such model")
    assert sorted(tmp_path.rglob("*")) == before


def test_what_a_run_wrote_before_it_failed_stays(tmp_path: Path) -> None:
    directory = OutputDirectory(tmp_path / "out")
    written = directory.evidence / "00000-log-r0000000000.parquet"
    with pytest.raises(FileExistsError), directory.locked():
        written.write_bytes(b"") or written.touch(exist_ok=False)
    assert written.exists()
    assert (directory.root / "_attribeam").exists()


@pytest.mark.parametrize("unwritable", [".", "out", "out/evidence"])
def test_an_unwritable_output_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unwritable: str
) -> None:
    """Also by a dry run, which makes nothing that could fail; the tests may run as root, who may write everywhere."""
    if unwritable != ".":
        with OutputDirectory(tmp_path / "out").locked():
            pass
    before = sorted(tmp_path.rglob("*"))
    access = os.access
    denied = (tmp_path / unwritable).resolve()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).resolve() != denied and access(path, mode))
    with pytest.raises(UsageError, match="is not writable; make it writable"):
        OutputDirectory(tmp_path / "out").check()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(UsageError, match="No locks available"), OutputDirectory(tmp_path / "out").locked():
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_marker_that_is_gone_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another run has just ended that removes what it made."""
    flock = fcntl.flock

    def remove_then_lock(file: TextIO, mode: int) -> None:
        (tmp_path / "_attribeam").unlink()
        flock(file, mode)

    with OutputDirectory(tmp_path).locked():
        (tmp_path / "run_manifest.json").touch()
    monkeypatch.setattr(fcntl, "flock", remove_then_lock)
    with pytest.raises(UsageError, match="another audit is writing"), OutputDirectory(tmp_path).locked():
        pass


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk_is_no_wrong_output(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OSError, match=os.strerror(code)), OutputDirectory(tmp_path / "out").locked():
        pass


def test_the_folders_are_there_while_it_is_claimed(tmp_path: Path) -> None:
    directory = OutputDirectory(tmp_path / "deep" / "out")
    with directory.locked():
        assert directory.evidence.is_dir()
        assert directory.dead_letters.is_dir()


def test_two_audits_cannot_hold_one_directory_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match=f"process {holder.pid}"), OutputDirectory(tmp_path).locked():
            pass
        holder.kill()
        holder.wait()
    with OutputDirectory(tmp_path).locked():
        pass

"""What an audit takes for its own, and what it never touches."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attribeam.pipeline.chunks.output_directory import OutputDirectory, write_atomically
from attribeam.schemas.errors import UsageError

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


def test_full_disk_is_no_wrong_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OSError, match="No space left"), OutputDirectory(tmp_path / "out").locked():
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


def test_an_atomic_write_leaves_no_other_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "run_manifest.json", "old")
    write_atomically(tmp_path / "run_manifest.json", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"run_manifest.json": "new"}

"""Which files and rows a run reads, how they are cut, and what it takes for its own output."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from tests.pipeline.audit_process import log_rows, write_log

from attribeam.logs.files import ArrowStorage
from attribeam.logs.qa_log import QALog
from attribeam.pipeline.input_plan import check_input, make_plan
from attribeam.pipeline.output_directory import OutputDirectory, replace_status
from attribeam.schemas import SpanKind
from attribeam.schemas.errors import LogReadError, UsageError
from attribeam.schemas.run_manifest import RunStatus
from attribeam.transforms.audit_settings import AuditSettings

SETTINGS = AuditSettings()


def _plan(log, rows_per_chunk):
    return make_plan(check_input([str(log)], SETTINGS), rows_per_chunk=rows_per_chunk)


def test_chunks_cover_every_row_once_and_sort_in_input_order(tmp_path):
    write_log(tmp_path / "a.parquet", log_rows(7))
    write_log(tmp_path / "b.parquet", log_rows(3))
    plan = _plan(f"{tmp_path}/*.parquet", 3)
    names = [chunk.name for chunk in plan.chunks]
    assert names == sorted(names)
    ranges = [(Path(chunk.rows.file).name, chunk.rows.row_start, chunk.rows.row_end) for chunk in plan.chunks]
    assert ranges == [("a.parquet", 0, 3), ("a.parquet", 3, 6), ("a.parquet", 6, 7), ("b.parquet", 0, 3)]


def test_files_of_the_same_name_in_two_folders_get_different_chunks(tmp_path):
    write_log(tmp_path / "x" / "part-0.parquet", log_rows(2))
    write_log(tmp_path / "y" / "part-0.parquet", log_rows(2))
    plan = _plan(f"{tmp_path}/*/part-0.parquet", 2000)
    assert [chunk.name for chunk in plan.chunks] == ["00000-part-0-r0000000000", "00001-part-0-r0000000000"]


def test_a_file_without_rows_has_one_empty_chunk(tmp_path):
    write_log(tmp_path / "none.parquet", [])
    (chunk,) = _plan(f"{tmp_path}/none.parquet", 5).chunks
    assert chunk.rows.row_count == 0


def test_given_spans_alone_are_refused_where_no_file_can_give_any(tmp_path):
    path = str(write_log(tmp_path / "log.parquet", log_rows(1)))
    with pytest.raises(UsageError, match="--spans given needs rows that give spans, and no file has a column"):
        check_input([path], replace(SETTINGS, span_kinds=(SpanKind.GIVEN,)))
    assert check_input([path], replace(SETTINGS, span_kinds=(SpanKind.GIVEN, SpanKind.FACTS))).files


def test_a_rewritten_answer_of_the_same_length_changes_the_fingerprint(tmp_path):
    rows = log_rows(9)
    path = write_log(tmp_path / "a.parquet", rows)
    before = _plan(path, 9).inputs[0]
    rows[4]["answer"] = str(rows[4]["answer"]).replace("noon", "nine")
    write_log(path, rows)
    assert _plan(path, 9).inputs[0].sha256 != before.sha256


def test_duplicates_go_to_the_chunk_that_holds_them(tmp_path):
    rows = [*log_rows(4), *log_rows(2), *log_rows(1)]
    path = write_log(tmp_path / "a.parquet", rows)
    plan = _plan(path, 3)
    assert [chunk.rows.duplicate_rows for chunk in plan.chunks] == [(), (4, 5), (6,)]


def _of_another_format(path):
    path.write_text('{"answer": "a"}')


def _of_one_row(path):
    write_log(path, log_rows(1))


@pytest.mark.parametrize(
    ("make", "name", "options", "problem"),
    [
        (Path.touch, "a.jsonl", {"log_format": "jsonl"}, "a.jsonl' has no row, nor has any other file; there is n"),
        (_of_another_format, "a.parquet", {}, "--input: log .*a.parquet.*--log-format"),
        (_of_another_format, "a.jsonl", {}, "--input: log .*a.jsonl.*--log-format"),
        *((os.mkfifo, "a", {"log_format": kind}, "a' cannot be read: it is no file but a pipe")
            for kind in ("parquet", "jsonl", "ragas")),  # and not waited for
        (_of_one_row, "a", {"extra_columns": ("record_id",)}, "--extra-columns: .*'record_id' has the name of a field"),
    ],
)  # fmt: skip
def test_what_cannot_be_audited_is_refused_before_a_model_is_loaded(make, name, options, problem, tmp_path):
    make(tmp_path / name)
    with pytest.raises(UsageError, match=problem):
        check_input([f"{tmp_path}/{name}"], replace(SETTINGS, **options))


def test_a_link_that_leads_nowhere_is_refused_by_name_and_not_passed_over(tmp_path):
    write_log(tmp_path / "a.parquet", log_rows(1))
    (tmp_path / "b.parquet").symlink_to(tmp_path / "gone.parquet")
    with pytest.raises(UsageError, match=r"--input: log .*b\.parquet' is a link that leads nowhere"):
        check_input([f"{tmp_path}/*.parquet"], SETTINGS)


def test_a_disk_that_fails_is_no_fault_of_the_input(tmp_path, monkeypatch):
    path = write_log(tmp_path / "log.parquet", log_rows(1))
    monkeypatch.setattr(ArrowStorage, "open", Mock(side_effect=OSError(errno.EIO, os.strerror(errno.EIO))))
    with pytest.raises(LogReadError, match=r"--input: log .*log\.parquet' cannot be read: .*Input/output error"):
        check_input([str(path)], SETTINGS)


def test_a_file_that_links_lead_to_is_read_once_and_the_links_are_told(tmp_path):
    path = write_log(tmp_path / "z.parquet", log_rows(2))
    (tmp_path / "a.parquet").symlink_to(path)
    (tmp_path / "z2.parquet").hardlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path)
    check = check_input([f"{tmp_path}/*.parquet", f"file://{path}", f"{tmp_path}/folder/z.parquet"], SETTINGS)
    assert [file.path for file in check.files] == [str(path)]
    (note,) = make_plan(check, rows_per_chunk=2).notes
    assert note.startswith("4 paths of --input lead to files that others name, too, each is read once: ")


def test_a_file_that_changes_while_the_run_is_planned_is_refused(tmp_path, monkeypatch):
    path = write_log(tmp_path / "log.parquet", log_rows(4))
    check = check_input([str(path)], SETTINGS)
    monkeypatch.setattr(QALog, "duplicate_rows", lambda _: write_log(path, log_rows(4)) and np.empty(0, np.int64))
    with pytest.raises(LogReadError, match=r"log\.parquet' was replaced or written to"):
        make_plan(check, rows_per_chunk=2)


def test_output_of_an_audit_is_no_input_and_the_refusal_says_so(tmp_path):
    write_log(tmp_path / "out" / "evidence" / "e.parquet", log_rows(1))
    (tmp_path / "out" / "_attribeam").touch()
    with pytest.raises(UsageError, match=r"nothing matches .*out'; .*, and what audits wrote, are passed over"):
        check_input([str(tmp_path / "out")], SETTINGS)


HOLD = """
import sys
from pathlib import Path
from attribeam.pipeline.output_directory import OutputDirectory
with OutputDirectory(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def _hold(directory):
    with directory.locked():
        pass


@pytest.mark.parametrize(
    ("name", "problem"), [("thesis.txt", "other files"), ("run_manifest.json", "an audit .* as --runner makes it")]
)
def test_a_directory_with_other_files_is_refused_and_left_alone(name, problem, tmp_path):
    (tmp_path / name).write_text("years of work")
    with pytest.raises(UsageError, match=f"holds {problem}; choose another directory$"):
        _hold(OutputDirectory(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_of_somebody_else_among_the_evidence_is_refused(tmp_path):
    _hold(OutputDirectory(tmp_path / "out"))
    (tmp_path / "out" / "evidence" / "mine.parquet").write_text("")
    with pytest.raises(UsageError, match=r"mine\.parquet"):
        OutputDirectory(tmp_path / "out").check()


@pytest.mark.parametrize("place", ["_attempts/mine.txt", "_chunks/00000-log-r0000000000.json/x", "dead_letters"])
def test_what_is_not_as_an_audit_leaves_it_is_refused_by_name(tmp_path, place):
    root = tmp_path / "out"
    _hold(OutputDirectory(root))
    path = root / place
    if path.is_dir():
        path.rmdir()
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    named = place.removesuffix("/x")
    with pytest.raises(UsageError, match=f"{named}.*move it away"):
        _hold(OutputDirectory(root))
    assert path.exists()


@pytest.mark.parametrize("made", ["long", "below a file", "dangling link"])
def test_output_that_cannot_be_made_is_refused_with_the_reason(tmp_path, made):
    root = tmp_path / ("x" * 300 if made == "long" else "file/out" if made == "below a file" else "link")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/nowhere/at/all")
    with pytest.raises(UsageError, match=r"cannot be written to: .*choose another"):
        _hold(OutputDirectory(root))


def _tree(root):
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
def test_a_link_in_place_of_what_an_audit_writes_is_refused_and_not_followed(tmp_path, place):
    root, outside = tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("years of work")
    (outside / "file").chmod(0o666)
    _hold(OutputDirectory(root))
    path = root / place
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.symlink_to(outside if "." not in place and place != "_attribeam" else outside / "file")
    before = _tree(tmp_path)
    with pytest.raises(UsageError, match=f"{place}.*move it away"):
        _hold(OutputDirectory(root))
    assert _tree(tmp_path) == before


@pytest.mark.parametrize("name", ["_attribeam", "run_manifest.json"])
def test_a_link_that_appears_after_the_check_is_not_written_through(tmp_path, monkeypatch, name):
    directory, outside = OutputDirectory(tmp_path / "out"), tmp_path / "outside"
    outside.write_text('{"status": "running"}' + " " * 9)
    _hold(directory)
    (directory.root / name).unlink(missing_ok=True)
    (directory.root / name).symlink_to(outside)
    monkeypatch.setattr(OutputDirectory, "check", lambda _: None)
    with pytest.raises((UsageError, OSError)), directory.locked():
        replace_status(directory.run_manifest, RunStatus.DONE)
    assert json.loads(outside.read_text()) == {"status": "running"}


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "an audit"])
def test_what_a_run_made_before_it_failed_is_removed_again(tmp_path, there):
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


def test_what_a_run_wrote_before_it_failed_stays(tmp_path):
    directory = OutputDirectory(tmp_path / "out")
    written = directory.root / "evidence" / "00000-log-r0000000000.parquet"
    with pytest.raises(FileExistsError), directory.locked():
        written.write_bytes(b"") or written.touch(exist_ok=False)
    assert written.exists()
    assert (directory.root / "_attribeam").exists()


@pytest.mark.parametrize("unwritable", [".", "out", "out/evidence"])
def test_an_unwritable_output_is_refused_before_anything_is_made(tmp_path, monkeypatch, unwritable):
    """Also by a dry run, which makes nothing that could fail; the tests may run as root, who may write everywhere."""
    if unwritable != ".":
        _hold(OutputDirectory(tmp_path / "out"))
    before = sorted(tmp_path.rglob("*"))
    access = os.access
    denied = (tmp_path / unwritable).resolve()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).resolve() != denied and access(path, mode))
    with pytest.raises(UsageError, match="is not writable; make it writable"):
        OutputDirectory(tmp_path / "out").check()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
    with pytest.raises(UsageError, match="No locks available"):
        _hold(OutputDirectory(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_marker_that_is_gone_is_none(tmp_path, monkeypatch):
    """As where another run has just ended that removes what it made."""
    flock = fcntl.flock

    def remove_then_lock(file, mode):
        (tmp_path / "_attribeam").unlink()
        flock(file, mode)

    with OutputDirectory(tmp_path).locked():
        (tmp_path / "run_manifest.json").touch()
    monkeypatch.setattr(fcntl, "flock", remove_then_lock)
    with pytest.raises(UsageError, match="another audit is writing"):
        _hold(OutputDirectory(tmp_path))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_full_disk_is_no_wrong_output(code, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "mkdir", Mock(side_effect=OSError(code, os.strerror(code))))
    with pytest.raises(OSError, match=os.strerror(code)):
        _hold(OutputDirectory(tmp_path / "out"))


def test_two_audits_cannot_hold_one_directory_and_a_killed_one_holds_nothing(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match=f"process {holder.pid}"):
            _hold(OutputDirectory(tmp_path))
        holder.kill()
        holder.wait()
    _hold(OutputDirectory(tmp_path))

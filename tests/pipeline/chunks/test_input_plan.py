"""Which files and rows a run reads, and how they are cut."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.pipeline.small_log import log_rows, write_log

from attribeam.logs.files import ArrowStorage
from attribeam.logs.qa_log import QALog
from attribeam.pipeline.chunks.input_plan import check_input, chunk_name, make_plan
from attribeam.schemas import SpanKind
from attribeam.schemas.errors import LogReadError, UsageError
from attribeam.transforms.audit_settings import AuditSettings

SETTINGS = AuditSettings()


def test_chunks_cover_every_row_once_and_sort_in_input_order(tmp_path: Path) -> None:
    write_log(tmp_path / "a.parquet", log_rows(7))
    write_log(tmp_path / "b.parquet", log_rows(3))
    plan = make_plan(check_input([f"{tmp_path}/*.parquet"], SETTINGS), rows_per_chunk=3)
    names = [chunk.name for chunk in plan.chunks]
    assert names == sorted(names)
    ranges = [(Path(chunk.rows.file).name, chunk.rows.row_start, chunk.rows.row_end) for chunk in plan.chunks]
    assert ranges == [("a.parquet", 0, 3), ("a.parquet", 3, 6), ("a.parquet", 6, 7), ("b.parquet", 0, 3)]


def test_a_path_that_two_patterns_match_is_read_once(tmp_path: Path) -> None:
    write_log(tmp_path / "a.parquet", log_rows(2))
    check = check_input([f"{tmp_path}/*.parquet", f"{tmp_path}/a.parquet"], SETTINGS)
    assert [Path(file.path).name for file in check.files] == ["a.parquet"]


def test_files_of_the_same_name_in_two_folders_get_different_chunks(tmp_path: Path) -> None:
    write_log(tmp_path / "x" / "part-0.parquet", log_rows(2))
    write_log(tmp_path / "y" / "part-0.parquet", log_rows(2))
    plan = make_plan(check_input([f"{tmp_path}/*/part-0.parquet"], SETTINGS), rows_per_chunk=2000)
    assert [chunk.name for chunk in plan.chunks] == ["00000-part-0-r0000000000", "00001-part-0-r0000000000"]


@pytest.mark.parametrize("pattern", ["*.parquet", "lo?.parquet", "log.parquet", "./log.parquet"])
def test_patterns_count_from_the_working_directory(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "log.parquet", log_rows(1))
    monkeypatch.chdir(tmp_path)
    (file,) = check_input([pattern], SETTINGS).files
    assert Path(file.path) == Path("log.parquet")


def test_a_file_without_rows_has_one_empty_chunk(tmp_path: Path) -> None:
    write_log(tmp_path / "none.parquet", [])
    (chunk,) = make_plan(check_input([f"{tmp_path}/none.parquet"], SETTINGS), rows_per_chunk=5).chunks
    assert chunk.rows.row_count == 0


def test_empty_json_lines_alone_are_refused_before_a_model_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").touch()
    with pytest.raises(UsageError, match=r"none\.jsonl' has no row, nor has any other file; there is nothing"):
        check_input([f"{tmp_path}/none.jsonl"], replace(SETTINGS, log_format="jsonl"))


def test_given_spans_alone_are_refused_where_no_file_can_give_any(tmp_path: Path) -> None:
    path = str(write_log(tmp_path / "log.parquet", log_rows(1)))
    with pytest.raises(UsageError, match="--spans given needs rows that give spans, and no file has a column"):
        check_input([path], replace(SETTINGS, span_kinds=(SpanKind.GIVEN,)))
    assert check_input([path], replace(SETTINGS, span_kinds=(SpanKind.GIVEN, SpanKind.FACTS))).files


def test_a_rewritten_answer_of_the_same_length_changes_the_fingerprint(tmp_path: Path) -> None:
    rows = log_rows(9)
    path = write_log(tmp_path / "a.parquet", rows)
    before = make_plan(check_input([str(path)], SETTINGS), rows_per_chunk=9).inputs[0]
    rows[4]["answer"] = str(rows[4]["answer"]).replace("noon", "nine")
    write_log(path, rows)
    assert make_plan(check_input([str(path)], SETTINGS), rows_per_chunk=9).inputs[0].sha256 != before.sha256


def test_duplicates_go_to_the_chunk_that_holds_them(tmp_path: Path) -> None:
    rows = [*log_rows(4), *log_rows(2), *log_rows(1)]
    path = write_log(tmp_path / "a.parquet", rows)
    plan = make_plan(check_input([str(path)], SETTINGS), rows_per_chunk=3)
    assert [chunk.rows.duplicate_rows for chunk in plan.chunks] == [(), (4, 5), (6,)]


def test_a_pattern_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing matches"):
        check_input([f"{tmp_path}/*.parquet"], SETTINGS)


@pytest.mark.parametrize("name", ["log.parquet", "log.jsonl"])
def test_a_file_of_another_format_is_refused_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"answer": "a"}')
    with pytest.raises(UsageError, match=rf"--input: log .*{name}.*--log-format"):
        check_input([f"{tmp_path}/{name}"], SETTINGS)


def test_a_damaged_file_fails_by_name(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.parquet", log_rows(1))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UsageError, match=r"--input: log .*log\.parquet.*footer"):
        check_input([str(path)], SETTINGS)


def test_a_link_that_leads_nowhere_is_refused_by_name_and_not_passed_over(tmp_path: Path) -> None:
    write_log(tmp_path / "a.parquet", log_rows(1))
    (tmp_path / "b.parquet").symlink_to(tmp_path / "gone.parquet")
    with pytest.raises(UsageError, match=r"--input: log .*b\.parquet' is a link that leads nowhere"):
        check_input([f"{tmp_path}/*.parquet"], SETTINGS)


def test_a_disk_that_fails_is_no_fault_of_the_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_log(tmp_path / "log.parquet", log_rows(1))

    @contextmanager
    def failing(*_: object) -> Iterator[BinaryIO]:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
        yield

    monkeypatch.setattr(ArrowStorage, "open", failing)
    with pytest.raises(LogReadError, match=r"--input: log .*log\.parquet' cannot be read: .*Input/output error"):
        check_input([str(path)], SETTINGS)


@pytest.mark.parametrize("log_format", ["parquet", "jsonl", "ragas"])
def test_a_pipe_is_refused_and_not_waited_for(log_format: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(UsageError, match="log' cannot be read: it is no file but a pipe"):
        check_input([f"{tmp_path}/log"], AuditSettings(log_format=log_format))


def test_a_file_that_links_lead_to_is_read_once_and_the_links_are_told(tmp_path: Path) -> None:
    path = write_log(tmp_path / "z.parquet", log_rows(2))
    (tmp_path / "a.parquet").symlink_to(path)
    (tmp_path / "z2.parquet").hardlink_to(path)
    (tmp_path / "folder").symlink_to(tmp_path)
    check = check_input([f"{tmp_path}/*.parquet", f"file://{path}", f"{tmp_path}/folder/z.parquet"], SETTINGS)
    assert [file.path for file in check.files] == [str(path)]
    (note,) = make_plan(check, rows_per_chunk=2).notes
    assert note.startswith("4 paths of --input lead to files that others name, too, each is read once: ")


@pytest.mark.parametrize("pattern", ["", "  "])
def test_an_empty_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match=r"--input .* was empty"):
        check_input([pattern], SETTINGS)


def test_a_folder_means_all_logs_below_it(tmp_path: Path) -> None:
    for name in ("a.parquet", "x/y/b.parquet", "x/_temporary/c.parquet", "x/notes.txt", "x/.d.parquet"):
        write_log(tmp_path / name, log_rows(1))
    found = [file.path for file in check_input([str(tmp_path)], SETTINGS).files]
    assert found == [f"{tmp_path}/a.parquet", f"{tmp_path}/x/y/b.parquet"]


def test_linked_partitions_are_read(tmp_path: Path) -> None:
    write_log(tmp_path / "hv" / "d1" / "a.parquet", log_rows(1))
    write_log(tmp_path / "real" / "d2" / "b.parquet", log_rows(1))
    (tmp_path / "hv" / "d2").symlink_to(Path("..") / "real" / "d2")
    found = [file.path for file in check_input([f"{tmp_path}/hv/*/*.parquet"], SETTINGS).files]
    assert found == [f"{tmp_path}/hv/d1/a.parquet", f"{tmp_path}/hv/d2/b.parquet"]


def test_an_extra_column_with_a_name_of_the_evidence_record_is_refused(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.parquet", log_rows(1))
    with pytest.raises(UsageError, match=r"--extra-columns: .*'record_id' has the name of a field"):
        check_input([str(path)], AuditSettings(extra_columns=("record_id",)))


def test_a_file_that_changes_while_the_run_is_planned_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path / "log.parquet", log_rows(4))
    check = check_input([str(path)], SETTINGS)
    monkeypatch.setattr(QALog, "duplicate_rows", lambda _: write_log(path, log_rows(4)) and np.empty(0, np.int64))
    with pytest.raises(LogReadError, match=r"log\.parquet' was replaced or written to"):
        make_plan(check, rows_per_chunk=2)


def test_a_file_that_grew_since_it_was_checked_is_refused(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.parquet", log_rows(4))
    check = check_input([str(path)], SETTINGS)
    write_log(path, log_rows(6))
    with pytest.raises(LogReadError, match=r"log\.parquet' was replaced or written to"):
        make_plan(check, rows_per_chunk=2)


def test_a_missing_column_is_refused_before_anything_starts(tmp_path: Path) -> None:
    pq.write_table(pa.table({"record_id": ["a"]}), tmp_path / "log.parquet")
    with pytest.raises(UsageError, match="question"):
        check_input([f"{tmp_path}/log.parquet"], SETTINGS)


def test_chunk_names_are_readable_whatever_the_file_is_called() -> None:
    assert chunk_name(3, "gs://logs/date=2026-11-19/part 0 (é).parquet", 2000) == "00003-part-0-r0000002000"
    assert np.all([chunk_name(0, f"{stem}.parquet", 0) for stem in ("...", "é", "-")] == ["00000-file-r0000000000"] * 3)


def test_output_of_an_audit_is_no_input_and_the_refusal_says_so(tmp_path: Path) -> None:
    write_log(tmp_path / "out" / "evidence" / "e.parquet", log_rows(1))
    (tmp_path / "out" / "_attribeam").touch()
    with pytest.raises(UsageError, match=r"nothing matches .*out'; .*, and what audits wrote, are passed over"):
        check_input([str(tmp_path / "out")], SETTINGS)

"""Audits of other logs: formats, exports of trace stores, Delta tables, and a log that changes meanwhile."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.logs.lakes import dated_rows, with_deletion_vector
from tests.logs.log_files import write_jsonl
from tests.logs.test_reader import arrow_copy, install_example
from tests.logs.traces.exports import ANSWER, PASSAGES, mixed_spans
from tests.pipeline.audit_process import AuditProcess, log_rows, read_all, read_manifest, write_log

from attribeam.pipeline import local_driver
from attribeam.pipeline.chunk_store import ChunkStore
from attribeam.pipeline.command_line import main
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedLogs
from attribeam.schemas import RowSource
from attribeam.schemas.errors import ExitCode


def as_jsonl(log):
    return write_jsonl(Path(log).with_suffix(".jsonl"), pq.read_table(log).to_pylist())


def audit_of(settings, log):
    return AuditProcess(Path(settings.model.model), Path(settings.parser), log)


@pytest.fixture(scope="module")
def audit(settings, tmp_path_factory):
    root = tmp_path_factory.mktemp("audit")
    rows = log_rows(6)
    rows[2]["answer"] = " "
    return audit_of(settings, write_log(root / "log.parquet", rows))


@pytest.fixture(scope="module")
def of_parquet(audit, tmp_path_factory):
    output = tmp_path_factory.mktemp("parquet") / "out"
    assert audit.run_here(output, "--workers", "1") == ExitCode.DONE
    return output


def without_path(table):
    return table.drop_columns("source_file").replace_schema_metadata()


@pytest.mark.parametrize("convert", [as_jsonl, arrow_copy])
def test_log_of_another_format_is_audited_and_shown_alike(convert, audit, of_parquet, tmp_path, monkeypatch, capfd):
    install_example(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    other = AuditProcess(audit.model, audit.parser, Path(convert(str(audit.log))))
    output = tmp_path / "out"
    name = other.log.suffix.removeprefix(".")
    assert other.run_here(output, "--log-format", name, "--workers", "1") == ExitCode.DONE, capfd.readouterr().err
    for folder in ("evidence", "dead_letters"):
        assert without_path(read_all(output / folder)) == without_path(read_all(of_parquet / folder))
    capfd.readouterr()
    assert main(["show", "ferry-1", "--audit", str(output)]) == ExitCode.DONE
    assert "The west pier is closed in winter." in capfd.readouterr().out


def test_every_trace_is_audited_or_a_dead_letter(settings, tmp_path, capsys):
    audit = tmp_path / "audit"
    models = ["--model", str(settings.model.model), "--parser", settings.parser, "--workers", "1"]
    command = ["audit", "--log-format", "openinference", "--input", mixed_spans(tmp_path), "--output", str(audit)]
    assert main([*command, *models]) == 0, capsys.readouterr().err
    manifest = json.loads((audit / "run_manifest.json").read_text())
    assert (manifest["counts"]["rows"], manifest["counts"]["audited"]) == (4, 2)
    letters = [row for path in (audit / "dead_letters").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert {(one["record_id"], one["stage"], one["reason"]) for one in letters} == {
        ("trace-bare", "validate", "no_passages"), (None, "read", "invalid_json")
    }  # fmt: skip
    capsys.readouterr()
    assert main(["show", "trace-1", "--audit", str(audit)]) == 0
    said = capsys.readouterr().out
    assert ANSWER.split(",")[0] in said
    assert PASSAGES[0][1] in said


def test_ids_of_an_imported_log_are_carried_beside_a_log_without_them(settings, tmp_path):
    audit, logs = tmp_path / "audit", tmp_path / "logs"
    logs.mkdir()
    own = write_log(logs / "b.parquet", log_rows(2))
    command = ["import", "openinference", "--data", mixed_spans(tmp_path), "--output", str(logs / "a.parquet")]
    assert main(command) == 0
    models = ["--model", str(settings.model.model), "--parser", settings.parser, "--workers", "1"]
    assert main(["audit", "--input", str(logs / "[ab].parquet"), "--output", str(audit), *models]) == 0
    opened = AuditDirectory.open(audit)
    evidence = read_all(audit / "evidence").to_pylist()
    assert opened.evidence_schema.names[-3:] == ["trace_id", "span_id", "retrievals"]
    assert opened.extra_fields == ()
    for row in evidence:
        ids = row["trace_id"], row["span_id"], row["retrievals"]
        assert (ids == (None, None, None)) == (row["source_file"] == str(own))
        assert ids[0] in (None, row["record_id"])


deltalake = pytest.importorskip("deltalake", reason="the extra 'delta' is not installed")


def test_audit_reads_one_version_and_goes_on_with_it(settings, tmp_path, capfd):
    root = with_deletion_vector(tmp_path / "lake" / "qa", [0, 3])
    audit, output = audit_of(settings, root.parent), tmp_path / "out"
    assert audit.run_here(output, "--workers", "1", "--rows-per-chunk", "3") == 0
    assert f"the Delta table '{root}' is read at version 0: 1 of 1 files" in capfd.readouterr().err
    manifest = read_manifest(output)
    assert manifest.counts.rows == manifest.inputs[0].row_count == 4
    assert manifest.options["tables"] == [{"kind": "delta", "root": str(root), "version": 0, "deletes_rows": True}]
    evidence = read_all(output / "evidence")
    found = dict(zip(evidence["source_row"].to_pylist(), evidence["record_id"].to_pylist(), strict=True))
    assert found == {row: f"ferry-{number}" for row, number in enumerate((1, 2, 4, 5))}
    logs = AuditedLogs.of(AuditDirectory.open(output))
    (answer,) = logs.answers(frozenset({RowSource(manifest.inputs[0].path, 2)}))
    assert answer.record_id == "ferry-4"

    deltalake.write_deltalake(str(root), dated_rows(2, first=6), mode="append")
    capfd.readouterr()
    assert audit.run_here(output, "--workers", "1", "--rows-per-chunk", "3", "--table-version", "0") == 0
    assert "4 of 4 rows were finished by an earlier run" in capfd.readouterr().out
    assert audit.run_here(output, "--table-version", "7") == 2
    assert "cannot be read at version 7" in capfd.readouterr().err


ROWS = 12


@pytest.fixture
def changing_audit(settings, tmp_path):
    return audit_of(settings, write_log(tmp_path / "log.parquet", log_rows(ROWS)))


def replace_log(log):
    """Put a log of other texts in its place, as a nightly job does; the old one stays aside."""
    log.rename(log.with_suffix(".old"))
    write_log(log, log_rows(ROWS, first=500))


def overwrite_log(log):
    shutil.copy(log, log.with_suffix(".old"))
    write_log(log, log_rows(ROWS, first=500))


def after_the_first_commit(change, monkeypatch):
    """Change the log between two chunks, so that a worker opens another file."""
    commit = ChunkStore.commit

    def commit_then_change(self, chunk, attempt):
        manifest = commit(self, chunk, attempt)
        if chunk.rows.row_start == 0:
            change()
        return manifest

    monkeypatch.setattr(ChunkStore, "commit", commit_then_change)


def before_the_second_commit(change, monkeypatch):
    """Change the log when a worker has read it and its chunk is not committed yet."""
    check = local_driver.check_input_unchanged

    def change_then_check(rows):
        if rows.row_start:
            change()
        check(rows)

    monkeypatch.setattr(local_driver, "check_input_unchanged", change_then_check)


@pytest.mark.parametrize(
    ("change", "moment"), [(replace_log, after_the_first_commit), (overwrite_log, before_the_second_commit)]
)
def test_changed_log_ends_the_audit_and_the_old_one_finishes_it(change, moment, changing_audit, tmp_path, capfd):
    output = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        moment(lambda: change(changing_audit.log), patch)
        assert changing_audit.run_here(output, "--workers", "1") == ExitCode.FAILED
    error = capfd.readouterr().err
    assert f"log {str(changing_audit.log)!r} was replaced or written to" in error
    assert json.loads((output / "run_manifest.json").read_text())["status"] == "failed"
    committed = [json.loads(path.read_text())["row_start"] for path in (output / "_chunks").iterdir()]
    assert committed == [0]
    changing_audit.log.with_suffix(".old").replace(changing_audit.log)
    assert changing_audit.run_here(output, "--workers", "1") == ExitCode.DONE
    assert "4 of 12 rows were finished by an earlier run" in capfd.readouterr().out
    assert set(read_all(output / "evidence")["record_id"].to_pylist()) == {f"ferry-{row}" for row in range(ROWS)}

"""The options of attribeam report, and what they write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.report.made_audit import MadeAudit, made_audit, say_version

from attribeam.pipeline.command_line import main
from attribeam.schemas.run_manifest import RunStatus


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeAudit:
    """An audit of four rows."""
    return made_audit(tmp_path_factory.mktemp("report"))


def _report(made: MadeAudit, output: str | Path, *more: str) -> int:
    return main(["report", "--audit", str(made.root), "--output", str(output), *more])


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--format", "csv"), "ferry-1,"),
        (("--format", "csv", "--rows", "dead_letters"), "empty_answer"),
        (("--format", "jsonl"), '"record_id": "ferry-1"'),
        (("--format", "md"), "### 1. ferry"),
        ((), "<!doctype html>"),
    ],
    ids=["csv", "dead letters", "jsonl", "md", "html by default"],
)
def test_every_format_is_written(made: MadeAudit, tmp_path: Path, more: tuple[str, ...], text: str) -> None:
    assert _report(made, tmp_path / "out", *more) == 0
    assert text.lower() in (tmp_path / "out").read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("version", ["1.1", "1.3", ""], ids=["earlier", "later", "none"])
@pytest.mark.parametrize("pattern", ["run_manifest.json", "_chunks/*", "evidence/*", "dead_letters/*"])
def test_a_file_of_another_schema_version_is_refused_by_name_with_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pattern: str, version: str
) -> None:
    made = made_audit(tmp_path / "other")
    path = say_version(made.root, pattern, version)
    rows = "dead_letters" if pattern.startswith("dead") else "evidence"
    assert _report(made, tmp_path / "out", "--format", "jsonl", "--rows", rows) == 2
    error = capsys.readouterr().err
    assert f"{path} is of schema version {version!r}, but only files of version '1.2' can be read; audit" in error
    assert not (tmp_path / "out").exists()


def test_rows_go_to_standard_output_where_it_is_asked_for(
    made: MadeAudit, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert _report(made, "-", "--format", "jsonl", "--rows", "dead_letters") == 0
    (line,) = capfdbinary.readouterr().out.splitlines()
    assert json.loads(line)["reason"] == "empty_answer"


def test_comparison_with_an_audit_of_other_answers_is_refused(
    made: MadeAudit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = made_audit(tmp_path / "other", record_ids=["train-1"])
    assert _report(made, tmp_path / "out.html", "--previous", str(other.root)) == 2
    assert "has none of the record ids of" in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()


def test_comparison_with_an_audit_of_other_logs_says_so(
    made: MadeAudit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = made_audit(tmp_path / "other", record_ids=["ferry-0", "train-1"])
    assert _report(made, tmp_path / "out.html", "--previous", str(other.root)) == 0
    remark = f"The earlier audit read other logs, none of which this one read (the first is {other.log})"
    assert remark in capsys.readouterr().err
    assert remark in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_the_page_takes_the_title_that_is_given(made: MadeAudit, tmp_path: Path) -> None:
    assert _report(made, tmp_path / "out.html", "--title", "Night\udcff <1>") == 0
    assert "<title>Night\ufffd &lt;1&gt; · attribeam</title>" in (tmp_path / "out.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--format", "csv", "--answers", "5"), "--answers"),
        (("--format", "csv", "--title", "x"), "--title"),
        (("--format", "md", "--rows", "dead_letters"), "--rows"),
        (("--format", "jsonl", "--previous", "x"), "--previous"),
    ],
)
def test_options_that_a_format_does_not_know_are_bad_usage(
    made: MadeAudit, tmp_path: Path, more: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _report(made, tmp_path / "out", *more) == 2
    assert complaint in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["", "nowhere/rows.csv"])
def test_an_output_that_cannot_be_a_file_is_bad_usage(
    made: MadeAudit, tmp_path: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _report(made, tmp_path / output, "--format", "csv") == 2
    assert "existing directory" in capsys.readouterr().err


def test_rows_and_page_of_an_audit_that_is_not_complete_come_with_a_word_about_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = made_audit(tmp_path, status=RunStatus.INTERRUPTED)
    assert _report(made, tmp_path / "out", "--format", "csv") == 0
    assert "status is interrupted" in capsys.readouterr().err
    assert _report(made, tmp_path / "page.html") == 0
    assert "status is interrupted" in capsys.readouterr().err

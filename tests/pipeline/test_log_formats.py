"""Logs of other formats: an audit of them gives the same evidence, and its report shows the same texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.attribution.tiny_models import save_tiny_model
from tests.logs.log_files import write_jsonl
from tests.logs.test_reader import arrow_copy, install_example
from tests.pipeline.audit_process import AuditProcess, read_all
from tests.pipeline.small_log import log_rows, write_log
from tests.transforms.tiny_parser import save_tiny_parser

from attribeam.pipeline.command_line import main
from attribeam.schemas.errors import ExitCode


def as_jsonl(log: Path) -> Path:
    return Path(write_jsonl(log.with_suffix(".jsonl"), pq.read_table(log).to_pylist()))


def as_arrow(log: Path) -> Path:
    return Path(arrow_copy(str(log)))


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> AuditProcess:
    root = tmp_path_factory.mktemp("audit")
    rows = log_rows(6)
    rows[2]["answer"] = " "
    log = write_log(root / "log.parquet", rows)
    return AuditProcess(save_tiny_model(root / "model"), save_tiny_parser(root / "parser"), log)


@pytest.fixture(scope="module")
def of_parquet(audit: AuditProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("parquet") / "out"
    assert audit.run_here(output, "--workers", "1") == ExitCode.DONE
    return output


def without_path(table: pa.Table) -> pa.Table:
    return table.drop_columns("source_file").replace_schema_metadata()


@pytest.mark.parametrize(("name", "convert"), [("jsonl", as_jsonl), ("arrow", as_arrow)])
def test_log_of_another_format_is_audited_and_shown_alike(
    name: str,
    convert: Callable[[Path], Path],
    audit: AuditProcess,
    of_parquet: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    install_example(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    other = AuditProcess(audit.model, audit.parser, convert(audit.log))
    output = tmp_path / "out"
    assert other.run_here(output, "--log-format", name, "--workers", "1") == ExitCode.DONE, capfd.readouterr().err
    for folder in ("evidence", "dead_letters"):
        assert without_path(read_all(output / folder)) == without_path(read_all(of_parquet / folder))
    capfd.readouterr()
    assert main(["show", "ferry-1", "--audit", str(output)]) == ExitCode.DONE
    assert "The west pier is closed in winter." in capfd.readouterr().out


def test_log_of_another_format_without_its_name_is_exit_code_2(
    audit: AuditProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = AuditProcess(audit.model, audit.parser, as_jsonl(audit.log))
    assert other.run_here(tmp_path / "out", "--workers", "1") == ExitCode.BAD_USAGE
    assert (
        "should be a Parquet file, does not begin like one; name its format with --log-format" in capfd.readouterr().err
    )
    assert not (tmp_path / "out").exists()

"""Beam's file systems behind the same interface, and what is said where one is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from tests.logs.log_files import log_row, write_log

from attribeam.logs.qa_log import QALog
from attribeam.pipeline.command_line import main
from attribeam.schemas.errors import ExitCode, UsageError
from attribeam.transforms import beam_storage
from attribeam.transforms.beam_storage import BeamStorage, check_extra


def test_log_is_read_as_from_a_local_disk(tmp_path: Path) -> None:
    local = QALog(write_log(tmp_path / "d1" / "log.parquet", [log_row(0), log_row(1)]))
    log = QALog(local.path, storage=BeamStorage())
    assert (log.check(), log.fingerprint()) == (local.check(), local.fingerprint())
    assert list(log.stamped().outcomes()) == list(local.outcomes())


def test_linked_partitions_are_found(tmp_path: Path) -> None:
    write_log(tmp_path / "real" / "log.parquet", [log_row(0)])
    (tmp_path / "hv").mkdir()
    (tmp_path / "hv" / "d1").symlink_to("../real")
    assert BeamStorage().find(f"{tmp_path}/hv/*/*.parquet", suffix=".parquet") == [f"{tmp_path}/hv/d1/log.parquet"]


def test_changed_file_has_another_stamp(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.parquet", [log_row(0)])
    before = BeamStorage().stamp(path)
    write_log(tmp_path / "log.parquet", [log_row(0), log_row(1)])
    assert before is not None
    assert BeamStorage().stamp(path) != before
    assert BeamStorage().stamp(str(tmp_path / "none.parquet")) is None


@pytest.mark.parametrize(("path", "extra"), [("s3://logs/*.parquet", "s3"), ("gs://logs/a.parquet", "gcs")])
def test_bucket_without_its_client_names_the_extra(path: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam_storage, "_is_installed", lambda _: False)
    with pytest.raises(UsageError, match=rf"pip install 'attribeam\[{extra}\]'"):
        check_extra(path)
    check_extra("hdfs://logs/a.parquet")
    check_extra("a.parquet")


def test_audit_on_a_runner_says_which_extra_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(beam_storage, "_is_installed", lambda _: False)
    given = ("--input", "s3://logs/*.parquet", "--output", str(tmp_path / "out"), "--runner", "DirectRunner")
    assert main(["audit", *given]) == ExitCode.BAD_USAGE
    assert "pip install 'attribeam[s3]'" in capsys.readouterr().err


def test_beams_file_systems_know_the_runners_options_before_anything_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[PipelineOptions] = []
    monkeypatch.setattr(FileSystems, "set_options", given.append)
    options = ("--runner", "DirectRunner", "--hdfs_host=namenode")
    assert main(["audit", "--input", f"{tmp_path}/none", "--output", str(tmp_path / "out"), *options]) == 2
    assert given[0].get_all_options()["hdfs_host"] == "namenode"

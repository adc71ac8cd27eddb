"""What a Beam runner gets: a table of the configuration file as arguments, and what is said of mistakes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from tests.pipeline.small_log import log_rows, write_log

from attribeam.pipeline.command_line import main
from attribeam.pipeline.options.audit_options import RunOptions
from attribeam.pipeline.options.runner_options import beam_options

TABLE = """
flink_master = "localhost:8081"
flink_version = "1.19"
parallelism = 2
flink_submit_uber_jar = false
object_reuse = true
environment_config = { command = "/opt/boot", env = { OMP_NUM_THREADS = "1" } }
experiments = ["use_x", "use_y"]
"""


def test_options_of_every_shape_reach_beam() -> None:
    arguments = RunOptions(beam_arguments=tomllib.loads(TABLE)).beam_arguments
    assert "--object_reuse" in arguments  # which only the job server knows
    options = PipelineOptions([*arguments, "--parallelism=8"]).get_all_options()
    assert (options["flink_master"], options["flink_version"], options["parallelism"]) == ("localhost:8081", "1.19", 8)
    assert options["flink_submit_uber_jar"] is False
    assert options["environment_config"] == '{"command": "/opt/boot", "env": {"OMP_NUM_THREADS": "1"}}'
    assert options["experiments"] == ["use_x", "use_y"]


def test_an_option_that_beam_does_not_know_is_named_with_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    beam_options(RunOptions(runner="DirectRunner", beam_arguments=("--direct_runing_mode=in_memory", "--zzqq", "x")))
    typo, far = capsys.readouterr().err.splitlines()
    assert "Beam's Python half has no option --direct_runing_mode; did you mean --direct_running_mode" in typo
    assert far.endswith("has no option --zzqq")


@pytest.mark.parametrize(
    ("runner", "table", "said"),
    [
        ("FlinkRunner", "parallelism = 'two'", "--parallelism: invalid int value: 'two'"),
        ("FlinkRunner", "flink_version = '1.18'", "--flink_version: invalid choice: '1.18'"),
        ("GullRunner", "", "--runner 'GullRunner' is none of Beam's"),
        ("local", "parallelism = 2", "unknown arguments: --parallelism=2"),
    ],
)
def test_what_beam_cannot_take_ends_with_exit_code_2_and_writes_nothing(
    runner: str, table: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.parquet", log_rows(2))
    (tmp_path / "audit.toml").write_text(f"runner = '{runner}'\n[beam_arguments]\n{table}\n")
    audit = ["audit", "--input", str(log), "--output", str(tmp_path / "out"), "--config", str(tmp_path / "audit.toml")]
    assert main(audit) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

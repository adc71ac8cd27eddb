"""The YAML of a runner's options: what Beam gets, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions
from tests.pipeline.small_log import log_rows, write_log

from attribeam.pipeline.command_line import main
from attribeam.pipeline.options.runner_options import read_runner_options
from attribeam.schemas.errors import UsageError


def options_file(folder: Path, text: str) -> str:
    file = folder / "flink.yaml"
    file.write_text(text)
    return str(file)


def complaints(folder: Path, text: str) -> list[str]:
    with pytest.raises(UsageError) as refused:
        read_runner_options(options_file(folder, text))
    return str(refused.value).replace(f"{folder}/", "").splitlines()


def test_options_of_every_shape_reach_beam(tmp_path: Path) -> None:
    text = """
        flink_master: "localhost:8081"
        flink-version: "1.19"
        parallelism: 2
        flink_submit_uber_jar: false
        environment_type: PROCESS
        environment_config: {command: /opt/boot, env: {OMP_NUM_THREADS: "1"}}
        experiments: [use_x, use_y]
    """
    options = PipelineOptions(read_runner_options(options_file(tmp_path, text))).get_all_options()
    assert (options["flink_master"], options["flink_version"], options["parallelism"]) == ("localhost:8081", "1.19", 2)
    assert options["flink_submit_uber_jar"] is False
    assert options["environment_config"] == '{"command": "/opt/boot", "env": {"OMP_NUM_THREADS": "1"}}'
    assert options["experiments"] == ["use_x", "use_y"]


def test_options_that_only_the_job_server_knows_are_passed_on(tmp_path: Path) -> None:
    text = "object_reuse: true\nfaster_copy: false\nexecution_mode_for_batch: BATCH_FORCED\n"
    expected = ["--object_reuse", "--execution_mode_for_batch=BATCH_FORCED"]
    assert read_runner_options(options_file(tmp_path, text)) == expected


def test_the_command_line_beats_the_file(tmp_path: Path) -> None:
    from_file = read_runner_options(options_file(tmp_path, "parallelism: 2\nenvironment_type: PROCESS\n"))
    options = PipelineOptions([*from_file, "--parallelism=8"])
    assert options.view_as(FlinkRunnerOptions).parallelism == 8
    assert options.view_as(PortableOptions).environment_type == "PROCESS"


def test_an_empty_file_gives_no_options(tmp_path: Path) -> None:
    assert read_runner_options(options_file(tmp_path, "# nothing yet\n")) == []


def test_every_mistake_is_named_with_file_key_and_way_out(tmp_path: Path) -> None:
    text = """
        paralelism: 2
        parallelism: two
        flink_version: "1.18"
        flink_submit_uber_jar: 1
        flink_master: [one, two]
        job_port:
        runner: FlinkRunner
    """
    names, number, version, switch, listed, empty, runner = complaints(tmp_path, text)
    assert names.startswith("flink.yaml: paralelism: Beam has no such option; did you mean parallelism or ")
    assert number == "flink.yaml: parallelism: should be a whole number, was: 'two'"
    assert version.startswith("flink.yaml: flink_version: should be one of 1.19, ")
    assert switch == "flink.yaml: flink_submit_uber_jar: should be true or false, was: 1"
    assert listed == "flink.yaml: flink_master: it takes one value, was: ['one', 'two']"
    assert empty == "flink.yaml: job_port: it has no value; give it one, or leave the line out"
    assert runner == "flink.yaml: runner: it is given as --runner on the command line, not here"


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (complaint,) = complaints(tmp_path, "parallelism: 2\nparallelism: 4\n")
    assert complaint == "flink.yaml: parallelism: it is there twice, keep one of them"


@pytest.mark.parametrize(("text", "said"), [("- a\n- b\n", "was: list"), ("a: [", "can be read: while parsing")])
def test_a_file_that_is_no_mapping_or_no_yaml_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in " ".join(complaints(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"runner-options '.*none.yaml' should be a YAML file.*No such file"):
        read_runner_options(str(tmp_path / "none.yaml"))


def test_the_command_ends_with_exit_code_2_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_log(tmp_path / "log.parquet", log_rows(2))
    options = options_file(tmp_path, "paralelism: 2\n")
    audit = ["audit", "--input", str(log), "--output", str(tmp_path / "out"), "--runner-options", options]
    assert main(audit) == 2
    assert "says nothing to a local run; name a --runner" in capsys.readouterr().err
    assert main([*audit, "--runner", "FlinkRunner"]) == 2
    assert "flink.yaml: paralelism: Beam has no such option" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

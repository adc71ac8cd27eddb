"""``--config``: every option of an audit from a file, and what a Beam runner gets."""

import argparse
import json
import tomllib

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from tests.pipeline.audit_process import log_rows, write_log

from attribeam.pipeline.audit_options import RunOptions, add_audit_arguments, read_run_options, read_settings
from attribeam.pipeline.command_line import main
from attribeam.pipeline.config_file import OPTIONS, expand_variables, read_config, read_options
from attribeam.pipeline.distributed_driver import beam_options
from attribeam.schemas import SpanKind
from attribeam.schemas.errors import UsageError

OPEN = ("--input", "x", "--output", "o")


def _written(folder, text):
    path = folder / "audit.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def _read(*argv):
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    add_audit_arguments(parser)
    arguments, unknown = parser.parse_known_args(argv)
    arguments.beam_arguments = unknown or None
    return read_options(arguments)


def _parsed(folder, text, *argv):
    return _read("--config", _written(folder, text), *argv)


def _mistakes(folder, text, **environment):
    path = _written(folder, text)
    with pytest.raises(UsageError) as refused:
        read_config(path, environment)
    return str(refused.value).replace(path, "FILE").splitlines()


def test_a_file_says_what_a_command_line_says(tmp_path):
    text = """
        input = ["logs/a.parquet", "logs/b.parquet"]
        output = "audits/today"
        spans = ["words", "given"]
        extra_columns = "team,tier"
        rows-per-chunk = 250
        prior = 0.25
        verdict_band = "0.1,0.6"
        report = false
        overwrite = false
        fail_if = ["unsupported_share > 0.05", "dead_letters > 3"]
        [columns]
        record_id = "trace_id"
        answer = "response"
    """
    argv = (
        "--input logs/a.parquet logs/b.parquet --output audits/today --spans words,given --extra-columns team,tier "
        "--rows-per-chunk 250 --prior 0.25 --verdict-band 0.1,0.6 --no-report "
        "--columns record_id=trace_id,answer=response"
    )
    gates = ["--fail-if", "unsupported_share > 0.05", "--fail-if", "dead_letters > 3"]
    from_file, from_line = _parsed(tmp_path, text), _read(*argv.split(), *gates)
    assert from_file == from_line
    assert from_file.spans == (SpanKind.WORDS, SpanKind.GIVEN)


def test_the_command_line_beats_the_file_lists_and_switches_too(tmp_path):
    text = 'input = ["a.parquet"]\noutput = "a"\nworkers = 4\noverwrite = true\nreport = false\nfail_if = ["rows < 1"]'
    argv = ["--input", "b.parquet", "--workers", "2", "--no-overwrite", "--report", "--fail-if", "rows < 2"]
    options = read_run_options(_parsed(tmp_path, text, *argv))
    assert (options.input, options.workers, options.overwrite, options.report) == (("b.parquet",), 2, False, True)
    assert (options.fail_if, options.output) == (("rows < 2",), "a")


def test_what_the_beam_runner_gets_can_stand_in_the_file(tmp_path):
    text = 'input = "x"\noutput = "s3://a/b"\nrunner = "FlinkRunner"\nbeam_arguments = ["--parallelism=4"]'
    assert read_run_options(_parsed(tmp_path, text)).beam_arguments == ("--parallelism=4",)
    both = ("--parallelism=4", "--parallelism=8")  # of which Beam takes the last
    assert read_run_options(_parsed(tmp_path, text, "--parallelism=8")).beam_arguments == both
    with pytest.raises(UsageError, match="unknown arguments: --parallelism=4"):
        read_run_options(_parsed(tmp_path, text, "--runner", "local", "--output", "o"))


def test_without_a_file_there_must_be_an_input(tmp_path, capsys):
    assert main(["audit", "--output", str(tmp_path / "out")]) == 2
    assert "--input is needed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("workrs = 3", "FILE, line 1: workrs: there is no such option; did you mean workers or model_workers?"),
        ("topk = 3", "FILE, line 1: topk: there is no such option; top_k stands in the file of --attribution-config"),
        ("\n\nzz = 3", "FILE, line 3: zz: there is no such option; attribeam config print lists all options"),
        ("workers = 'four'", "FILE, line 1: workers: should be a whole number from 1, was: 'four'"),
        ("workers = [2]", "FILE, line 1: workers: should be a whole number from 1, was: '[2]'"),
        ("prior = 2.5", "FILE, line 1: prior: should be a number from 0 to 1, was: '2.5'"),
        ("quiet = 'yes'", "FILE, line 1: quiet: should be true or false, was: 'yes'"),
        ("model = 3", "FILE, line 1: model: should be a text, was: 3"),
        ("input = ['a', 5]", 'FILE, line 1: input: should be a list of texts, or one text, was: ["a", 5]'),
        ("extra_columns = ['a,b']", 'FILE, line 1: extra_columns: its parts should have no comma, was: ["a,b"]'),
        ("console = 'xml'", "FILE, line 1: console: should be one of 'text', 'json', was: 'xml'"),
        ("config = 'x'", "FILE, line 1: config: a file cannot name another one; leave it out"),
        ("columns = { record_id = 1 }",
            'FILE, line 1: columns: should be a table of texts, or one text with commas, was: { "record_id" = 1 }'),
        ("output = '${DAY}/x'",
            "FILE, line 1: output: the environment variable DAY is not set; set it, or write ${DAY:-default}"),
        ("output = '${1}'",
            "FILE, line 1: output: after ${ there should be NAME} or NAME:-default}; write $${ for ${ itself"),
    ],
)  # fmt: skip
def test_a_mistake_names_file_line_key_and_what_is_wanted(tmp_path, text, mistake):
    assert _mistakes(tmp_path, text) == [mistake]


def test_all_mistakes_are_told_at_once(tmp_path):
    lines = _mistakes(tmp_path, "workrs = 3\nfail_if = ['unsuported_share > 0.1']\n[run]\nworkers = 2\n")
    assert [line.partition(": ")[0] for line in lines] == ["FILE, line 1", "FILE, line 2", "FILE, line 3"]
    assert "fail_if: unknown metric 'unsuported_share'; did you mean unsupported_share" in lines[1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"), (b"workers = \n", "line 1"), (b"\xff\xfe", "can't decode"),
        (b"workers = 1\nworkers = 2", "Cannot overwrite"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_bad_usage(tmp_path, content, said, capsys):
    path = tmp_path / "audit.toml"
    if content is not None:
        path.write_bytes(content)
    assert main(["audit", "--config", str(path)]) == 2
    error = capsys.readouterr().err
    assert (said in error, str(path) in error) == (True, True)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${DAY}", "2026-11-22"), ("a/${DAY}/${TEAM:-all}", "a/2026-11-22/all"), ("${EMPTY:-x}${EMPTY}", "x"),
        ("${TEAM:-}", ""), ("$${DAY} $DAY $ {", "${DAY} $DAY $ {"), ("${TEAM:-http://a/b?c=$1}", "http://a/b?c=$1"),
    ],
)  # fmt: skip
def test_variables_are_replaced_as_in_a_shell(text, expanded):
    assert expand_variables(text, {"DAY": "2026-11-22", "EMPTY": ""}) == expanded


def test_variables_stand_in_lists_tables_numbers_and_switches(tmp_path):
    text = """
        input = ["${DAY}/*.parquet"]
        workers = "${WORKERS:-3}"
        overwrite = "${OVERWRITE:-true}"
        columns = { answer = "${ANSWER}" }
    """
    path = _written(tmp_path, text)
    entries = read_config(path, {"DAY": "d", "ANSWER": "reply"}).entries
    wanted = {"input": ("d/*.parquet",), "workers": 3, "overwrite": True, "columns": (("answer", "reply"),)}
    assert {name: entry.value for name, entry in entries.items()} == wanted


@pytest.mark.parametrize("where", ["file", "line"])
def test_mistakes_in_a_file_are_events_where_machines_listen(where, tmp_path, capsys):
    path = _written(tmp_path, "workrs = 1\n" + "console = 'json'\n" * (where == "file"))
    assert main(["audit", "--config", path, *["--console=json"] * (where == "line")]) == 2
    event = json.loads(capsys.readouterr().err)
    assert (event["event"], event["exit_code"]) == ("error", 2)
    assert "did you mean workers" in event["message"]


def _print(capsys, *argv):
    assert main(["config", "print", *argv]) == 0
    return capsys.readouterr().out


def test_the_printed_defaults_name_every_option_and_can_be_read_back(tmp_path, capsys):
    text = _print(capsys)
    named = {line.removeprefix("# ").partition(" = ")[0] for line in text.splitlines() if " = " in line}
    assert named == set(OPTIONS)
    back, plain = _parsed(tmp_path, text, *OPEN), _read(*OPEN)
    assert read_settings(back) == read_settings(plain)
    assert read_run_options(back) == read_run_options(plain)


def test_what_is_printed_says_where_each_value_comes_from_and_reads_back_the_same(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("AUDIT_DAY", "2026-11-22")
    given = 'input = "l"\noutput = "audits/${AUDIT_DAY}"\nparser = "$${x} \\"\\u0007"\nprior = 0.1\n'
    path = _written(tmp_path, f'{given}columns = {{ "record_id" = "a.b" }}\n')
    text = _print(capsys, path)
    lines = {line.partition(" = ")[0]: line for line in text.splitlines() if " = " in line}
    assert lines["output"].endswith(f"# {path}, line 2, with variables of the environment")
    assert lines["input"].endswith(f"# {path}, line 1")
    assert lines["rows_per_chunk"].endswith("# default")
    assert lines["# workers"].endswith("# default: the number of CPUs; 1 where --device auto finds a GPU")
    monkeypatch.delenv("AUDIT_DAY")
    original = {"output": "audits/2026-11-22", "parser": '${x} "\x07', "columns": (("record_id", "a.b"),)}
    back = _parsed(tmp_path, text)
    assert {name: getattr(back, name) for name in original} == original
    assert back.prior == 0.1


def test_check_says_what_is_left_open_and_that_the_options_go_together(tmp_path, capsys):
    path = _written(tmp_path, "workers = 2\ninput = 'x'")
    assert main(["config", "check", path]) == 0
    told = ("2 options can be used together", "output is left to the command line")
    assert capsys.readouterr().out.splitlines() == [f"{path}: {one}" for one in told]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("verdict = 'mass'\nprior = 0.4", "--prior"), ("beam_arguments = ['--parallelism=4']", "unknown arguments"),
        ("columns = 'gull=x'", "--columns"), ("method = 'gull'", "gull"),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other_are_told_with_the_file(tmp_path, text, said, capsys):
    path = _written(tmp_path, text)
    assert main(["config", "check", path]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"attribeam config: {path}")
    assert said in error


@pytest.mark.parametrize(
    "text",
    [
        f"workers = {'[' * 10_000}{']' * 10_000}",
        f"workers = {'{a=' * 10_000}1{'}' * 10_000}",
        f"[columns.{'a.' * 10_000}a]\nb = 1",
    ],
    ids=["lists", "tables", "dotted"],
)
def test_values_that_are_nested_deeply_are_told(tmp_path, text, capsys):
    path = _written(tmp_path, text)
    for argv in (["config", "check", path], ["config", "print", path], ["audit", "--config", path]):
        assert main(argv) == 2
        assert "its values are nested too deeply" in capsys.readouterr().err


def test_what_is_printed_reads_back_whatever_its_characters(tmp_path, capsys):
    text = 'a\x1b\n\x7f\x85\u2028\u202e\u2066\u00a0 é"\\'
    path = _written(tmp_path, f"output = {json.dumps(text)}".replace("\x7f", "\\u007f"))
    assert _parsed(tmp_path, _print(capsys, path)).output == text


TABLE = """
flink_master = "localhost:8081"
flink_version = "1.19"
parallelism = 2
flink_submit_uber_jar = false
object_reuse = true
environment_config = { command = "/opt/boot", env = { OMP_NUM_THREADS = "1" } }
experiments = ["use_x", "use_y"]
"""


def test_options_of_every_shape_reach_beam():
    arguments = RunOptions(beam_arguments=tomllib.loads(TABLE)).beam_arguments
    assert "--object_reuse" in arguments  # which only the job server knows
    options = PipelineOptions([*arguments, "--parallelism=8"]).get_all_options()
    assert (options["flink_master"], options["flink_version"], options["parallelism"]) == ("localhost:8081", "1.19", 8)
    assert options["flink_submit_uber_jar"] is False
    assert options["environment_config"] == '{"command": "/opt/boot", "env": {"OMP_NUM_THREADS": "1"}}'
    assert options["experiments"] == ["use_x", "use_y"]


def test_an_option_that_beam_does_not_know_is_named_with_near_ones(capsys):
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
def test_what_beam_cannot_take_ends_with_exit_code_2_and_writes_nothing(runner, table, said, tmp_path, capsys):
    log = write_log(tmp_path / "log.parquet", log_rows(2))
    (tmp_path / "audit.toml").write_text(f"runner = '{runner}'\n[beam_arguments]\n{table}\n")
    audit = ["audit", "--input", str(log), "--output", str(tmp_path / "out"), "--config", str(tmp_path / "audit.toml")]
    assert main(audit) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

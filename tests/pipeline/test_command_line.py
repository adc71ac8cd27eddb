"""Options, exit codes, what is printed about them, and how a model is loaded."""

import argparse
import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.pipeline.audit_process import log_rows, write_log
from tests.report.made_audit import made_audit

from attribeam.attribution.options import ATTN_UNION, ModelOptions, Quantization, QueryPosition
from attribeam.pipeline import audit_command, command_line, local_driver
from attribeam.pipeline.audit_options import add_audit_arguments, read_run_options, read_settings
from attribeam.pipeline.command_line import COMMANDS, main
from attribeam.pipeline.config_file import read_options
from attribeam.schemas import SpanKind
from attribeam.schemas.errors import ExitCode, UsageError
from attribeam.transforms.audit_settings import AuditSettings, configuration_hash, with_pinned_model

CONFIG_PRINT = [sys.executable, "-m", "attribeam", "config", "print"]


def _code(argv):
    try:
        return main(argv)
    except SystemExit as ended:
        return ended.code


def _options(*argv):
    parser = argparse.ArgumentParser(add_help=False)
    add_audit_arguments(parser)
    known, unknown = parser.parse_known_args(["--input", "x.parquet", *argv])
    known.beam_arguments = unknown or None
    return read_options(known)


def test_options_reach_their_settings():
    text = "--output o --spans words,given --columns record_id=trace_id --extra-columns team,tier --prior 0.2"
    more = "--method attn-union --device cpu --threads 2 --max-tokens 900"
    settings = read_settings(_options(*text.split(), *more.split()))
    assert settings.span_kinds == (SpanKind.WORDS, SpanKind.GIVEN)
    assert settings.columns == (("record_id", "trace_id"),)
    assert settings.extra_columns == ("team", "tier")
    assert (settings.method.method, settings.method.prior) == (ATTN_UNION, 0.2)
    assert (settings.model.device, settings.model.max_tokens, settings.threads) == ("cpu", 900, 2)


def test_help_fits_two_screens_and_help_all_names_few_options(capsys):
    shown = {}
    for flag in ("--help", "--help-all"):
        assert _code(["audit", flag]) == 0
        shown[flag] = capsys.readouterr().out.splitlines()
    named = {flag: [line for line in lines if line.startswith("  --")] for flag, lines in shown.items()}
    flags = {flag: {line.split()[0].strip(",") for line in lines} for flag, lines in named.items()}
    assert len(shown["--help"]) <= 80
    assert len(flags["--help-all"] - {"--help-all", "--config"}) <= 41
    assert flags["--help"] < flags["--help-all"]


@pytest.mark.parametrize(
    "argv",
    [
        "--max-tokens 0", "--verdict-band 0.6,0.1", "--spans clauses", "--prior 2", "--rows-per-chunk x",
        "--fail-if rows!=3",
    ],
)  # fmt: skip
def test_an_option_out_of_its_range_ends_with_exit_code_2(argv, capsys):
    assert _code(["audit", "--input", "x.parquet", "--output", "o", *argv.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"attribeam audit: argument {argv.split()[0]}: ")
    assert error.endswith("; see attribeam audit --help\n")
    assert error.count("\n") == 1


def test_options_of_two_verdicts_are_refused():
    with pytest.raises(UsageError, match="--strictness and --prior are for a fitted verdict"):
        read_settings(_options("--output", "o", "--verdict", "mass", "--prior", "0.1"))


def test_unknown_options_are_refused_without_a_runner_and_passed_on_with_one():
    with pytest.raises(UsageError, match="--job_endpoint"):
        read_run_options(_options("--output", "o", "--job_endpoint=embed"))
    of_model = "top_k stands in the file of --attribution-config"
    for slip, hint in (("--colums", "did you mean --columns"), ("--topk=3", of_model), ("--top-k=3", of_model)):
        with pytest.raises(UsageError, match=f"unknown arguments: {slip}; {hint}"):
            read_run_options(_options("--output", "o", slip))
    options = read_run_options(_options("--output", "o", "--runner", "PortableRunner", "--job_endpoint=embed"))
    assert options.beam_arguments == ("--job_endpoint=embed",)


def test_workers_of_a_runner_get_absolute_paths():
    arguments = ("--input", "logs/*.parquet", "s3://logs/*.parquet", "--output", "out", "--runner", "FlinkRunner")
    options = read_run_options(_options(*arguments))
    assert options.input[-2:] == (str(Path.cwd() / "logs" / "*.parquet"), "s3://logs/*.parquet")
    assert options.output == str(Path.cwd() / "out")


def test_a_missing_input_ends_with_exit_code_2_and_one_paragraph(tmp_path, capsys):
    assert main(["audit", "--input", f"{tmp_path}/*.parquet", "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("attribeam audit: --input should name existing files, nothing matches")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_path_whose_bytes_are_no_text_is_bad_usage(tmp_path, capsys):
    name = os.fsdecode(b"caf\xe9.parquet")
    with pytest.raises(UsageError, match=r"--output names .*no text in this system's utf-8; rename it"):
        read_run_options(_options("--output", name))
    write_log(tmp_path / "logs" / "cafe.parquet", log_rows(1)).rename(tmp_path / "logs" / name)
    assert main(["audit", "--input", str(tmp_path / "logs"), "--output", str(tmp_path / "out")]) == 2
    assert "/logs/caf\\udce9.parquet', which is no text in this system's utf-8" in capsys.readouterr().err


def test_output_is_needed_unless_it_is_a_dry_run_and_a_local_run_does_not_take_a_bucket_for_a_directory():
    with pytest.raises(UsageError, match="local directory"):
        read_run_options(_options("--output", "s3://audits/x"))
    assert read_run_options(_options("--output", "s3://audits/x", "--runner", "DataflowRunner")).output
    with pytest.raises(UsageError, match="--output"):
        read_run_options(_options())
    assert read_run_options(_options("--dry-run")).dry_run


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_explains_itself(command, capsys):
    assert _code([command, "--help"]) == 0
    assert f"attribeam {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["audlt"], "there is no command 'audlt'; did you mean audit? there are: demo, audit, "),
        (["bogus", "--help"], "there is no command 'bogus'; there are: demo, audit, "),
        (["--output", "x"], "the first argument should be a command, was: '--output'; there are: demo, audit, "),
        ([], "the first argument should be a command, there is none; there are: demo, audit, "),
    ],
)
def test_an_unknown_command_ends_with_exit_code_2_and_the_commands_that_there_are(given, said, capsys):
    assert main(given) == ExitCode.BAD_USAGE == command_line.BAD_USAGE
    error = capsys.readouterr().err
    assert error.startswith(f"attribeam: {said}")
    assert error.endswith("models; see attribeam --help\n")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(), ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        ImportError("libarrow.so: cannot open shared object file: Cannot allocate memory"),
        ImportError("No module named 'torch'"),
    ],
)  # fmt: skip
def test_lack_of_memory_is_told_in_one_line_and_a_library_that_is_missing_is_none(error, monkeypatch, capsys):
    monkeypatch.setattr(command_line, "import_module", Mock(side_effect=error))
    assert main(["models", "check"]) == ExitCode.FAILED == command_line.FAILED
    said = capsys.readouterr().err
    if "No module" in str(error):
        assert "No module named 'torch'" in said
    else:
        assert said.startswith("attribeam models: memory ran out; raise the limit (ulimit -v")
        assert said.count("\n") == 1


def test_working_directory_that_is_gone_is_bad_usage(tmp_path, monkeypatch, capsys):
    log = write_log(tmp_path / "log.parquet", log_rows(1))
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["audit", "--input", str(log), "--output", str(tmp_path / "out")]) == ExitCode.BAD_USAGE
    said = capsys.readouterr().err
    assert said.startswith("attribeam audit: the working directory is no longer there; change into another one")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "argv", [["config", "print"], ["audit", "--help"], ["show", "ferry-1"], ["history"], ["report"]], ids=" ".join
)
def test_a_reader_that_stops_early_is_no_error(argv, tmp_path, capsys):
    root = made_audit(tmp_path).root
    audit = ["--audit", str(root)]
    given = {"show": audit, "history": [str(root.parent)], "report": [*audit, "--format", "csv", "--output", "-"]}
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed, redirect_stdout(closed):
        assert _code([*argv, *given.get(argv[0], [])]) == ExitCode.DONE
    assert capsys.readouterr().err == ""


def test_full_disk_behind_standard_output_is_no_traceback():
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        found = subprocess.run(CONFIG_PRINT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert found.returncode == ExitCode.FAILED
    assert found.stderr == "attribeam config: standard output cannot be written to: No space left on device\n"


def test_characters_that_standard_output_lacks_are_escaped(tmp_path):
    (tmp_path / "é.toml").write_text('output = "audits/é"\n', encoding="utf-8")
    environment, command = {**os.environ, "PYTHONIOENCODING": "ascii"}, [*CONFIG_PRINT, str(tmp_path / "é.toml")]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert 'output = "audits/\\xe9"' in found.stdout


def test_closed_standard_output_swallows_what_is_printed():
    streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    found = subprocess.run(CONFIG_PRINT, preexec_fn=partial(os.close, 1), **streams, check=False)
    assert (found.returncode, found.stderr) == (0, b"")


def test_ctrl_c_while_a_command_is_imported_is_no_traceback(monkeypatch, capfd):
    monkeypatch.setattr(command_line, "import_module", Mock(side_effect=KeyboardInterrupt))
    assert main(["show", "qa-009", "--audit", "x"]) == command_line.INTERRUPTED == ExitCode.INTERRUPTED
    assert capfd.readouterr().err == "attribeam show: interrupted\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_before_the_first_file_is_read_ends_an_audit_like_ctrl_c(number, monkeypatch, tmp_path, capfd):
    before = signal.signal(number, lambda *_: pytest.fail("the audit did not handle it"))
    monkeypatch.setattr(local_driver, "check_input", lambda *_, **__: signal.raise_signal(number))
    try:
        assert main(["audit", "--input", "x.parquet", "--output", str(tmp_path / "out")]) == ExitCode.INTERRUPTED
    finally:
        signal.signal(number, before)
    assert capfd.readouterr().err.startswith("attribeam audit: interrupted.")


TWICE_TERMINATED = """
import atexit, signal, sys
from attribeam.pipeline.audit_command import interrupted_once
atexit.register(signal.raise_signal, signal.SIGTERM)
try:
    with interrupted_once():
        signal.raise_signal(signal.SIGTERM)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_second_signal_while_an_interrupted_process_ends_keeps_its_exit_code():
    found = subprocess.run([sys.executable, "-c", TWICE_TERMINATED], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (ExitCode.INTERRUPTED, "")


def test_demo_that_is_interrupted_opens_no_page(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(audit_command, "run", lambda _: ExitCode.INTERRUPTED)
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("there is no page"))
    assert main(["demo", "--output", str(tmp_path)]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().out == ""


def test_another_broken_pipe_is_no_closed_output(monkeypatch, tmp_path, capfd):
    broken = BrokenPipeError("the pipe to a worker")
    monkeypatch.setattr("attribeam.report.show_command.run", Mock(side_effect=broken))
    assert main(["show", "qa-009", "--audit", str(tmp_path)]) == ExitCode.FAILED
    said = capfd.readouterr().err
    assert "BrokenPipeError: the pipe to a worker" in said
    assert said.endswith("attribeam show: this is a fault of attribeam; please report the lines above\n")


def test_python_that_drops_docstrings_is_refused_in_a_sentence():
    command = [sys.executable, "-OO", "-m", "attribeam", "models", "--help"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (ExitCode.BAD_USAGE, "")
    assert found.stderr.startswith("attribeam models: transformers reads docstrings, which python -OO drops; leave -OO")


@pytest.mark.parametrize("command", [["audit", "--input", "x"], ["evaluate", "--data", "x"]])
def test_verdict_that_is_neither_a_name_nor_a_directory_of_one_is_a_usage_error(command, tmp_path, capsys):
    assert _code([*command, "--verdict", str(tmp_path)]) == 2
    assert "bundled, smollm2-135m, mass, a verifier " in capsys.readouterr().err


_COMMANDS = (["audit", "--input", "x", "--output", "y"], ["models", "check"], ["evaluate", "--data", "x"])


@pytest.mark.parametrize("command", _COMMANDS)
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--device", "tpu"], "--device: should be auto, cpu, cuda, cuda:1, or another device that torch knows"),
        (["--device", "cuda:x"], "was: 'cuda:x'"),
        (["--device", ""], "was: ''"),
        (["--dtype", "float8"], "--dtype: should be one of 'auto', 'float32', 'bfloat16', 'float16', was: 'float8'"),
        (["--prompt-template", "no/such.jinja"], "chat, plain, paper or a file, there is no file 'no/such.jinja'"),
    ],
)
def test_value_that_can_never_do_is_a_usage_error(command, given, expected, capsys):
    assert _code([*command, *given]) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("device", ["all", "cuda:0,cuda:1"])
def test_check_of_a_model_takes_one_device(device, capsys):
    assert main(["models", "check", "--device", device]) == 2
    assert f"device should be a single one, was: {device!r}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        {"quantization": Quantization.NF4}, {"dtype": "bfloat16"}, {"revision": "v1"}, {"trust_remote_code": True},
        {"layer": 3}, {"query_position": QueryPosition.SELF}, {"prompt_template": "paper"}, {"max_tokens": 512},
        {"token_budget": 4096},
    ],
)  # fmt: skip
def test_each_of_them_makes_another_configuration(change):
    plain = AuditSettings()
    changed = replace(plain, model=plain.model.replaced(**change))
    assert configuration_hash(plain, {}, []) != configuration_hash(changed, {}, [])


def test_workers_elsewhere_load_the_commit_that_was_loaded_here():
    asked = ModelOptions(model="a/b", revision="v1", dtype="bfloat16", device="cuda:1", trust_remote_code=True)
    pinned = with_pinned_model(AuditSettings(model=asked), {"model_revision": "0123abc"})
    assert pinned == AuditSettings(model=asked.replaced(revision="0123abc"))

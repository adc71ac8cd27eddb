"""The examples of nightly jobs: read by their own parsers, and their commands by ours."""

import argparse
import fcntl
import os
import shlex
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from attribeam.pipeline.command_line import COMMANDS, main
from attribeam.pipeline.config_file import read_options

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "nightly"
SCRIPT = EXAMPLES / "nightly_audit.sh"
TODAY = "2026-11-22"
VARIABLES = {"AUDIT_DAY": TODAY, "AUDIT_LOGS": "s3://logs"}


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    """What a night's environment has."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def _parse(argv):
    """What our parser makes of a command in the examples' folder; SystemExit if it takes it for wrong."""
    command = next(one for one in COMMANDS if one.name == argv[0])
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=not command.takes_config)
    import_module(command.module).add_arguments(parser)
    parsed = parser.parse_args(argv[1:])
    return read_options(parsed) if command.takes_config else parsed


def test_the_options_fit_together(capsys):
    assert main(["config", "check", str(EXAMPLES / "audit.toml")]) == 0
    assert "left to the command line" not in capsys.readouterr().out


def _night(folder, *, code, **environment):
    """Run the script with an ``attribeam`` that only writes down its arguments; its exit code, and these."""
    calls = folder / "calls"
    program = folder / "bin" / "attribeam"
    program.parent.mkdir()
    program.write_text(
        f'#!/usr/bin/env bash\nprintf "%q " "$@" >>"{calls}"\necho "# $AUDIT_DAY" >>"{calls}"\n'
        f'[ "$1" != audit ] || exit {code}\n'
    )
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    run = subprocess.run([SCRIPT, "--quiet"], env={**os.environ, "PATH": path, **environment}, check=False)
    return run.returncode, [shlex.split(line, comments=True) for line in calls.read_text().splitlines()]


@pytest.mark.parametrize(("code", "commands"), [(0, 2), (3, 2), (1, 1), (2, 1), (130, 1)])
def test_the_script_ends_as_the_audit_does_and_tidies_only_after_a_finished_one(tmp_path, code, commands, monkeypatch):
    (tmp_path / "audits").mkdir()
    ended, calls = _night(tmp_path, code=code, AUDIT_HOME=str(tmp_path))
    assert (ended, [call[0] for call in calls]) == (code, ["audit", "history"][:commands])
    monkeypatch.chdir(EXAMPLES)
    for call in calls:
        _parse(call)
    assert _parse(calls[0]).output == f"audits/{TODAY}"


def test_the_script_removes_old_audits_that_do_not_run_and_nothing_else(tmp_path):
    audits = tmp_path / "audits"
    for name in ("old", "-rf\n*", "new", "runs", "no audit", "months/old", "old/evidence/mine"):
        (audits / name).mkdir(parents=True)
        if name != "no audit":
            (audits / name / "_attribeam").touch()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "_attribeam").touch()
    (audits / "link").symlink_to(tmp_path / "outside")
    (audits / "old" / "_attempts").symlink_to(tmp_path / "outside")
    for folder in {*audits.iterdir(), tmp_path / "outside"} - {audits / "new"}:
        os.utime(folder, (0, 0))
    with (audits / "runs" / "_attribeam").open() as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        assert _night(tmp_path, code=0, AUDIT_HOME=str(tmp_path))[0] == 0
    assert {path.name for path in audits.iterdir()} == {"new", "runs", "no audit", "months", "link"}
    assert (audits / "months" / "old" / "_attribeam").exists()
    assert (tmp_path / "outside" / "_attribeam").exists()

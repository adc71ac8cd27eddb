"""Scripts that complete commands and options: a shell reads them, and finds what the parsers have."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest

from attribeam.pipeline.command_line import COMMANDS, main
from attribeam.pipeline.commands import completion_command


def _script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script for bash, in a file."""
    path = tmp_path_factory.mktemp("completion") / "attribeam.bash"
    with path.open("w", encoding="utf-8") as file, redirect_stdout(file):
        assert main(["completion", "bash"]) == 0
    return path


def test_bash_takes_the_script(bash_script: Path) -> None:
    subprocess.run(["bash", "-n", str(bash_script)], check=True)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["au"], ["audit"]),
        (["audit", "--rows-p"], ["--rows-per-chunk"]),
        (["audit", "--console", "j"], ["json"]),
        (["config", "ch"], ["check"]),
        (["history", "--fail"], ["--fail-on-alert"]),
        (["import", "--no-such"], []),
    ],
)
def test_bash_completes_commands_options_and_choices(bash_script: Path, words: list[str], found: list[str]) -> None:
    code = """
        source "$1"; shift
        function=$(complete -p attribeam | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        COMP_WORDS=(attribeam "$@"); COMP_CWORD=$#
        "$function"; printf '%s\\n' "${COMPREPLY[@]}"
    """
    run = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", str(bash_script), *words], capture_output=True, text=True, check=False
    )
    assert sorted(run.stdout.split()) == found


def test_zsh_gets_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    script = _script("zsh", capsys)
    assert script.startswith("#compdef attribeam")
    assert [command.name for command in COMMANDS if f"\n    {command.name}:" not in script] == []


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_takes_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "_attribeam"
    path.write_text(_script("zsh", capsys), encoding="utf-8")
    subprocess.run(["zsh", "-n", str(path)], check=True)


def test_without_the_extra_the_way_out_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(completion_command, "find_spec", lambda name: None if name == "shtab" else find_spec(name))
    assert main(["completion", "bash"]) == 2
    assert "pip install 'attribeam[completion]'" in capsys.readouterr().err

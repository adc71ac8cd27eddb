"""Print a script that completes attribeam's commands and options in a shell: attribeam completion bash or zsh."""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec

from attribeam.pipeline.command_line import COMMANDS, PROGRAM
from attribeam.report.messages import CommandParser, write_output
from attribeam.schemas.errors import UsageError

SHELLS = ("bash", "zsh")
_INSTALL_HINT = "pip install 'attribeam[completion]'"
_FOLDERS = ("DIR",)
_FILES = ("FILE", "GLOB", "NAME|FILE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read the script")


def run(arguments: argparse.Namespace) -> None:
    """Print the script.

    Raises:
        UsageError: if the package that writes it is missing.
    """
    if find_spec("shtab") is None:
        raise UsageError(f"completion needs the package shtab, which is not installed: {_INSTALL_HINT}")
    import shtab

    write_output([shtab.complete(whole_parser(), shell=arguments.shell), "\n"])


def whole_parser() -> argparse.ArgumentParser:
    """One parser with all commands, whose options say where they take files."""
    import shtab

    parser = CommandParser(prog=PROGRAM)
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command")
    for command in COMMANDS:
        one = commands.add_parser(command.name, help=command.summary, allow_abbrev=False)
        import_module(command.module).add_arguments(one)
        _prepare(one, {**dict.fromkeys(_FILES, shtab.FILE), **dict.fromkeys(_FOLDERS, shtab.DIRECTORY)})
    return parser


def _prepare(parser: argparse.ArgumentParser, kinds: dict[str, dict[str, str]]) -> None:
    """Set what ``shtab`` reads of an action, here and in the parsers below; it takes a dictionary for subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _prepare(below, kinds)
            continue
        if isinstance(action.choices, dict):
            action.choices = tuple(action.choices)
        if isinstance(action.metavar, str) and action.metavar in kinds:
            action.complete = kinds[action.metavar]  # type: ignore[attr-defined]

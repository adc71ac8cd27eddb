"""``attribeam``: finds the command and hands over to the module that does it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from pipeline.failures import AuditError, UsageError
from pipeline.quiet_libraries import set_verbosity
from pipeline.version import ATTRIBEAM_VERSION


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its module has ``add_arguments(parser)`` and ``run(arguments) -> exit code``.

    The module is imported only when the command is called. Where ``passes_on``, arguments that the command does not
    know are collected in ``arguments.runner_options`` for it to judge; elsewhere they are an error.
    """

    name: str
    summary: str
    module: str
    passes_on: bool = False


COMMANDS = (
    Command("audit", "audit QA logs: Parquet in, evidence records out", "pipeline.audit_command", passes_on=True),
    Command("report", "show what an audit found: a page, rows, or a digest", "report.command"),
    Command("show", "print one answer of an audit with its spans and their evidence", "report.show_command"),
    Command("evaluate", "measure the methods on a labelled data set", "evaluation.command"),
    Command("import", "make a log with labels from a published data set", "evaluation.datasets.import_command"),
    Command("models", "check whether a model can serve, and how fast", "pipeline.models_command"),
    Command("train", "train a bundled model anew: parser or attributor", "training.command"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0 done, 1 failed, 2 bad usage, 3 quality gate, 130 interrupted."""
    given = list(sys.argv[1:] if argv is None else argv)
    chosen = _top_parser().parse_args(given[:1]).command
    command = next(one for one in COMMANDS if one.name == chosen)
    return _run(command, given[1:])


def _top_parser() -> argparse.ArgumentParser:
    width = max(len(command.name) for command in COMMANDS)
    listing = "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS)
    parser = argparse.ArgumentParser(
        prog="attribeam",
        usage="attribeam COMMAND [options]",
        description="Which words of which retrieved passage support each span of a RAG answer.",
        epilog=f"commands:\n{listing}\n\nattribeam COMMAND --help lists a command's options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"attribeam {ATTRIBEAM_VERSION}")
    parser.add_argument("command", choices=[command.name for command in COMMANDS], help=argparse.SUPPRESS)
    return parser


def _run(command: Command, argv: Sequence[str]) -> int:
    set_verbosity(verbose="--verbose" in argv)
    module = import_module(command.module)
    parser = argparse.ArgumentParser(prog=f"attribeam {command.name}", description=module.__doc__, allow_abbrev=False)
    add_arguments: Callable[[argparse.ArgumentParser], None] = module.add_arguments
    run: Callable[[argparse.Namespace], int] = module.run
    add_arguments(parser)
    arguments = _parse(parser, argv, command)
    try:
        return run(arguments)
    except UsageError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except AuditError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return 130


def _parse(parser: argparse.ArgumentParser, argv: Sequence[str], command: Command) -> argparse.Namespace:
    if not command.passes_on:
        return parser.parse_args(argv)
    arguments, unknown = parser.parse_known_args(argv)
    arguments.runner_options = unknown
    return arguments

"""``attribeam``: finds the command and calls its module.

Imports no other library, because what libraries may print has to be set before they are imported.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from attribeam import __version__


def set_verbosity(*, verbose: bool) -> None:
    """Show the libraries' messages if ``verbose``, else only errors; worker processes inherit the choice.

    Call it before the libraries are imported. It respects ``-W``, ``PYTHONWARNINGS`` and ``TRANSFORMERS_VERBOSITY``.
    """
    logging.basicConfig(level=logging.INFO if verbose else logging.ERROR)
    if verbose:
        return
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its module has ``add_arguments(parser)`` and ``run(arguments)``.

    ``run`` returns how the command ended, None for well, or raises an ``AttribeamError``. The module is imported only
    when the command is called. With ``accepts_unknown``, unknown arguments go to the command in
    ``arguments.runner_options``; for other commands they are an error.
    """

    name: str
    summary: str
    module: str
    accepts_unknown: bool = False


COMMANDS = (
    Command(
        "audit",
        "audit QA logs: Parquet in, evidence records out",
        "attribeam.pipeline.audit_command",
        accepts_unknown=True,
    ),
    Command("report", "show what an audit found: a page, rows, or a digest", "attribeam.report.report_command"),
    Command("show", "print one answer of an audit with its spans and their evidence", "attribeam.report.show_command"),
    Command("evaluate", "measure the methods on a labelled data set", "attribeam.lab.evaluation.command"),
    Command(
        "import", "make a log with labels from a published data set", "attribeam.lab.evaluation.datasets.import_command"
    ),
    Command("models", "check whether a model can serve, and how fast", "attribeam.pipeline.models_command"),
    Command("train", "retrain a bundled model: parser or attributor", "attribeam.lab.training.command"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code, one of ``attribeam.schemas.errors.ExitCode``."""
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
    parser.add_argument("--version", action="version", version=f"attribeam {__version__}")
    parser.add_argument("command", choices=[command.name for command in COMMANDS], help=argparse.SUPPRESS)
    return parser


def _run(command: Command, argv: Sequence[str]) -> int:
    set_verbosity(verbose="--verbose" in argv)
    from attribeam.schemas.errors import AttribeamError, ExitCode

    module = import_module(command.module)
    parser = argparse.ArgumentParser(prog=f"attribeam {command.name}", description=module.__doc__, allow_abbrev=False)
    add_arguments: Callable[[argparse.ArgumentParser], None] = module.add_arguments
    run: Callable[[argparse.Namespace], ExitCode | None] = module.run
    add_arguments(parser)
    arguments = _parse(parser, argv, command)
    try:
        return run(arguments) or ExitCode.DONE
    except AttribeamError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED


def _parse(parser: argparse.ArgumentParser, argv: Sequence[str], command: Command) -> argparse.Namespace:
    if not command.accepts_unknown:
        return parser.parse_args(argv)
    arguments, unknown = parser.parse_known_args(argv)
    arguments.runner_options = unknown
    return arguments

"""``attribeam``: finds the command and calls its module.

Imports no other library, because what libraries may print has to be set before they are imported.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import resource
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

from attribeam import __version__
from attribeam.report.messages import CommandParser, ConsoleKind, Messages, console_kind, print_library_messages

PROGRAM = "attribeam"
FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130
"""Of ``ExitCode``, but known before anything is imported."""

_NO_DOCSTRINGS = "transformers reads docstrings, which python -OO drops; leave -OO or PYTHONOPTIMIZE=2 out, -O is fine"
_NO_MEMORY_FOR_ERROR = "error return without exception set"
"""What Python says where compiled code found no memory for its own error."""
_NO_MEMORY = "memory ran out; raise the limit (ulimit -v, or the container's), or take a machine with more"


def set_verbosity(*, verbose: bool) -> None:
    """Show the libraries' messages if ``verbose``, else only errors; worker processes inherit the choice.

    Call it before the libraries are imported. It respects ``-W``, ``PYTHONWARNINGS`` and ``TRANSFORMERS_VERBOSITY``.
    """
    print_library_messages(logging.INFO if verbose else logging.ERROR)
    if verbose:
        return
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its module, or ``module:Class``, has ``add_arguments(parser)`` and ``run(arguments)``.

    ``run`` returns how the command ended, None for well, or raises an ``AttribeamError``. The module is imported only
    when the command is called. With ``takes_config``, a file of ``--config`` holds further options, and unknown
    arguments go to the command in ``arguments.beam_arguments``; for other commands they are an error.
    """

    name: str
    summary: str
    module: str
    takes_config: bool = False


COMMANDS = (
    Command("demo", "audit a small log that comes with the package", "attribeam.pipeline.audit_command:Demo"),
    Command(
        "audit",
        "audit QA logs: Parquet in, evidence records out",
        "attribeam.pipeline.audit_command",
        takes_config=True,
    ),
    Command("report", "show what an audit found: a page, rows, or a digest", "attribeam.report.report_command"),
    Command("show", "print one answer of an audit with its spans and their evidence", "attribeam.report.show_command"),
    Command("export", "write an audit's answers as tasks for Label Studio or Argilla", "attribeam.report.labelling"),
    Command("send", "send an audit's verdicts to a trace store", "attribeam.integrations.send_command"),
    Command("history", "show what the audits in a folder found over time", "attribeam.report.history_command"),
    Command("calibrate", "fit the verdict to marks made on an audit's page", "attribeam.evaluation.calibrate_command"),
    Command("evaluate", "measure the methods on a labelled data set", "attribeam.evaluation.command"),
    Command(
        "import",
        "make a log from traces, a labelling tool or a published data set",
        "attribeam.evaluation.datasets.import_command",
    ),
    Command("config", "check or print a configuration file of audit", "attribeam.pipeline.config_file"),
    Command("models", "check whether a model can serve, and choose its layer", "attribeam.evaluation.check_command"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code, one of ``attribeam.schemas.errors.ExitCode``."""
    _open_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error has it
    given = list(sys.argv[1:] if argv is None else argv)
    command = next((command for command in COMMANDS if given[:1] == [command.name]), None)
    if command is None:
        _top_parser().parse_known_args(given[:1])  # which may end here, as for --help
        Messages(PROGRAM).say(_why_no_command(given[:1]))
        return BAD_USAGE
    kind = console_kind(given) if command.takes_config else ConsoleKind.TEXT
    messages = Messages(f"{PROGRAM} {command.name}", kind)
    if sys.flags.optimize > 1:
        messages.say(_NO_DOCSTRINGS, event="error", exit_code=BAD_USAGE)
        return BAD_USAGE
    try:
        return _run(command, given[1:])
    except KeyboardInterrupt as error:
        if not _is_lack_of_memory(error):
            messages.say("interrupted", event="error", exit_code=INTERRUPTED)
            return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - ends the command, and says where the fault is
        if not _is_lack_of_memory(error):
            messages.say_fault()
            return FAILED
    messages.say(_NO_MEMORY, event="error", exit_code=FAILED)
    return FAILED


def _top_parser() -> argparse.ArgumentParser:
    width = max(len(command.name) for command in COMMANDS)
    listing = "\n".join(f"  {command.name:<{width}}  {command.summary}" for command in COMMANDS)
    parser = CommandParser(
        prog=PROGRAM,
        usage="attribeam COMMAND [options]",
        description="Which words of which retrieved passage support each span of a RAG answer.",
        epilog=f"commands:\n{listing}\n\nattribeam COMMAND --help lists a command's options.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"attribeam {__version__}")
    return parser


def _why_no_command(given: Sequence[str]) -> str:
    names = [command.name for command in COMMANDS]
    there_are = f"there are: {', '.join(names)}; see {PROGRAM} --help"
    if not given or given[0].startswith("-"):
        actual = f", was: {given[0]!r}" if given else ", there is none"
        return f"the first argument should be a command{actual}; {there_are}"
    near = get_close_matches(given[0], names, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"there is no command {given[0]!r}; {hint}{there_are}"


def _run(command: Command, argv: Sequence[str]) -> int:
    if not command.takes_config:
        set_verbosity(verbose=False)
    from attribeam.schemas.errors import AttribeamError, ExitCode, UsageError

    path, _, name = command.module.partition(":")
    module = getattr(import_module(path), name) if name else import_module(path)
    kind = module.asked_console(argv) if command.takes_config else ConsoleKind.TEXT
    messages = Messages(f"{PROGRAM} {command.name}", kind)
    parser = CommandParser(
        prog=messages.speaker, description=module.__doc__, allow_abbrev=False, add_help=not command.takes_config
    )
    parser.kind = messages.kind
    add_arguments: Callable[[argparse.ArgumentParser], None] = module.add_arguments
    run: Callable[[argparse.Namespace], ExitCode | None] = module.run
    add_arguments(parser)
    try:
        if command.takes_config:
            arguments, unknown = parser.parse_known_args(argv)
            arguments.beam_arguments = unknown or None
        else:
            arguments = parser.parse_args(argv)
        try:
            Path.cwd()
        except FileNotFoundError:  # without it many libraries cannot even be imported, or end the process
            raise UsageError("the working directory is no longer there; change into another one") from None
        return run(arguments) or ExitCode.DONE
    except AttribeamError as error:
        messages.say(*map(str, error.args), event="error", exit_code=error.exit_code)
        return error.exit_code


def _open_closed_streams() -> None:
    """Open what the caller closed, as ``>&-`` does; else the next file that is opened would get what is printed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, so that of the stream
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", errors="replace"))


def _is_lack_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; a library that finds no room for its code is an ``ImportError``.

    OpenBLAS, which numpy loads, sends itself Ctrl-C's signal where it finds no room for its threads.
    """
    if isinstance(error, KeyboardInterrupt):
        frames = traceback.extract_tb(error.__traceback__)
        limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
        return limited and any(Path(frame.filename).parts[-3:-1] == ("numpy", "_core") for frame in frames)
    texts = ("failed to map segment", os.strerror(errno.ENOMEM), _NO_MEMORY_FOR_ERROR)
    return isinstance(error, MemoryError) or any(text in str(error) for text in texts)

"""Audit QA logs: which words of which passage support each span of every answer, and which spans have no support."""

from __future__ import annotations

import argparse
import atexit
import signal
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attribeam.pipeline.audit_options import LOCAL, add_audit_arguments, read_run_options, read_settings
from attribeam.pipeline.command_line import set_verbosity
from attribeam.pipeline.config_file import asked_console as asked_console
from attribeam.pipeline.config_file import read_options
from attribeam.pipeline.metrics import choose_exporters
from attribeam.pipeline.output_directory import REPORT_PAGE
from attribeam.pipeline.worker_process import RESUME_HINT, is_disk_full, start_import_server
from attribeam.report.messages import CommandParser, print_lines
from attribeam.schemas.errors import ExitCode, RunError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam audit``."""
    add_audit_arguments(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Run the audit; ``DONE`` if every row was audited or dead-lettered and no quality gate failed.

    Raises ``UsageError`` if it cannot be run as asked; ``RunError`` if it failed or does not reconcile.
    """
    given = read_options(arguments)
    set_verbosity(verbose=given.verbose)
    settings, options = read_settings(given), read_run_options(given)
    with interrupted_once():
        exporters = choose_exporters(messages=options.messages)
        try:
            if options.dry_run:
                from attribeam.pipeline.local_driver import run_dry

                run_dry(settings, options)
                return ExitCode.DONE
            if options.runner == LOCAL:
                start_import_server(settings.threads, verbose=options.verbose)
                from attribeam.pipeline.local_driver import run_local

                finished = run_local(settings, options)
            else:
                from attribeam.pipeline.distributed_driver import run_distributed

                finished = run_distributed(settings, options)
            return finished.report(exporters, options.messages)
        except KeyboardInterrupt:
            options.messages.say(f"interrupted. {RESUME_HINT}", event="error", exit_code=ExitCode.INTERRUPTED)
            return ExitCode.INTERRUPTED
        except OSError as error:
            reason = "the disk is full, free some space" if is_disk_full(error) else str(error)
            raise RunError(f"{reason}. {RESUME_HINT}") from error


_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at the first Ctrl-C, SIGTERM or SIGHUP, and ignore all later ones.

    So nothing keeps the block from recording how the run ended, nor the process from ending with its exit code. A
    signal that was ignored before, such as SIGHUP under ``nohup``, stays ignored.
    """

    def ignore_all() -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)

    def interrupt(_: int, __: object) -> None:
        ignore_all()
        atexit.register(ignore_all)
        raise KeyboardInterrupt

    before = {number: handler for number in _ENDINGS if (handler := signal.getsignal(number)) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Demo:
    """Audit a small log that is inside the package, and show what was found.

    Everything works without any data of yours.
    """

    LOG = Path(__file__).with_name("demo_log.jsonl")
    SHOWN_RECORD = "demo-tide-gate"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Add the options of ``attribeam demo``."""
        add = parser.add_argument
        add(
            "--output", default="attribeam-demo", metavar="DIR",
            help="directory for what is found (default: %(default)s)",
        )  # fmt: skip
        add("--no-browser", action="store_true", help="name the page instead of opening it")

    @staticmethod
    def run(arguments: argparse.Namespace) -> ExitCode:
        """Audit the log as ``attribeam audit`` does, then open its page; a second call finds the work done.

        Raises ``UsageError`` if the directory holds other things; ``RunError`` if the audit failed.
        """
        parser = CommandParser(prog="attribeam demo", add_help=False)
        add_arguments(parser)
        given = ["--input", str(Demo.LOG), "--log-format", "jsonl", "--output", arguments.output, "--workers", "1"]
        code = run(parser.parse_args([*given, *["--quiet"] * (not sys.stderr.isatty())]))
        if code is not ExitCode.DONE:
            return code
        page = (Path(arguments.output) / REPORT_PAGE).resolve()
        opened = not arguments.no_browser and webbrowser.open(page.as_uri())
        print_lines("", f"{'opened' if opened else 'open'} {page}")
        print_lines(f"print one answer: attribeam show {Demo.SHOWN_RECORD} --audit {arguments.output}")
        print_lines("audit your own log: attribeam audit --input LOG.parquet --output DIR")
        return ExitCode.DONE

"""Audit QA logs: which words of which passage support each span of every answer, and which spans have no support."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from attribeam.pipeline.audit_options import LOCAL, RunOptions, add_audit_arguments, read_run_options, read_settings
from attribeam.pipeline.command_line import set_verbosity
from attribeam.pipeline.config_file import asked_console as asked_console
from attribeam.pipeline.config_file import read_options
from attribeam.pipeline.metrics_export import choose_exporters
from attribeam.pipeline.worker_process import RESUME_HINT, is_disk_full, start_import_server
from attribeam.schemas.errors import ExitCode, RunError
from attribeam.transforms.audit_settings import AuditSettings


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
        return _run(settings, options)


def _run(settings: AuditSettings, options: RunOptions) -> ExitCode:
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

    So nothing keeps the block from recording how the run ended. A signal that was ignored before, such as SIGHUP under
    ``nohup``, stays ignored.
    """

    def interrupt(_: int, __: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: handler for number in _ENDINGS if (handler := signal.getsignal(number)) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

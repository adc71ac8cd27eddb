"""Audit a small log that is inside the package, and show what was found: everything works without any data of yours."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from attribeam.pipeline.output_directory import REPORT_PAGE
from attribeam.report.messages import CommandParser, print_lines
from attribeam.schemas.errors import ExitCode

DEMO_LOG = Path(__file__).with_name("demo_log.jsonl")
DEFAULT_OUTPUT = "attribeam-demo"
_SHOWN_RECORD = "demo-tide-gate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam demo``."""
    parser.add_argument(
        "--output", default=DEFAULT_OUTPUT, metavar="DIR", help="directory for what is found (default: %(default)s)"
    )
    parser.add_argument("--no-browser", action="store_true", help="name the page instead of opening it")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Audit the log, then open its page; a second call finds the work done.

    Raises ``UsageError`` if the directory holds other things; ``RunError`` if the audit failed.
    """
    code = _audit(arguments.output)
    page = (Path(arguments.output) / REPORT_PAGE).resolve()
    opened = not arguments.no_browser and webbrowser.open(page.as_uri())
    print_lines("", f"{'opened' if opened else 'open'} {page}")
    print_lines(f"print one answer: attribeam show {_SHOWN_RECORD} --audit {arguments.output}")
    print_lines("audit your own log: attribeam audit --input LOG.parquet --output DIR")
    return code


def _audit(output: str) -> ExitCode:
    """The audit of the demo log, as ``attribeam audit`` makes it."""
    from attribeam.pipeline import audit_command

    parser = CommandParser(prog="attribeam demo", add_help=False)
    audit_command.add_arguments(parser)
    given = ["--input", str(DEMO_LOG), "--log-format", "jsonl", "--output", output, "--workers", "1"]
    if not sys.stderr.isatty():
        given.append("--quiet")
    return audit_command.run(parser.parse_args(given))

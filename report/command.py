"""What an audit found, as one HTML page to look at."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from report.failures import ReportError, ReportUsageError
from report.html_page import DEFAULT_ANSWERS
from report.html_report import write_html_report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam report``."""
    add = parser.add_argument
    add("--audit", type=Path, required=True, metavar="DIR", help="the output directory of attribeam audit")
    add("--output", type=Path, required=True, metavar="FILE", help="the file to write")
    add("--previous", type=Path, metavar="DIR", help="an earlier audit, whose figures the page compares with")
    add(
        "--answers", type=_count, default=DEFAULT_ANSWERS, metavar="N",
        help="the most answers that the page carries, riskiest first (default: %(default)s)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Write the report; 0 if it was written, 1 if something cannot be read or written, 2 for bad usage."""
    try:
        write_html_report(arguments.audit, arguments.output, previous=arguments.previous, answers=arguments.answers)
    except ReportUsageError as error:
        print(f"attribeam report: {error}", file=sys.stderr)
        return 2
    except ReportError as error:
        print(f"attribeam report: {error}", file=sys.stderr)
        return 1
    return 0


def _count(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"should be a whole number from 1 on, was: {text!r}")
    return int(text)

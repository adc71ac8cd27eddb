"""Write what an audit found: as a page to look at, as rows, or as a digest."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audit_summary import comparison_remark
from attribeam.report.audited_logs import TEXTS_HELP
from attribeam.report.messages import Messages, one_line
from attribeam.report.output_file import STANDARD_OUTPUT, check_output, write_lines
from attribeam.report.privacy import as_private_as
from attribeam.report.row_export import csv_lines, jsonl_lines
from attribeam.schemas.errors import UsageError

_MESSAGES = Messages("attribeam report")
HTML, MARKDOWN, CSV, JSONL = "html", "md", "csv", "jsonl"
EVIDENCE, DEAD_LETTERS = "evidence", "dead_letters"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam report``."""
    add = parser.add_argument
    add("--audit", required=True, metavar="DIR", help="the output directory of attribeam audit, or its URI")
    add("--output", required=True, metavar="FILE", help="the file to write; - for standard output, not with html")
    add(
        "--format", choices=[HTML, CSV, JSONL, MARKDOWN], default=HTML,
        help="html: a page; csv, jsonl: all rows, csv for spreadsheets; md: a digest of the riskiest answers "
        "(default: %(default)s)",
    )  # fmt: skip
    add(
        "--rows", choices=[EVIDENCE, DEAD_LETTERS], default=EVIDENCE,
        help="rows to write with csv and jsonl (default: %(default)s)",
    )  # fmt: skip
    add(
        "--title",
        type=one_line,
        metavar="TEXT",
        help="the title of the page (default: the log's name, or its folder's)",
    )
    add("--previous", metavar="DIR", help="an earlier audit to compare the page's figures with")
    add(
        "--answers", type=positive_count, metavar="N",
        help="the most answers in a page or digest, riskiest first (default: 1000 in html, 50 in md)",
    )  # fmt: skip
    add("--texts", action="store_true", help=f"{TEXTS_HELP}; with {HTML} and {MARKDOWN}")


def run(arguments: argparse.Namespace) -> None:
    """Write the report.

    Raises:
        UsageError: if the options do not go together, or there is no such audit.
        RunError: if something cannot be read or written.
    """
    _check_usage(arguments)
    audit = AuditDirectory.open(arguments.audit)
    if arguments.format == HTML:
        _write_page(arguments)
    else:
        with as_private_as([audit.root]):
            write_lines(arguments.output, _output_parts(arguments, audit))
    if audit.incomplete:
        _MESSAGES.say(audit.incomplete)


def _check_usage(arguments: argparse.Namespace) -> None:
    """Refuse options that do not go with the format.

    Raises:
        UsageError: if there is one, or the output cannot be a file.
    """
    wanted = arguments.format
    for option, is_given, formats in (
        ("--title", arguments.title is not None, (HTML,)),
        ("--previous", arguments.previous is not None, (HTML,)),
        ("--answers", arguments.answers is not None, (HTML, MARKDOWN)),
        ("--texts", arguments.texts, (HTML, MARKDOWN)),
        ("--rows", arguments.rows != EVIDENCE, (CSV, JSONL)),
    ):
        if is_given and wanted not in formats:
            raise UsageError(f"{option} goes with --format {' or '.join(formats)} only, found {wanted}")
    if wanted == HTML and arguments.output == STANDARD_OUTPUT:
        raise UsageError("--output - goes with the other formats; name a file for the page")
    check_output(arguments.output)


def _write_page(arguments: argparse.Namespace) -> None:
    from attribeam.report.html_page import DEFAULT_PAGE_ANSWERS, write_html_report

    answers = DEFAULT_PAGE_ANSWERS if arguments.answers is None else arguments.answers
    write_html_report(
        arguments.audit,
        Path(arguments.output),
        previous=arguments.previous,
        answers=answers,
        texts=arguments.texts,
        title=arguments.title,
    )
    if arguments.previous is not None:
        audits = AuditDirectory.open(arguments.audit), AuditDirectory.open(arguments.previous)
        if remark := comparison_remark(*audits):
            _MESSAGES.say(remark)


def _output_parts(arguments: argparse.Namespace, audit: AuditDirectory) -> Iterator[str]:
    if arguments.format == MARKDOWN:
        from attribeam.report.markdown_digest import DEFAULT_DIGEST_ANSWERS, digest_lines

        answers = DEFAULT_DIGEST_ANSWERS if arguments.answers is None else arguments.answers
        return (f"{line}\n" for line in digest_lines(audit, answers=answers, texts=arguments.texts))
    of_evidence = arguments.rows == EVIDENCE
    batches = audit.evidence_batches() if of_evidence else audit.dead_letter_batches()
    if arguments.format == JSONL:
        return jsonl_lines(batches)
    return csv_lines(audit.evidence_schema if of_evidence else audit.dead_letter_schema, batches)


def positive_count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"should be a whole number of at least 1, was: {text!r}")
    return int(text)

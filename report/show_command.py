"""Print one answer of an audit: its spans by support, the evidence of each, and the passages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from report.answers import AnswerLogs
from report.audit_directory import AuditDirectory
from report.audited_answer import AuditedAnswer, audited_answers
from report.failures import ReportError, ReportUsageError
from report.nearest_ids import nearest_ids
from report.show_answer import AnswerView
from report.show_dead_letter import dead_letter_lines
from report.terminal_text import one_line

_PIECES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam show``."""
    parser.add_argument("record_id", metavar="RECORD_ID", help="id of the row in its log")
    parser.add_argument("--audit", required=True, type=Path, metavar="DIR", help="output directory of the audit")
    parser.add_argument(
        "--evidence", type=_piece_count, default=_PIECES, metavar="N",
        help="pieces of evidence printed for each span (default: %(default)s)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Print every answer and dead letter of the id; 0 if there is one, 2 if there is none, 1 if it cannot be read."""
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        audit = AuditDirectory.open(arguments.audit)
        for line in record_lines(audit, arguments.record_id, AnswerView(console.width, arguments.evidence)):
            console.print(line, soft_wrap=True)
        if audit.incomplete:
            print(f"attribeam show: {audit.incomplete}", file=sys.stderr)
    except ReportUsageError as error:
        print(f"attribeam show: {error}", file=sys.stderr)
        return 2
    except (ReportError, OSError, pa.ArrowException) as error:
        print(f"attribeam show: {error}", file=sys.stderr)
        return 1
    return 0


def record_lines(audit: AuditDirectory, record_id: str, view: AnswerView) -> Iterator[Text]:
    """All lines about one id, which several files may hold.

    Raises:
        ReportUsageError: if the audit has no such id.
        ReportError, OSError, pyarrow.ArrowException: if a file cannot be read.
    """
    answers = list(audited_answers(audit.evidence_of(record_id)))
    letters = audit.dead_letters_of(record_id)
    if not answers and not letters.num_rows:
        raise ReportUsageError(_unknown(audit, record_id))
    yield from _answer_lines(AnswerLogs.of(audit), answers, view)
    for number, letter in enumerate(letters.to_pylist()):
        if answers or number:
            yield Text()
        yield from dead_letter_lines(letter, width=view.width)


def _answer_lines(logs: AnswerLogs, answers: list[AuditedAnswer], view: AnswerView) -> Iterator[Text]:
    rows = frozenset(answer.source for answer in answers)
    texts = {text.source: text for text in logs.answers(rows)}
    for number, answer in enumerate(answers):
        if number:
            yield Text()
        yield from view.lines(answer, texts.get(answer.source))
    for problem in logs.problems(rows):
        yield Text(f"Question, answer and passages are not shown: {one_line(problem)}", style="bold")


def _unknown(audit: AuditDirectory, record_id: str) -> str:
    near = nearest_ids(audit, record_id)
    hint = f"the nearest are: {', '.join(one_line(name) for name in near)}" if near else "it has no records"
    return f"the audit {str(audit.root)!r} has no record {record_id!r}; {hint}"


def _piece_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"should be a whole number from 0, was: {text!r}")
    return int(text)

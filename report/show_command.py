"""Print one record of an audit, or suggest ids that resemble an unknown one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedAnswer, audited_answers
from attribeam.report.audited_logs import TEXTS_HELP, AuditedLogs
from attribeam.report.hidden_texts import with_texts
from attribeam.report.messages import Messages, one_line, print_styled
from attribeam.report.show_record import AnswerView, dead_letter_lines
from attribeam.schemas.errors import RunError, UsageError

_DEFAULT_PIECES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam show``."""
    parser.add_argument("record_id", metavar="RECORD_ID", help="id of the row in its log")
    parser.add_argument("--audit", required=True, metavar="DIR", help="output directory of the audit, or its URI")
    parser.add_argument(
        "--evidence", type=_piece_count, default=_DEFAULT_PIECES, metavar="N",
        help="pieces of evidence to print per span (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--texts", action="store_true", help=TEXTS_HELP)


def run(arguments: argparse.Namespace) -> None:
    """Print every answer and dead letter of the id.

    Raises:
        UsageError: if there is none.
        RunError: if a file cannot be read.
    """
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        audit = AuditDirectory.open(arguments.audit)
        logs = AuditedLogs.of(audit, texts=arguments.texts)
        view = AnswerView(console.width, arguments.evidence)
        lines = list(record_lines(audit, logs, arguments.record_id, view))
    except (OSError, pa.ArrowException) as error:
        raise RunError(str(error)) from error
    with console.capture() as styled:
        for line in lines:
            console.print(line, soft_wrap=True)
    print_styled(styled.get())
    if audit.incomplete:
        Messages("attribeam show").say(audit.incomplete)


def record_lines(audit: AuditDirectory, logs: AuditedLogs, record_id: str, view: AnswerView) -> Iterator[Text]:
    """All lines about one id, as it is in the log or masked in the audit; several rows may have it.

    Raises:
        UsageError: if the audit has no such id.
        RunError, OSError, pyarrow.ArrowException: if a file cannot be read.
    """
    record_id = logs.masked(record_id)
    answers = list(audited_answers(audit.evidence_of(record_id)))
    letters = audit.dead_letters_of(record_id)
    if not answers and not letters.num_rows:
        raise UsageError(_unknown_id_message(audit, record_id))
    yield from _answer_lines(logs, answers, view)
    for number, letter in enumerate(letters.to_pylist()):
        if answers or number:
            yield Text()
        yield from dead_letter_lines(letter, width=view.width)


def _answer_lines(logs: AuditedLogs, answers: list[AuditedAnswer], view: AnswerView) -> Iterator[Text]:
    rows = frozenset(answer.source for answer in answers)
    texts = {text.source: text for text in logs.answers(rows)}
    for number, answer in enumerate(answers):
        if number:
            yield Text()
        text = texts.get(answer.source)
        yield from view.lines(with_texts(answer, text), text)
    for problem in logs.problems(rows):
        yield Text(f"Question, answer and passages are not shown: {one_line(problem)}", style="bold")


def _unknown_id_message(audit: AuditDirectory, record_id: str) -> str:
    near = nearest_ids(audit, record_id)
    hint = f"the nearest are: {', '.join(one_line(name) for name in near)}" if near else "it has no records"
    lacks = f"the audit {audit.root!r} has no record {record_id!r}; {hint}"
    return f"{audit.incomplete}, and {lacks}" if audit.incomplete else lacks


def _piece_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"should be a whole number of at least 0, was: {text!r}")
    return int(text)


_MAX_COMPARED = 20_000


def nearest_ids(audit: AuditDirectory, wanted: str, *, count: int = 5) -> list[str]:
    """Up to ``count`` ids that resemble ``wanted``, most similar first; if none does, the first ids of the audit.

    First come ids that differ in leading zeros and case only: qa-9 means qa-009. A single slip leaves one half of an id
    intact, so of the others only those that share a half are compared, at most 20,000 of them.
    """
    same = islice(_distinct_ids(_ids_of_the_same_numbers(audit, wanted)), count)
    alike = list(islice(_distinct_ids(_ids_sharing_a_half(audit, wanted)), _MAX_COMPARED))
    found = dict.fromkeys([*same, *get_close_matches(wanted, alike, n=count, cutoff=0.5)])
    return list(islice(found or _distinct_ids(_id_columns(audit)), count))


def _id_columns(audit: AuditDirectory) -> Iterator[pa.Array]:
    for batch in audit.dead_letter_batches(["record_id"]):
        yield batch.column("record_id")
    for batch in audit.evidence_batches(["record_id"]):
        yield batch.column("record_id")


def _ids_of_the_same_numbers(audit: AuditDirectory, wanted: str) -> Iterator[pa.Array]:
    (meant,) = _without_leading_zeros(pa.array([wanted]))
    for ids in _id_columns(audit):
        yield ids.filter(pc.equal(_without_leading_zeros(ids), meant))


def _without_leading_zeros(ids: pa.Array) -> pa.Array:
    """The ids in lower case, ``qa-009`` as ``qa-9``."""
    return pc.replace_substring_regex(pc.utf8_lower(ids), r"(^|[^0-9])0+([0-9])", r"\1\2")


def _ids_sharing_a_half(audit: AuditDirectory, wanted: str) -> Iterator[pa.Array]:
    half = (len(wanted) + 1) // 2
    for ids in _id_columns(audit):
        alike = pc.or_(pc.starts_with(ids, wanted[:half]), pc.ends_with(ids, wanted[half:]))
        yield ids.filter(alike)


def _distinct_ids(arrays: Iterator[pa.Array]) -> Iterator[str]:
    seen: set[str] = set()
    for ids in arrays:
        for name in pc.unique(ids.drop_null()).to_pylist():
            if name not in seen:
                seen.add(name)
                yield name

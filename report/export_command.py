"""``attribeam export``: write answers of an audit as tasks for people who label them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import starmap
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from attribeam.report.answer_ranking import AnswerRanking, rank_answers
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import EmbeddedAnswer, embedded_answers
from attribeam.report.audited_logs import TEXTS_HELP, AuditedLogs
from attribeam.report.messages import Messages
from attribeam.report.output_file import as_private_as, check_output, write_lines
from attribeam.report.report_command import positive_count
from attribeam.schemas import QARecord, SpanEvidence
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.labelling_tasks import argilla_record, label_studio_task

_TASKS: dict[str, Callable[[QARecord, Sequence[SpanEvidence]], dict[str, object]]] = {
    "label-studio": label_studio_task,
    "argilla": argilla_record,
}
DEFAULT_ANSWERS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam export``."""
    add = parser.add_argument
    add("--audit", type=Path, required=True, metavar="DIR", help="the output directory of attribeam audit")
    add("--format", choices=[*_TASKS], required=True, help="which tool is to read the file")
    add("--output", required=True, metavar="FILE.json", help="the file to write; - for standard output")
    add(
        "--answers", type=positive_count, metavar="N",
        help=f"the most answers to write, riskiest first (default: {DEFAULT_ANSWERS}, or all of --records)",
    )  # fmt: skip
    add("--records", type=Path, metavar="FILE", help="only answers whose record_id is a line of this file")
    add("--texts", action="store_true", help=TEXTS_HELP)


def run(arguments: argparse.Namespace) -> None:
    """Write the tasks, and say on standard error what could not be written.

    Raises:
        UsageError: if there is no such audit, or an option cannot be followed.
        RunError: if something cannot be read or written, or there is nothing to write.
    """
    check_output(arguments.output)
    listed = None if arguments.records is None else _record_ids(arguments.records)
    audit = AuditDirectory.open(arguments.audit)
    logs = AuditedLogs.of(audit, texts=arguments.texts)
    ids = None if listed is None else [*dict.fromkeys(map(logs.masked, listed))]
    where = None if ids is None else ds.field("record_id").isin(pa.array(ids, pa.string()))
    ranking = rank_answers(audit, arguments.answers or (DEFAULT_ANSWERS if ids is None else sys.maxsize), where=where)
    answers = list(embedded_answers(audit, logs, ranking.riskiest))
    whole = [(one.texts, one.answer.spans) for one in answers if one.texts is not None]
    lost = [*_without_texts(answers, logs), *_unknown(ids, ranking)]
    if not whole:
        raise RunError(f"there should be answers to export, there are none: {'; '.join(lost) or 'the audit is empty'}")
    with as_private_as([audit.root]):
        write_lines(arguments.output, _json_list(starmap(_TASKS[arguments.format], whole)))
    Messages("attribeam export").say(*lost, *([audit.incomplete] if audit.incomplete else []))


def _record_ids(path: Path) -> list[str]:
    """The ids of a file, one per line; empty lines are skipped.

    Raises:
        UsageError: if the file cannot be read, or has none.
    """
    try:
        ids = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--records {path} should be a text file with one record_id a line: {error}") from error
    if not ids:
        raise UsageError(f"--records {path} should have one record_id a line, has none")
    return list(dict.fromkeys(line.removesuffix("\r") for line in ids))


def _json_list(items: Iterable[dict[str, object]]) -> Iterator[str]:
    """The parts of a JSON list, one item a line."""
    before = "[\n"
    for item in items:
        yield before + json.dumps(item, ensure_ascii=False, allow_nan=False)
        before = ",\n"
    yield "\n]\n"


def _without_texts(answers: Sequence[EmbeddedAnswer], logs: AuditedLogs) -> Iterator[str]:
    missing = [answer for answer in answers if answer.texts is None]
    if missing:
        problems = "; ".join(logs.problems(frozenset(one.answer.source for one in missing)))
        yield f"{len(missing)} answers are left out, {problems or 'their texts are too long'}"


def _unknown(ids: Sequence[str] | None, ranking: AnswerRanking) -> Iterator[str]:
    if ids is not None and ranking.answer_count < len(ids):
        yield f"{ranking.answer_count} answers of the {len(ids)} ids of --records were audited"

"""``attribeam export``: write answers of an audit as tasks for people who label spans, for Label Studio or Argilla 2.

A task shows question, passages and answer, and suggests the claims with their verdicts. People correct ranges and
labels; ``attribeam import`` makes a labelled log of what they did.
"""

from __future__ import annotations

import argparse
import json
import re
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
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.evidence_record import VERDICTS, SpanEvidence, Support
from attribeam.schemas.qa_record import QARecord

QUESTION = "support"
"""What is asked of the answer: Label Studio's ``from_name``, Argilla's question."""
ANSWER = "answer"
"""The field whose text has the ranges."""
LABELS = tuple(str(support) for support in VERDICTS)
"""What a range may be called; ``weak`` says that a person cannot decide."""
AGENT = "attribeam"
"""Who made the suggestions."""

_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")
_STAND_IN = "\u25a1"


def label_studio_task(record: QARecord, spans: Sequence[SpanEvidence]) -> dict[str, object]:
    """A task with its predictions, for a labelling interface with ``Labels`` named "support" for a ``Text`` "answer".

    Ranges count code points, as Label Studio does.
    """
    results = [
        {
            "id": f"span-{span.span_index}",
            "from_name": QUESTION,
            "to_name": ANSWER,
            "type": "labels",
            "value": {
                "start": span.chars.char_start,
                "end": span.chars.char_end,
                "text": span.text,
                "labels": [str(span.support)],
            },
            **({"meta": {"text": [span.why]}} if span.why else {}),
        }
        for span in _suggested(spans)
    ]
    risk = _risk(spans)
    score = {} if risk is None else {"score": 1 - risk}
    return {
        "data": {
            **_place(record),
            "risk": risk,
            "question": record.question,
            "passages": _passages_text(record),
            ANSWER: record.answer,
        },
        "predictions": [{"model_version": AGENT, **score, "result": results}],
    }


def argilla_record(record: QARecord, spans: Sequence[SpanEvidence]) -> dict[str, object]:
    """A record with its suggestion, for the text fields of the task and a ``SpanQuestion`` "support".

    Argilla's page counts UTF-16 units where its server counts code points. So that both agree, a character beyond 16
    bits, such as an emoji, is shown as a square; offsets are those of the answer.
    """
    value = [
        {"label": str(span.support), "start": span.chars.char_start, "end": span.chars.char_end}
        for span in _suggested(spans)
    ]
    fields = {"question": record.question, "passages": _passages_text(record), ANSWER: record.answer}
    risk = _risk(spans)
    return {
        "id": f"{record.source.source_file}:{record.source.source_row}",
        "fields": {name: _BEYOND_16_BITS.sub(_STAND_IN, text) for name, text in fields.items()},
        "metadata": _place(record) | ({} if risk is None else {"risk": risk}) | _told(spans),
        "suggestions": {QUESTION: {"value": value, "score": None, "agent": AGENT}},
        "responses": {},
        "vectors": {},
    }


def _suggested(spans: Sequence[SpanEvidence]) -> Iterator[SpanEvidence]:
    """The claims with a verdict, in the order of the answer."""
    judged = (span for span in spans if span.is_claim and span.support is not Support.NOT_CALIBRATED)
    return iter(sorted(judged, key=lambda span: span.chars))


def _risk(spans: Sequence[SpanEvidence]) -> float | None:
    return spans[0].answer_risk if spans else None


def _told(spans: Sequence[SpanEvidence]) -> dict[str, object]:
    """What is told of the claims beside their verdicts: each value once, in their order; no names without any."""
    told = {name: [getattr(span, name) for span in _suggested(spans)] for name in ("reason", "expected", "how")}
    return {name: list(dict.fromkeys(filter(None, values))) for name, values in told.items() if any(values)}


def _place(record: QARecord) -> dict[str, object]:
    source = record.source
    return {"record_id": record.record_id, "source_file": source.source_file, "source_row": source.source_row}


def _passages_text(record: QARecord) -> str:
    """The passages one below the other, numbered from 1."""
    return "\n\n".join(
        f"[{number}] {passage.title}\n{passage.text}" if passage.title else f"[{number}] {passage.text}"
        for number, passage in enumerate(record.passages, start=1)
    )


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

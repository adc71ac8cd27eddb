"""Write answers of an audit as tasks for people who label spans, for Label Studio or Argilla 2.

A task shows question, passages and answer, and suggests the claims with their verdicts. People correct ranges and
labels; ``attribeam import`` makes a labelled log of what they did.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, starmap
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from attribeam.logs.privacy import MASK
from attribeam.report.answer_ranking import rank_answers
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import TEXTS_HELP, AuditedLogs, embedded_answers
from attribeam.report.messages import Messages, as_private_as, check_output, write_lines
from attribeam.report.report_command import positive_count
from attribeam.schemas.errors import DataError, RunError, UsageError
from attribeam.schemas.evidence_record import VERDICTS, SpanEvidence, Support
from attribeam.schemas.files import check_apart
from attribeam.schemas.qa_record import CharRange, QARecord, RowSource

QUESTION = "support"
"""What is asked of the answer: Label Studio's ``from_name``, Argilla's question."""
ANSWER = "answer"
"""The field whose text has the ranges."""
LABELS = tuple(str(support) for support in VERDICTS)
"""What a range may be called; ``weak`` says that a person cannot decide."""
AGENT = "attribeam"
"""Who made the suggestions."""


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
    risk = spans[0].answer_risk
    score = {} if risk is None else {"score": 1 - risk}
    return {
        "data": {
            **_position(record),
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
    claims = _suggested(spans)
    tags = [{"label": str(span.support), "start": span.chars.char_start, "end": span.chars.char_end} for span in claims]
    fields = {"question": record.question, "passages": _passages_text(record), ANSWER: record.answer}
    risk = {} if spans[0].answer_risk is None else {"risk": spans[0].answer_risk}
    # What is told of the claims beside their verdicts: each value once, and no names without any.
    facts = {name: dict.fromkeys(getattr(span, name) for span in claims) for name in ("reason", "expected", "how")}
    named = {name: [value for value in values if value] for name, values in facts.items() if any(values)}
    return {
        "id": f"{record.source.source_file}:{record.source.source_row}",
        "fields": {name: re.sub("[\U00010000-\U0010ffff]", "\u25a1", text) for name, text in fields.items()},
        "metadata": _position(record) | risk | named,
        "suggestions": {QUESTION: {"value": tags, "score": None, "agent": AGENT}},
        "responses": {},
        "vectors": {},
    }


def _suggested(spans: Sequence[SpanEvidence]) -> list[SpanEvidence]:
    """The claims with a verdict, in the order of the answer."""
    judged = (span for span in spans if span.is_claim and span.support is not Support.NOT_CALIBRATED)
    return sorted(judged, key=lambda span: span.chars)


def _position(record: QARecord) -> dict[str, object]:
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

    Raises ``UsageError`` if there is no such audit, or an option cannot be followed; ``RunError`` if something cannot
    be read or written, or there is nothing to write.
    """
    check_output(arguments.output)
    listed = None if arguments.records is None else _record_ids(arguments.records)
    audit = AuditDirectory.open(arguments.audit)
    check_apart(arguments.output, [*audit.files, *([] if arguments.records is None else [arguments.records])])
    logs = AuditedLogs.of(audit, texts=arguments.texts)
    ids = None if listed is None else [*dict.fromkeys(map(logs.redactor.mask, listed))]
    where = None if ids is None else ds.field("record_id").isin(pa.array(ids, pa.string()))
    ranking = rank_answers(audit, arguments.answers or (DEFAULT_ANSWERS if ids is None else sys.maxsize), where=where)
    answers = list(embedded_answers(audit, logs, ranking.riskiest))
    whole = [(embedded.texts, embedded.answer.spans) for embedded in answers if embedded.texts is not None]
    lost = []
    if missing := [embedded.answer.source for embedded in answers if embedded.texts is None]:
        problems = "; ".join(logs.problems(frozenset(missing))) or "their texts are too long"
        lost.append(f"{len(missing)} answers are left out, {problems}")
    if ids is not None and ranking.answer_count < len(ids):
        lost.append(f"{ranking.answer_count} answers of the {len(ids)} ids of --records were audited")
    if not whole:
        raise RunError(f"there should be answers to export, there are none: {'; '.join(lost) or 'the audit is empty'}")
    with as_private_as([audit.root]):
        tasks = starmap(_TASKS[arguments.format], whole)
        lines = ",\n".join(json.dumps(task, ensure_ascii=False, allow_nan=False) for task in tasks)
        write_lines(arguments.output, [f"[\n{lines}\n]\n"])
    Messages("attribeam export").say(*lost, *([audit.incomplete] if audit.incomplete else []))


def _record_ids(path: Path) -> list[str]:
    try:
        ids = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--records {path} should be a text file with one record_id a line: {error}") from error
    if not ids:
        raise UsageError(f"--records {path} should have one record_id a line, has none")
    return list(dict.fromkeys(line.removesuffix("\r") for line in ids))


# Marks that people saved on the page are CSV, JSONL or Parquet, one row per marked claim or answer. Rows without a
# label, such as those of people who were unsure, say nothing and are counted. A mark without a reviewer is one of the
# file's, by its path where files share a name.

SUPPORTED, UNSUPPORTED = "supported", "unsupported"
_NEEDED = ("record_id", "label")
_COLUMNS = (
    *_NEEDED, "source_file", "source_row", "span_index", "char_start", "char_end", "text", "mark", "note",
    "reviewer", "marked_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """What people said of the claim at ``chars``, or of a whole answer, which stood in the row ``source`` if known.

    ``text`` are the claim's words as the page showed them, empty where the file has none.
    """

    record_id: str
    chars: CharRange | None
    supported: bool
    source: RowSource | None = None
    text: str = ""

    def may_be_of(self, text: str) -> bool:
        """Whether this may be the marked text: its letters are (spreadsheets rewrite numbers), or one shows none."""
        own, other = ("".join(filter(str.isalpha, side)).casefold() for side in (self.text, text))
        return own == other or not own or not other or MASK in self.text + text


@dataclass(frozen=True, slots=True)
class Marks:
    """What some files of marks say together: one mark per place, in the order of the files.

    ``silent`` counts rows without a label, ``disputed`` places on which reviewers disagree, which are left out.
    """

    marks: tuple[Mark, ...]
    silent: int
    disputed: int


@dataclass(frozen=True, slots=True)
class MergedMarks:
    """Some files of marks as one: per place a row as the page saves it and labels by reviewer; labels of each two."""

    rows: tuple[Mapping[str, object], ...]
    disputed: int
    labels: Sequence[Mapping[str, bool]]
    pairs: Mapping[tuple[str, str], Sequence[tuple[bool, bool]]]


_Target = tuple[str, CharRange | None, RowSource | None]
"""Id, place in the answer and row: what a mark is on."""


class _Vote(NamedTuple):
    target: _Target
    supported: bool | None
    reviewer: str
    moment: str
    row: Mapping[str, object]


def read_marks(files: Sequence[Path]) -> Marks:
    """The marks of all files; of several by one reviewer on one place the newest counts.

    Raises ``DataError`` if a file cannot be read, or a row is not a mark; it names file, row and field.
    """
    votes = [*_marks_in(files)]
    marks, disputed = [], 0
    for (name, chars, source), newest in _newest(votes).items():
        said = [vote for vote in newest if vote.supported is not None]
        labels = {vote.supported for vote in said}
        disputed += len(labels) > 1
        if len(labels) == 1:
            marks.append(Mark(name, chars, labels == {True}, source, str(said[0].row.get("text") or "")))
    return Marks(tuple(marks), silent=sum(vote.supported is None for vote in votes), disputed=disputed)


def merge_marks(files: Sequence[Path], *, moment: str) -> MergedMarks:
    """The marks of all files, one row per place: the newest, or where reviewers disagree one of ``unsure``.

    Such a row has no label, and its note says who says what; the page's filter of marks lists them. Rows are dated
    ``moment`` (ISO 8601), so that a page takes them for newer than its own. Raises as ``read_marks``.
    """
    targets = _newest(_marks_in(files))
    rows, disputed = [], 0
    for newest in targets.values():
        named = sorted((vote for vote in newest if vote.supported is not None), key=lambda vote: vote.reviewer)
        row = dict(max(named or newest, key=lambda vote: vote.moment).row)
        row |= {"reviewer": ", ".join(sorted(vote.reviewer for vote in newest)), "marked_at": moment}
        if len({vote.supported for vote in named}) > 1:
            words = (f"{vote.reviewer}: {SUPPORTED if vote.supported else UNSUPPORTED}" for vote in named)
            row |= {"mark": "unsure", "label": None, "note": f"disputed; {', '.join(words)}"}
            disputed += 1
        rows.append(row)
    labels = [{vote.reviewer: vote.supported for vote in own if vote.supported is not None} for own in targets.values()]
    reviewers = sorted({name for votes in labels for name in votes})
    pairs = {
        (first, second): [(votes[first], votes[second]) for votes in labels if first in votes and second in votes]
        for first, second in combinations(reviewers, 2)
    }
    return MergedMarks(tuple(rows), disputed, labels, {names: both for names, both in pairs.items() if both})


def cohen_kappa(labels: Sequence[tuple[bool, bool]]) -> float:
    """How far two reviewers agree beyond what chance gives them, at most 1; 1 where both have but one label."""
    first, second = (fmean(both) for both in zip(*labels, strict=True))
    chance = first * second + (1 - first) * (1 - second)
    return (fmean(left == right for left, right in labels) - chance) / (1 - chance) if chance < 1 else 1.0


def krippendorff_alpha(labels: Sequence[Mapping[str, bool]]) -> float:
    """How far reviewers agree beyond chance, at most 1, given each place's labels by reviewer, who may lack some.

    1 where there is but one label, NaN where no place has two. Raises ``ImportError`` if the package krippendorff is
    missing.
    """
    from krippendorff import alpha

    several = [votes for votes in labels if len(votes) > 1]
    if not several:
        return math.nan
    if len({label for votes in several for label in votes.values()}) == 1:
        return 1.0
    reviewers = sorted({name for votes in several for name in votes})
    table = [[float(votes[name]) if name in votes else math.nan for votes in several] for name in reviewers]
    return float(alpha(reliability_data=table, level_of_measurement="nominal"))


def _newest(votes: Iterable[_Vote]) -> dict[_Target, list[_Vote]]:
    """The newest mark of each reviewer, by place."""
    newest: dict[_Target, dict[str, _Vote]] = {}
    for vote in votes:
        newest_here = newest.setdefault(vote.target, {})
        if vote.reviewer not in newest_here or newest_here[vote.reviewer].moment <= vote.moment:
            newest_here[vote.reviewer] = vote
    return {target: [*own.values()] for target, own in newest.items()}


def marks_by_answer(marks: Iterable[Mark], answers: Iterable[tuple[str, RowSource]]) -> dict[RowSource, list[Mark]]:
    """The marks of each answer that has some, given the ids and rows of an audit's answers.

    A mark is of the answer with its id. Where several answers have this id, as behind masks, it is of the one in its
    row.
    """
    rows: defaultdict[str, set[RowSource]] = defaultdict(set)
    for record_id, source in answers:
        rows[record_id].add(source)
    by_id: defaultdict[str, list[Mark]] = defaultdict(list)
    for mark in marks:
        by_id[mark.record_id].append(mark)
    by_row: dict[RowSource, list[Mark]] = {}
    for record_id, own in by_id.items():
        sources = rows[record_id]
        is_one = len(sources) == 1 and len({mark.source for mark in own} - {None}) <= 1
        for mark in own:
            row = next(iter(sources)) if is_one else mark.source
            if row is not None and row in sources:
                by_row.setdefault(row, []).append(mark)
    return by_row


def _marks_in(files: Sequence[Path]) -> Iterator[_Vote]:
    stems = [file.stem for file in files]
    for file in files:
        name = file.stem if stems.count(file.stem) == 1 else str(file)
        for number, row in enumerate(_rows(file), start=1):
            if number == 1 and (missing := [column for column in _NEEDED if column not in row]):
                raise DataError(
                    f"marks file {file} should have the columns {' and '.join(_NEEDED)}, lacks "
                    f"{' and '.join(missing)}; save the marks on a page that this version wrote (Marks, Save as)"
                )
            yield _vote(row, f"marks file {file}, row {number}", name)


def _vote(row: Mapping[str, object], where: str, reviewer: str) -> _Vote:
    record_id, label = row.get("record_id"), row.get("label") or None
    # JSON may hold a half of a character, which no id of an audit has.
    if not isinstance(record_id, str) or not record_id or re.search("[\ud800-\udfff]", record_id):
        raise DataError(f"{where}: record_id should be the id of an audited answer, was: {record_id!r}")
    if label not in (SUPPORTED, UNSUPPORTED, None):
        raise DataError(f"{where}: label should be {SUPPORTED!r}, {UNSUPPORTED!r} or empty, was: {label!r}")
    fields = (row.get(name) for name in ("char_start", "char_end", "source_file", "source_row"))
    start, end, file, number = (None if field == "" else field for field in fields)
    try:
        chars = None if start is end is None else CharRange(int(str(start)), int(str(end)))
    except ValueError as error:
        raise DataError(
            f"{where}: char_start and char_end should be the claim's place in the answer, or empty for a mark on the "
            f"whole answer, were: {start!r} and {end!r}"
        ) from error
    try:
        source = None if file is None or number is None else RowSource(str(file), int(str(number)))
    except ValueError as error:
        raise DataError(f"{where}: source_row should be the number of a row, was: {number!r}") from error
    supported = None if label is None else label == SUPPORTED
    moment = str(row.get("marked_at") or "")
    return _Vote((record_id, chars, source), supported, str(row.get("reviewer") or reviewer), moment, row)


def _rows(file: Path) -> Iterator[Mapping[str, object]]:
    readers = {".csv": _csv_rows, ".jsonl": _json_rows, ".ndjson": _json_rows, ".parquet": _parquet_rows}
    if file.suffix.lower() not in readers:
        raise DataError(f"marks file {file} should end in {', '.join(readers)}, as the page saves marks")
    try:
        yield from readers[file.suffix.lower()](file)
    except DataError:
        raise
    except (OSError, ValueError, LookupError, ArithmeticError, csv.Error, pa.ArrowException) as error:
        raise DataError(f"marks file {file} cannot be read: {' '.join(str(error).split())}") from error


def _csv_rows(file: Path) -> Iterator[Mapping[str, object]]:
    """Rows of a CSV; the apostrophe that the page puts before what a spreadsheet takes for a formula goes."""
    with file.open(encoding="utf-8-sig", newline="") as lines:
        for row in csv.DictReader(lines):
            named = ((name, value) for name, value in row.items() if name is not None)
            yield {name: value and re.sub(r"^'(?=[-=+@\t\r])", "", value) for name, value in named}


def _json_rows(file: Path) -> Iterator[Mapping[str, object]]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            expected = f"marks file {file}, line {number}: should be a JSON object"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{expected}, is none: {error}") from error
            if not isinstance(row, dict):
                raise DataError(f"{expected}, was: {type(row).__name__}")
            yield row


def _parquet_rows(file: Path) -> Iterator[Mapping[str, object]]:
    """Rows of a Parquet file; times, which Python's own could not hold, become texts as in the other formats."""
    table = pq.read_table(file, columns=[name for name in pq.read_schema(file).names if name in _COLUMNS])
    for index, column in enumerate(table.columns):
        if pa.types.is_temporal(column.type):
            texts = pc.replace_substring(column.cast(pa.string()), " ", "T")
            table = table.set_column(index, table.column_names[index], texts)
    yield from table.to_pylist()

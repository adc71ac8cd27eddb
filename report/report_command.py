"""Write what an audit found: as a page to look at, as rows, or as a digest."""

from __future__ import annotations

import argparse
import base64
import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.report.answer_ranking import rank_answers
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audit_summary import comparison_remark
from attribeam.report.audited_answer import TEXTS_HELP, AuditedLogs, EmbeddedAnswer, embedded_answers
from attribeam.report.messages import (
    STANDARD_OUTPUT,
    Messages,
    as_private_as,
    check_output,
    harmless,
    one_line,
    write_lines,
)
from attribeam.schemas import VERDICTS, AnswerKind, SpanEvidence, Support
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.files import check_apart

_MESSAGES = Messages("attribeam report")
HTML, MARKDOWN, CSV, JSONL = "html", "md", "csv", "jsonl"
EVIDENCE, DEAD_LETTERS = "evidence", "dead_letters"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam report``."""
    add = parser.add_argument
    add("--audit", required=True, metavar="DIR", help="the output directory of attribeam audit, or its URI")
    add("--output", required=True, metavar="FILE", help="the file to write; - for standard output, not with html")
    add(
        "--format", choices=[HTML, CSV, JSONL, MARKDOWN],
        help="html: a page; csv, jsonl: all rows, csv for spreadsheets; md: a digest of the riskiest answers "
        "(default: as --output ends, else html)",
    )  # fmt: skip
    add(
        "--rows", choices=[EVIDENCE, DEAD_LETTERS], default=EVIDENCE,
        help="rows to write with csv and jsonl (default: %(default)s)",
    )  # fmt: skip
    add("--previous", metavar="DIR", help="an earlier audit to compare the page's figures with")
    add(
        "--answers", type=positive_count, metavar="N",
        help="the most answers in a page or digest, riskiest first (default: 1000 in html, 50 in md)",
    )  # fmt: skip
    add("--title", type=one_line, metavar="TEXT", help="the page's title (default: the log's name, or its folder's)")
    add("--texts", action="store_true", help=f"{TEXTS_HELP}; with {HTML} and {MARKDOWN}")


def run(arguments: argparse.Namespace) -> None:
    """Write the report.

    Raises ``UsageError`` if the options do not go together, or there is no such audit; ``RunError`` if something cannot
    be read or written.
    """
    ending = arguments.output.rpartition(".")[2]
    arguments.format = arguments.format or (ending if ending in (CSV, JSONL, MARKDOWN) else HTML)
    wanted = arguments.format
    for option, is_given, formats in (
        ("--previous", arguments.previous is not None, (HTML,)),
        ("--answers", arguments.answers is not None, (HTML, MARKDOWN)),
        ("--texts", arguments.texts, (HTML, MARKDOWN)),
        ("--title", arguments.title is not None, (HTML,)),
        ("--rows", arguments.rows != EVIDENCE, (CSV, JSONL)),
    ):
        if is_given and wanted not in formats:
            raise UsageError(f"{option} goes with --format {' or '.join(formats)} only, found {wanted}")
    if wanted == HTML and arguments.output == STANDARD_OUTPUT:
        raise UsageError("--output - goes with the other formats; name a file for the page")
    check_output(arguments.output)
    audit = AuditDirectory.open(arguments.audit)
    check_apart(arguments.output, audit.files)
    if wanted == HTML:
        _write_page(arguments, audit)
    else:
        with as_private_as([audit.root]):
            write_lines(arguments.output, _output_parts(arguments, audit))
    if audit.incomplete:
        _MESSAGES.say(audit.incomplete)


def _write_page(arguments: argparse.Namespace, audit: AuditDirectory) -> None:
    from attribeam.report.html_page import DEFAULT_PAGE_ANSWERS, html_page

    previous = None if arguments.previous is None else AuditDirectory.open(arguments.previous)
    check_apart(arguments.output, () if previous is None else previous.files)
    answers = arguments.answers or DEFAULT_PAGE_ANSWERS
    page = html_page(audit, previous=previous, answers=answers, texts=arguments.texts, title=arguments.title)
    with as_private_as([audit.root] if previous is None else [audit.root, previous.root]):
        write_lines(arguments.output, [page])
    if previous is not None and (remark := comparison_remark(audit, previous)):
        _MESSAGES.say(remark)


def _output_parts(arguments: argparse.Namespace, audit: AuditDirectory) -> Iterator[str]:
    if arguments.format == MARKDOWN:
        answers = arguments.answers or DEFAULT_DIGEST_ANSWERS
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


# Rows come as CSV for spreadsheets, in which no cell can act as a formula, and as JSON lines. Both turn values of any
# Arrow type into plain ones first.

PlainValue = str | int | float | bool | None | Sequence["PlainValue"] | Mapping[str, "PlainValue"]
"""A value that JSON can hold."""


def plain_rows(batch: pa.RecordBatch) -> Iterator[tuple[PlainValue, ...]]:
    """The rows of a batch, values in the order of its columns.

    Times are texts in ISO 8601, to the nanosecond if the column is; bytes are Base64, durations seconds; NaN and
    infinity, which JSON lacks, are None. Raises ``RunError`` if Python has no type for a value of a column.
    """
    return zip(*(_values(name, batch.column(name)) for name in batch.schema.names), strict=True)


def _values(name: str, column: pa.Array) -> list[PlainValue]:
    try:
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            texts = column.cast(pa.string()).to_pylist()  # such as "2026-11-19 02:00:00.000000001Z"
            return [text and text.replace(" ", "T", 1) for text in texts]
        values: list[PlainValue] = column.to_pylist()
        return values if _is_plain(column) else [_plain(value) for value in values]
    except (ValueError, KeyError, OverflowError) as error:
        raise RunError(f"column {name!r} of type {column.type} cannot be written as text: {error}") from error


def _is_plain(column: pa.Array) -> bool:
    """Whether JSON can hold all values of a column as they are, which saves a walk through nested ones."""
    kind = column.type
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return bool(pc.all(pc.is_finite(column), min_count=0).as_py())
    if pa.types.is_list(kind):
        return _is_plain(column.flatten())
    if pa.types.is_struct(kind):
        return all(map(_is_plain, column.flatten()))
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _plain(value: object) -> PlainValue:
    match value:
        case None | str() | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case date() | time():  # a datetime is a date
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Decimal():
            return str(value)
    raise ValueError(f"there is no text for a {type(value).__name__}")


BYTE_ORDER_MARK = "\ufeff"


def csv_lines(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """A byte order mark and the column names, then one record per row (RFC 4180).

    Lists and structs are JSON. A text that a spreadsheet might take for a formula gets a leading apostrophe.
    """
    yield BYTE_ORDER_MARK + _csv_records([schema.names])
    for batch in batches:
        yield _csv_records(plain_rows(batch))


def _csv_records(rows: Iterable[Sequence[PlainValue]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(map(_csv_cell, row) for row in rows)
    return text.getvalue()


def _csv_cell(value: PlainValue) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    # Some spreadsheets skip white space before a formula; a tab or line break may start a cell.
    is_formula = text.lstrip().startswith(tuple("=+-@＝＋－＠")) or text.startswith(("\t", "\r", "\n"))
    return f"'{text}" if is_formula else text


def jsonl_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """One line per row, line feed included; fields in the order of the schema."""
    for batch in batches:
        for row in plain_rows(batch):
            fields = dict(zip(batch.schema.names, row, strict=True))
            yield json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"


# A digest in Markdown has the figures of an audit, then its riskiest answers.

DEFAULT_DIGEST_ANSWERS = 50
_LONGEST_SPAN = 200


def digest_lines(audit: AuditDirectory, *, answers: int, texts: bool = False) -> Iterator[str]:
    """The digest line by line, with at most ``answers`` answers, riskiest first.

    ``texts`` shows texts from the logs although the audit wrote none.
    """
    ranking = rank_answers(audit, answers)
    yield from _figures(audit)
    if ranking.answer_count:
        yield f"\n## The {len(ranking.riskiest):,} riskiest of {ranking.answer_count:,} audited answers\n"
    embedded = embedded_answers(audit, AuditedLogs.of(audit, texts=texts), ranking.riskiest)
    for number, answer in enumerate(embedded, start=1):
        yield from _answer(number, answer)


def _figures(audit: AuditDirectory) -> Iterator[str]:
    manifest, counts = audit.manifest, audit.counts
    inputs = ", ".join(escape_markdown(file.path) for file in manifest.inputs)
    yield f"# Audit of {inputs}\n"
    yield f"Status: {manifest.status}, started at {manifest.started_at}, attribeam {manifest.attribeam_version}.\n"
    notes = [str(note) for file in manifest.inputs for note in file.notes]
    cut = [] if manifest.cut_passages is None else [str(manifest.cut_passages)]
    yield from (f"- {escape_markdown(note)}\n" for note in (*cut, *notes))
    yield "| | | share |\n|---|---:|---:|"
    rows, claims = counts.rows, counts.claim_count
    figures: list[tuple[str, int, int | None]] = [
        ("rows", rows, None),
        ("audited", counts.audited, rows),
        ("dead letters", counts.dead_lettered, rows),
        *((f"dead letters: `{letter.reason}`", letter.rows, rows) for letter in counts.dead_letters),
        ("claims", claims, None),
        *((str(support), counts.claims.get(support, 0), claims) for support in VERDICTS),
    ]
    for support in (Support.NOT_CALIBRATED, Support.NO_CLAIM, Support.NOT_JUDGED):
        if spans := counts.claims.get(support, 0):
            figures.append((f"spans with support `{support}`", spans, None))
    for kind in (AnswerKind.REFUSAL, AnswerKind.PARTIAL):
        if answers := counts.answers.get(kind, 0):
            figures.append((f"answers of the kind `{kind}`", answers, counts.audited))
    for name, count, whole in figures:
        yield f"| {name} | {count:,} | {f'{count / whole:.1%}' if whole else ''} |"


def _answer(number: int, embedded: EmbeddedAnswer) -> Iterator[str]:
    answer = embedded.answer
    standing = f"not judged: {', '.join(answer.not_judged) or 'nothing in it can be'}"
    if embedded.risk is not None:
        kinds = {AnswerKind.REFUSAL: ", a refusal", AnswerKind.PARTIAL: ", refuses in part"}
        standing = f"risk {embedded.risk:.2f}{kinds.get(answer.kind, '')}"
    yield f"### {number}. {escape_markdown(answer.record_id)} ({standing})\n"
    facts = "".join(f", {escape_markdown(fact)}" for fact in (answer.moment, answer.generator) if fact is not None)
    yield f"{escape_markdown(answer.source.source_file)}, row {answer.source.source_row}{facts}\n"
    if embedded.texts is not None:
        for title, text in (("Question", embedded.texts.question), ("Answer", embedded.texts.answer)):
            yield f"> **{title}:**"
            yield from (f"> {escape_markdown(line)}  " for line in harmless(text).split("\n"))
            yield ""
    claims = [span for span in answer.spans if span.is_claim]
    worth = [span for span in claims if span.support is not Support.SUPPORTED or span.unmatched_values]
    if worth:
        yield "| support | score | on evidence | claim | not in the passages | best evidence |"
        yield "|---|---:|---:|---|---|---|"
        yield from map(_span, worth)
    yield f"\nSupported claims besides: {len(claims) - len(worth)}.\n"


def _span(span: SpanEvidence) -> str:
    best = f"passage {span.evidence[0].passage_index + 1}: {_cut(span.evidence[0].text)}" if span.evidence else "none"
    cells = (
        f"{span.support}: {_cut(span.why)}" if span.why else str(span.support),
        "" if span.support_score is None else f"{span.support_score:.2f}",
        "" if span.evidence_mass is None else f"{span.evidence_mass:.0%}",
        _cut(span.text),
        ", ".join(map(escape_markdown, span.unmatched_values)),
        best,
    )
    return f"| {' | '.join(cells)} |"


def _cut(text: str) -> str:
    return escape_markdown(text if len(text) <= _LONGEST_SPAN else f"{text[:_LONGEST_SPAN]}…")


def escape_markdown(text: str) -> str:
    """The text on one line, escaped so that Markdown shows it as it is: no markup, HTML, table cell or link."""
    marked = re.sub(r"([\\`*_{}\[\]<>|~$&#@])", r"\\\1", one_line(text))
    marked = marked.replace("://", r"\://").replace("www.", r"www\.")
    # What starts a list, too; after a number, that is the mark that follows it.
    return re.sub(r"^(\s*\d+)(?=[.)])", r"\1\\", re.sub(r"^(\s*)([-+=])", r"\1\\\2", marked))

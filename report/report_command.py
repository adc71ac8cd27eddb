"""Write what an audit found: as a page to look at, as rows, or as a digest."""

from __future__ import annotations

import argparse
import base64
import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audit_summary import comparison_remark
from attribeam.report.audited_logs import TEXTS_HELP
from attribeam.report.messages import Messages, one_line
from attribeam.report.output_file import STANDARD_OUTPUT, as_private_as, check_output, write_lines
from attribeam.schemas.errors import RunError, UsageError

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
    add("--previous", metavar="DIR", help="an earlier audit to compare the page's figures with")
    add(
        "--answers", type=positive_count, metavar="N",
        help="the most answers in a page or digest, riskiest first (default: 1000 in html, 50 in md)",
    )  # fmt: skip
    add(
        "--title", type=one_line, metavar="TEXT", help="the page's title (default: the log's name, or its folder's)"
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
        _write_page(arguments, audit)
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


def _write_page(arguments: argparse.Namespace, audit: AuditDirectory) -> None:
    from attribeam.report.html_page import DEFAULT_PAGE_ANSWERS, write_html_report

    answers = arguments.answers or DEFAULT_PAGE_ANSWERS
    previous = None if arguments.previous is None else AuditDirectory.open(arguments.previous)
    write_html_report(
        audit,
        Path(arguments.output),
        previous=previous,
        answers=answers,
        texts=arguments.texts,
        title=arguments.title,
    )
    if previous is not None and (remark := comparison_remark(audit, previous)):
        _MESSAGES.say(remark)


def _output_parts(arguments: argparse.Namespace, audit: AuditDirectory) -> Iterator[str]:
    if arguments.format == MARKDOWN:
        from attribeam.report.markdown_digest import DEFAULT_DIGEST_ANSWERS, digest_lines

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


def plain_rows(batch: pa.RecordBatch) -> Iterator[list[PlainValue]]:
    """The rows of a batch, values in the order of its columns.

    Times are texts in ISO 8601, to the nanosecond if the column is; bytes are Base64, durations seconds; NaN and
    infinity, which JSON lacks, are None.

    Raises:
        RunError: if Python has no type for a value of a column.
    """
    columns = [_values(name, batch.column(name)) for name in batch.schema.names]
    yield from map(list, zip(*columns, strict=True))


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
    """True if JSON can hold all values of a column as they are, which saves a walk through nested ones."""
    kind = column.type
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return bool(pc.all(pc.is_finite(column), min_count=0).as_py())
    if pa.types.is_list(kind):
        return _is_plain(column.flatten())
    if pa.types.is_struct(kind):
        return all(_is_plain(part) for part in column.flatten())
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
_FORMULA_STARTS = tuple("=+-@＝＋－＠")
_CELL_BREAKS = ("\t", "\r", "\n")


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
    return f"'{text}" if _looks_like_formula(text) else text


def _looks_like_formula(text: str) -> bool:
    """True also after white space, which some spreadsheets skip, and at a tab or line break, which may start a cell."""
    return text.lstrip().startswith(_FORMULA_STARTS) or text.startswith(_CELL_BREAKS)


def jsonl_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """One line per row, line feed included; fields in the order of the schema."""
    for batch in batches:
        names = batch.schema.names
        for row in plain_rows(batch):
            fields = dict(zip(names, row, strict=True))
            yield json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"

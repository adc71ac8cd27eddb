"""``attribeam import``: turn the log of another tool, a published data set, or labelled spans into a QA log of our own.

Answers that an audit of the log would refuse are left out, each with a reason. Logs of trace stores get a file of dead
letters beside the log; a data set brings its labels, and so does an export of Label Studio or Argilla.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from attribeam.attribution.option_declaration import positive_integer
from attribeam.evaluation.datasets.dataset_file import (
    JudgedAnswer,
    JudgedDataset,
    LabelledAnswer,
    LabelledDataset,
    SkippedRow,
)
from attribeam.evaluation.datasets.loaders import CITED_LOADERS, JUDGED_LOADERS, LOADERS, LOG, MARKS
from attribeam.evaluation.datasets.marked_spans import LABELLING_TOOLS, load_marked_spans
from attribeam.logs.columns import LogOptions, parse_column_mapping
from attribeam.logs.files import ArrowStorage, match_files
from attribeam.logs.import_run import (
    add_trace_arguments,
    check_apart,
    check_output,
    given_trace_options,
    import_foreign_log,
    log_formats,
)
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import reader_named
from attribeam.report.labelling import cohen_kappa, krippendorff_alpha, merge_marks
from attribeam.report.messages import print_lines
from attribeam.schemas import QARecord
from attribeam.schemas.errors import DataError, RunError, UsageError
from attribeam.schemas.qa_record import (
    ANSWER_SUPPORTED,
    ERROR_KINDS,
    FAITHFULNESS,
    LABEL_GROUP,
    SPAN_LABELS,
    UNSUPPORTED_SPANS,
    labelled_log_schema,
)
from attribeam.schemas.written_files import new_file

LogAnswer = LabelledAnswer | JudgedAnswer
LogRow = dict[str, object]

_ROWS_PER_BATCH = 256


def write_log(path: Path, answers: Iterable[LogAnswer]) -> int:
    """Write one row per answer and return their number; the file is replaced atomically.

    Raises:
        OSError: if it cannot be written.
    """
    schema, rows = labelled_log_schema(), map(log_row, answers)
    with new_file(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while some := list(islice(rows, _ROWS_PER_BATCH)):
            writer.write_table(pa.Table.from_pylist(some, schema=schema))
    return int(pq.read_metadata(path).num_rows)


def log_row(answer: LogAnswer) -> LogRow:
    """The row of an answer; columns that its data set has no values for are null."""
    if isinstance(answer, LabelledAnswer):
        return _record_row(answer.record) | {SPAN_LABELS: list(_span_labels(answer))}
    if answer.judged is not None:
        lacking, spans = {one.chars for one in answer.unsupported or ()}, answer.record.target_spans or answer.judged
        said = [None if span not in answer.judged else span not in lacking for span in spans]
        return _record_row(answer.record) | {SPAN_LABELS: [{"supported": one} for one in said]}
    marked = answer.unsupported
    return _record_row(answer.record) | {
        UNSUPPORTED_SPANS: None if marked is None else [asdict(one.chars) | {"kind": one.kind} for one in marked],
        LABEL_GROUP: answer.group,
        ANSWER_SUPPORTED: answer.answer_supported,
        FAITHFULNESS: answer.faithfulness,
        ERROR_KINDS: list(answer.error_kinds) or None,
        "split": answer.split,
    }


def _record_row(record: QARecord) -> LogRow:
    spans = record.target_spans
    return {
        "record_id": record.record_id,
        "question": record.question,
        "passages": [*map(asdict, record.passages)],
        "answer": record.answer,
        "target_spans": None if spans is None else [*map(asdict, spans)],
        "generator": record.generator,
    }


def _span_labels(answer: LabelledAnswer) -> Iterator[LogRow]:
    for index in range(len(answer.spans)):
        marked = answer.gold_evidence[index] if answer.gold_evidence else ()
        evidence = [{"passage_index": one.passage_index, **asdict(one.chars)} for one in marked]
        yield {
            "gold_passages": sorted(answer.gold_passages[index]) if answer.gold_passages else None,
            "gold_evidence": evidence if answer.gold_evidence else None,
            "cited_passages": list(answer.citations[index]) if answer.citations else None,
            "supported": None,
        }


_SURROGATE = re.compile("[\ud800-\udfff]")


def importable(answers: Sequence[LogAnswer]) -> tuple[list[LogAnswer], list[SkippedRow]]:
    """The answers that an audit accepts, the first one of each id, and all other rows with a reason.

    The reasons are ``invalid_unicode`` (half of a surrogate pair, which JSON can express but UTF-8 cannot),
    ``no_record_id`` (an empty id), ``no_passages`` (no passage has text) and ``duplicate_record_id`` (the id of an
    earlier row).
    """
    several = len({answer.record.source.source_file for answer in answers}) > 1
    kept: dict[str, LogAnswer] = {}
    skipped = []
    for answer in answers:
        reason = _refusal(answer)
        if reason is None and kept.setdefault(answer.record.record_id, answer) is not answer:
            reason = "duplicate_record_id"
        if reason is not None:
            source = answer.record.source
            skipped.append(SkippedRow(source.source_row, reason, source.source_file if several else None))
    return [*kept.values()], skipped


def _refusal(answer: LogAnswer) -> str | None:
    """The reason why no log can hold the answer, regardless of other rows."""
    if _SURROGATE.search(json.dumps(log_row(answer), ensure_ascii=False)):
        return "invalid_unicode"
    if not answer.record.record_id:
        return "no_record_id"
    return None if any(one.text.strip() for one in answer.record.passages) else "no_passages"


_LOADERS: dict[str, Callable[[Path], LabelledDataset | JudgedDataset]] = {**LOADERS, **CITED_LOADERS, **JUDGED_LOADERS}
del _LOADERS[LOG]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``attribeam import``."""
    names = [*_LOADERS, *LABELLING_TOOLS, MARKS, *log_formats()]
    add = parser.add_argument
    add(
        "source", choices=names, metavar="FORMAT", help=f"data set, labelling tool, marks or format: {', '.join(names)}"
    )
    add("files", nargs="*", metavar="PATH", help="the same as --data, right behind FORMAT")
    add(
        "--data", default=[], nargs="+", metavar="PATH",
        help="logs, or folders or patterns of them; of a data set its file, or the directory of its files",
    )  # fmt: skip
    add("--output", type=Path, metavar="LOG.parquet", help="the log to write")
    add("--limit", type=positive_integer, metavar="N", help="only the first N answers")
    add("--overwrite", action="store_true", help="replace --output if it exists")
    add("--log", nargs="+", metavar="PATH", help="the logs that label-studio or argilla has labels of, as for --data")
    add("--log-format", metavar="NAME", help="the format of --log (default: parquet)")
    add("--columns", metavar="FIELD=COLUMN,...", help="of --log, or for a format that another package brings")
    add_trace_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Import the data set or the log, and print what happened to its rows.

    Raises:
        UsageError: if no file is named, ``--output`` cannot be written to, or an option says nothing to the format.
        DataError, RunError: as ``import_dataset`` and ``import_foreign_log``.
    """
    args.data = [*args.data, *args.files]
    if not args.data:
        raise UsageError(f"name the files of {args.source} behind it, or with --data")
    _check_log_options(args)
    if args.source == MARKS:
        print_lines(*import_marks([Path(path) for path in args.data], args.output, overwrite=args.overwrite))
        return
    if args.source not in _LOADERS and args.source not in LABELLING_TOOLS:
        print_lines(*import_foreign_log(args))
        return
    of_spans = args.source in LABELLING_TOOLS
    given = [*given_trace_options(args), *(["--columns"] if args.columns is not None and not of_spans else [])]
    if given:
        raise UsageError(f"{given[0]} says nothing to {args.source}, which is a data set; leave it out")
    if len(args.data) != 1:
        raise UsageError(f"--data of {args.source} should be one path, were {len(args.data)}")
    check_output(args.output, overwrite=args.overwrite)
    data = Path(args.data[0])
    check_apart(args.output, args.data)
    if of_spans:
        logs = _logs(args)
        check_apart(args.output, [log.path for log in logs])
        dataset: LabelledDataset | JudgedDataset = load_marked_spans(LABELLING_TOOLS[args.source](data), logs)
    else:
        dataset = _LOADERS[args.source](data)
    print_lines(*import_dataset(dataset, args))


def import_marks(files: Sequence[Path], output: Path | None, *, overwrite: bool) -> Iterator[str]:
    """Merge the marks of several people into one file of JSON lines; how far they agree, in lines.

    Raises:
        UsageError: if the output cannot be written to, or does not end in ``.jsonl``.
        DataError: if a file of marks cannot be read.
        RunError: if the merged file cannot be written.
    """
    check_output(output, overwrite=overwrite)
    if output is None or output.suffix != ".jsonl":
        raise UsageError(f"--output of marks should end in .jsonl, was: {output}")
    check_apart(output, list(map(str, files)))
    merged = merge_marks(files, moment=datetime.now(UTC).isoformat(timespec="milliseconds"))
    try:
        with new_file(output) as file:
            file.writelines(f"{json.dumps(row, default=str)}\n".encode() for row in merged.rows)
    except OSError as error:
        raise RunError(f"--output {output} could not be written: {error}") from error
    yield f"{len(merged.rows):,} places are marked, reviewers disagree on {merged.disputed:,}"
    for names, both in merged.pairs.items():
        alike = sum(one == other for one, other in both) / len(both)
        agreement = f"{len(both):,} marked by both, {alike:.1%} alike, Cohen's kappa {cohen_kappa(both):.2f}"
        yield f"{' and '.join(names)}: {agreement}"
    if merged.pairs:
        yield f"all together: Krippendorff's alpha {_alpha(merged.labels)}"
    yield f"written to {output}; imported on the page, its filter “Mark: unsure” lists where reviewers disagree"


def _alpha(labels: Sequence[Mapping[str, bool]]) -> str:
    try:
        return f"{krippendorff_alpha(labels):.2f}"
    except ImportError:
        return "needs a package that is not installed: pip install 'attribeam[agreement]'"


def _check_log_options(args: argparse.Namespace) -> None:
    of_spans = args.source in LABELLING_TOOLS
    if of_spans and args.log is None:
        raise UsageError(f"--log is needed for {args.source}: the logs that the answers are from, such as logs.parquet")
    for name, value in (("--log", args.log), ("--log-format", args.log_format)):
        if value is not None and not of_spans:
            raise UsageError(f"{name} says nothing to {args.source}; leave it out")


def _logs(args: argparse.Namespace) -> list[QALog]:
    options = LogOptions(parse_column_mapping(args.columns or ""), format=args.log_format or LogOptions().format)
    storage = ArrowStorage()
    paths, _ = match_files(args.log, reader_named(options.format).suffix, storage, option="--log")
    return [QALog(path, options, storage) for path in paths]


def import_dataset(dataset: LabelledDataset | JudgedDataset, args: argparse.Namespace) -> list[str]:
    """Write the log; the counts, and the skipped rows by reason. Rows that an audit would refuse are skipped.

    Raises:
        DataError: if the log would have no rows.
        RunError: if it cannot be written.
    """
    dataset = dataset if args.limit is None else dataset.first(args.limit)
    kept, refused = importable(dataset.answers)
    skipped = sorted([*dataset.skipped, *refused], key=lambda one: (one.file or "", one.row))
    if not kept:
        raise DataError(
            f"{args.source} data {args.data[0]} should have rows that can be imported, has none: {_reasons(skipped)}"
        )
    written, rows = _write(args.output, kept), len(dataset.answers) + len(dataset.skipped)
    if rows != written + len(skipped):
        raise RuntimeError(
            f"each of the {rows} rows should be written or skipped, {written} were written and {len(skipped)} skipped"
        )
    lines = [f"{rows} rows read, {written} written to {args.output}, {len(skipped)} skipped"]
    for reason, places in _reasons(skipped).items():
        lines.append(f"skipped, {reason}: {len(places)} rows: {', '.join(map(str, places))}")
    return lines


def _write(output: Path, answers: Iterable[LogAnswer]) -> int:
    try:
        return write_log(output, tqdm(answers, desc="import", unit="row", disable=None))
    except OSError as error:
        raise RunError(f"--output {output} could not be written: {error}") from error


def _reasons(skipped: Iterable[SkippedRow]) -> Mapping[str, list[int | str]]:
    rows: dict[str, list[int | str]] = {}
    for one in skipped:
        rows.setdefault(one.reason, []).append(one.row if one.file is None else f"{one.file} row {one.row}")
    return dict(sorted(rows.items()))

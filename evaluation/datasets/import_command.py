"""Turn the log of another tool, a published data set, or labelled spans into a QA log of our own.

Answers that an audit of the log would refuse are left out, each with a reason. Logs of trace stores get a file of dead
letters beside the log; a data set brings its labels, and so does an export of Label Studio or Argilla.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
from tqdm import tqdm

from attribeam.attribution.option_declaration import positive_integer
from attribeam.evaluation.datasets import CITED_LOADERS, JUDGED_LOADERS, LOADERS, LOG, MARKS, dataset_file
from attribeam.evaluation.datasets.labelled_log import LABELLING_TOOLS, load_marked_spans
from attribeam.logs.columns import LogOptions, parse_column_mapping
from attribeam.logs.files import ArrowStorage, match_files
from attribeam.logs.import_run import (
    add_trace_arguments,
    check_output,
    given_trace_options,
    import_foreign_log,
    log_formats,
)
from attribeam.logs.qa_log import QALog
from attribeam.logs.reader import reader_named
from attribeam.logs.traces.trace_log import TableFile
from attribeam.report.labelling import cohen_kappa, krippendorff_alpha, merge_marks
from attribeam.report.messages import print_lines
from attribeam.schemas import qa_record
from attribeam.schemas.errors import DataError, UsageError
from attribeam.schemas.files import check_apart, new_file, writing

_Answer = dataset_file.LabelledAnswer | dataset_file.JudgedAnswer
_Dataset = dataset_file.LabelledDataset | dataset_file.JudgedDataset
_SURROGATE = re.compile("[\ud800-\udfff]")
_LOADERS: dict[str, Callable[[Path], _Dataset]] = {**LOADERS, **CITED_LOADERS, **JUDGED_LOADERS}
del _LOADERS[LOG]


def add_arguments(parser: argparse.ArgumentParser) -> None:
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

    Raises ``UsageError`` if no file is named, ``--output`` cannot be written to, or an option says nothing to the
    format; ``DataError`` if the data is not in its format, or the log would have no rows; ``RunError`` if the log
    cannot be written.
    """
    source, output, of_spans = args.source, args.output, args.source in LABELLING_TOOLS
    args.data = [*args.data, *args.files]
    if not args.data:
        raise UsageError(f"name the files of {source} behind it, or with --data")
    if of_spans and args.log is None:
        raise UsageError(f"--log is needed for {source}: the logs that the answers are from, such as logs.parquet")
    for name, value in (("--log", args.log), ("--log-format", args.log_format)):
        if value is not None and not of_spans:
            raise UsageError(f"{name} says nothing to {source}; leave it out")
    if source == MARKS:
        print_lines(*_import_marks([Path(path) for path in args.data], output, overwrite=args.overwrite))
        return
    if source not in _LOADERS and not of_spans:
        print_lines(*import_foreign_log(args))
        return
    given = [*given_trace_options(args), *(["--columns"] if args.columns is not None and not of_spans else [])]
    if given:
        raise UsageError(f"{given[0]} says nothing to {source}, which is a data set; leave it out")
    if len(args.data) != 1:
        raise UsageError(f"--data of {source} should be one path, were {len(args.data)}")
    check_output(output, overwrite=args.overwrite)
    check_apart(output, args.data)
    data = Path(args.data[0])
    if of_spans:
        options = LogOptions(parse_column_mapping(args.columns or ""), format=args.log_format or LogOptions().format)
        storage = ArrowStorage()
        paths, _ = match_files(args.log, reader_named(options.format).suffix, storage, option="--log")
        check_apart(output, paths)
        logs = [QALog(path, options, storage) for path in paths]
        dataset: _Dataset = load_marked_spans(LABELLING_TOOLS[source](data), logs)
    else:
        dataset = _LOADERS[source](data)
    print_lines(*_import_dataset(dataset if args.limit is None else dataset.first(args.limit), args))


def _import_marks(files: Sequence[Path], output: Path | None, *, overwrite: bool) -> Iterator[str]:
    """Merge the marks of several people into one file of JSON lines; how far they agree, in lines."""
    check_output(output, overwrite=overwrite)
    if output is None or output.suffix != ".jsonl":
        raise UsageError(f"--output of marks should end in .jsonl, was: {output}")
    check_apart(output, list(map(str, files)))
    merged = merge_marks(files, moment=datetime.now(UTC).isoformat(timespec="milliseconds"))
    with writing(output), new_file(output) as file:
        file.writelines(f"{json.dumps(row, default=str)}\n".encode() for row in merged.rows)
    yield f"{len(merged.rows):,} places are marked, reviewers disagree on {merged.disputed:,}"
    for names, both in merged.pairs.items():
        alike = sum(label == other for label, other in both) / len(both)
        agreement = f"{len(both):,} marked by both, {alike:.1%} alike, Cohen's kappa {cohen_kappa(both):.2f}"
        yield f"{' and '.join(names)}: {agreement}"
    if merged.pairs:
        try:
            alpha = f"{krippendorff_alpha(merged.labels):.2f}"
        except ImportError:
            alpha = "needs a package that is not installed: pip install 'attribeam[agreement]'"
        yield f"all together: Krippendorff's alpha {alpha}"
    yield f"written to {output}; imported on the page, its filter “Mark: unsure” lists where reviewers disagree"


def _import_dataset(dataset: _Dataset, args: argparse.Namespace) -> Iterator[str]:
    """Write the log; the counts, and the skipped rows by reason. Rows that an audit would refuse are skipped."""
    kept, refused = _importable(dataset.answers)
    skipped = sorted([*dataset.skipped, *refused], key=lambda skip: (skip.file or "", skip.row))
    reasons: dict[str, list[int | str]] = {reason: [] for reason in sorted({skip.reason for skip in skipped})}
    for skip in skipped:
        reasons[skip.reason].append(skip.row if skip.file is None else f"{skip.file} row {skip.row}")
    if not kept:
        raise DataError(f"{args.source} data {args.data[0]} should have rows that can be imported, has none: {reasons}")
    with writing(args.output):
        with new_file(args.output) as file, TableFile(file, qa_record.labelled_log_schema()) as table:
            for answer in tqdm(kept, desc="import", unit="row", disable=None):
                table.add(_log_row(answer))
        written = int(pq.read_metadata(args.output).num_rows)
    rows = len(dataset.answers) + len(dataset.skipped)
    if rows != written + len(skipped):
        raise RuntimeError(
            f"each of the {rows} rows should be written or skipped, {written} were written and {len(skipped)} skipped"
        )
    yield f"{rows} rows read, {written} written to {args.output}, {len(skipped)} skipped"
    for reason, locations in reasons.items():
        yield f"skipped, {reason}: {len(locations)} rows: {', '.join(map(str, locations))}"


def _importable(answers: Sequence[_Answer]) -> tuple[list[_Answer], list[dataset_file.SkippedRow]]:
    """The answers that an audit accepts, the first one of each id, and all other rows with a reason.

    The reasons are ``invalid_unicode`` (half of a surrogate pair, which JSON can express but UTF-8 cannot),
    ``no_record_id`` (an empty id), ``no_passages`` (no passage has text) and ``duplicate_record_id`` (the id of an
    earlier row).
    """
    several = len({answer.record.source.source_file for answer in answers}) > 1
    kept: dict[str, _Answer] = {}
    skipped = []
    for answer in answers:
        record, reason = answer.record, None
        if _SURROGATE.search(json.dumps(_log_row(answer), ensure_ascii=False)):
            reason = "invalid_unicode"
        elif not record.record_id:
            reason = "no_record_id"
        elif not any(passage.text.strip() for passage in record.passages):
            reason = "no_passages"
        elif kept.setdefault(record.record_id, answer) is not answer:
            reason = "duplicate_record_id"
        if reason is not None:
            source = record.source
            skipped.append(dataset_file.SkippedRow(source.source_row, reason, source.source_file if several else None))
    return [*kept.values()], skipped


def _log_row(answer: _Answer) -> dict[str, object]:
    """The row of an answer; columns that its data set has no values for are null."""
    record = answer.record
    row: dict[str, object] = {
        "record_id": record.record_id,
        "question": record.question,
        "passages": [*map(asdict, record.passages)],
        "answer": record.answer,
        "target_spans": None if record.target_spans is None else [*map(asdict, record.target_spans)],
        "generator": record.generator,
    }
    if isinstance(answer, dataset_file.LabelledAnswer):
        pieces = [
            [{"passage_index": bit.passage_index, **asdict(bit.chars)} for bit in own] for own in answer.gold_evidence
        ]
        columns: dict[str, Sequence[object]] = {
            "gold_passages": [*map(sorted, answer.gold_passages)],
            "gold_evidence": pieces,
            "cited_passages": [*map(list, answer.citations)],
        }
        labels = [
            {name: column[index] if column else None for name, column in columns.items()} | {"supported": None}
            for index in range(len(answer.spans))
        ]
        return row | {qa_record.SPAN_LABELS: labels}
    if answer.judged is not None:
        lacking = {marked.chars for marked in answer.unsupported or ()}
        said = [
            None if span not in answer.judged else span not in lacking for span in record.target_spans or answer.judged
        ]
        return row | {qa_record.SPAN_LABELS: [{"supported": supported} for supported in said]}
    ranges = answer.unsupported
    return row | {
        qa_record.UNSUPPORTED_SPANS: None
        if ranges is None
        else [asdict(part.chars) | {"kind": part.kind} for part in ranges],
        qa_record.LABEL_GROUP: answer.group,
        qa_record.ANSWER_SUPPORTED: answer.answer_supported,
        qa_record.FAITHFULNESS: answer.faithfulness,
        qa_record.ERROR_KINDS: list(answer.error_kinds) or None,
        "split": answer.split,
    }

"""Time and peak memory of ``attribeam audit`` on a log whose middle row is very long, and what becomes of that row.

python -m attribeam.lab.benchmarks.long_rows --words 1000 10000 100000
python -m attribeam.lab.benchmarks.long_rows --words 40000 --parts answer --audit-options --model NAME

Each log has three rows, and one part of the middle one is long: a single passage, the number of passages of 90 words
each, the answer, or the question. The figures include start-up; the first line is the same log without the long row.
The evidence of the two other rows is compared with that line's.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from attribeam.lab.benchmarks.generated_rows import (
    PASSAGE_WORDS,
    BenchmarkPassage,
    BenchmarkRow,
    PageWords,
    benchmark_rows,
    made_up_pages,
    write_log,
)
from attribeam.lab.benchmarks.machine import ProcessRun, machine_description, run_measured
from attribeam.lab.markdown_table import markdown_table

_HEADER = ("long part", "words", "seconds", "CPU s", "peak MiB", "the long row", "its neighbours")


class LongPart(StrEnum):
    """Which part of a row is long."""

    PASSAGE = "passage"
    PASSAGES = "passages"
    ANSWER = "answer"
    QUESTION = "question"


@dataclass(frozen=True, slots=True)
class LongRowAudit:
    """One audit of three rows, the middle one long.

    Attributes:
        outcome: the spans of the long row's evidence, or the reason of its dead letter.
        neighbours: the evidence of the other rows, as columns without those that name their file and place.
    """

    run: ProcessRun
    outcome: str
    neighbours: pa.Table


def main() -> int:
    """Measure and print; returns 1 if an audit failed or changed the neighbours of the long row, else 0."""
    args = _parser().parse_args()
    print(machine_description())
    print(f"threads 1, workers 1, audit options {' '.join(args.audit_options) or 'none'}", flush=True)
    pages = made_up_pages(seed=args.seed, words_per_page=2000)
    short = list(benchmark_rows(pages, rows=3, seed=args.seed))
    plain = _audited([short[0], short[2]], args.audit_options)
    lines = [(*_cells("none", 0, plain, plain.neighbours)[:5], "-", "the same")]
    for part in args.parts:
        for words in args.words:
            found = _audited([short[0], long_row(short[1], part, words, pages), short[2]], args.audit_options)
            lines.append(_cells(part, words, found, plain.neighbours))
            print("  ".join(lines[-1]), file=sys.stderr, flush=True)
    print(markdown_table(_HEADER, lines, padded=True))
    return 0 if all(line[-1] == "the same" for line in lines) else 1


def long_row(row: BenchmarkRow, part: LongPart, words: int, pages: Sequence[PageWords]) -> BenchmarkRow:
    """``row`` with ``words`` words in one part; they come from the pages, in a random but fixed order."""
    text = list(islice(_page_words(pages), words))
    if part is LongPart.PASSAGE:
        first = replace(row.passages[0], text=" ".join(text))
        return replace(row, passages=(first, *row.passages[1:]))
    if part is LongPart.PASSAGES:
        pieces = [text[start : start + PASSAGE_WORDS] for start in range(0, words, PASSAGE_WORDS)]
        made = (BenchmarkPassage(f"p{index}", f"Page {index}", " ".join(one)) for index, one in enumerate(pieces))
        return replace(row, passages=tuple(made))
    if part is LongPart.ANSWER:
        return replace(row, answer=" ".join(text))
    return replace(row, question=" ".join(text))


def _page_words(pages: Sequence[PageWords]) -> Iterator[str]:
    for number in count():
        yield from random.Random(number).choice(pages).words


def _audited(rows: Sequence[BenchmarkRow], options: Sequence[str]) -> LongRowAudit:
    with tempfile.TemporaryDirectory(prefix="attribeam-long-") as name:
        log, output = Path(name) / "log.parquet", Path(name) / "audit"
        write_log(log, iter(rows))
        command = [sys.executable, "-m", "attribeam", "audit", "--input", str(log), "--output", str(output)]
        run = run_measured([*command, "--workers", "1", "--threads", "1", "--no-report", *options])
        if run.exit_code:
            print(run.standard_error, file=sys.stderr)
            return LongRowAudit(run, f"exit code {run.exit_code}", pa.table({}))
        return _read_audit(run, output, rows)


def _read_audit(run: ProcessRun, output: Path, rows: Sequence[BenchmarkRow]) -> LongRowAudit:
    evidence = pa.concat_tables(pq.read_table(path) for path in sorted((output / "evidence").glob("*.parquet")))
    letters = pa.concat_tables(pq.read_table(path) for path in sorted((output / "dead_letters").glob("*.parquet")))
    ids = pa.array([rows[0].record_id, rows[-1].record_id])
    near = pc.is_in(evidence["record_id"], ids)
    spans = len(evidence) - near.to_pylist().count(True)
    reasons = letters["reason"].to_pylist()
    places = [column for column in evidence.column_names if column.startswith("source_")]
    neighbours = evidence.filter(near).drop_columns(places).replace_schema_metadata(None)
    return LongRowAudit(run, ", ".join(reasons) or f"{spans:,} spans", neighbours)


def _cells(part: str, words: int, found: LongRowAudit, expected: pa.Table) -> tuple[str, ...]:
    run = found.run
    return (
        part,
        f"{words:,}",
        f"{run.wall_seconds:.0f}",
        f"{run.cpu_seconds:.0f}",
        f"{run.peak_bytes / 2**20:,.0f}",
        found.outcome,
        "the same" if found.neighbours.equals(expected) else "different",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--parts", type=LongPart, choices=list(LongPart), nargs="+", default=list(LongPart))
    parser.add_argument("--seed", type=int, default=0, help="seed of the text (default: 0)")
    parser.add_argument(
        "--audit-options",
        nargs=argparse.REMAINDER,
        default=[],
        help="all following arguments are passed to attribeam audit",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

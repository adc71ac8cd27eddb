"""Measure how well the support flag separates supported spans from unsupported ones.

``python -m attribeam.lab.evaluation.support_check`` audits answers with labelled spans, using the shipped defaults. It
prints the AUROC of the evidence mass and of the flag, for all spans and for each kind.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attribeam.attribution.option_types import BUNDLED_VERDICT_NAME, positive_integer, whole_number
from attribeam.attribution.options import ATTN_UNION_DEP, UNIONS
from attribeam.lab.evaluation.comparison import FailedRow
from attribeam.lab.evaluation.measures.bootstrap import CONFIDENCE
from attribeam.lab.evaluation.support.judged_answers import audited_records
from attribeam.lab.evaluation.support.support_rows import (
    SHIPPED_ROWS,
    FlaggedSpan,
    SupportAnswer,
    SupportCheckReport,
    best_thresholds,
    kind_figures,
    load_support_rows,
    support_check_table,
    write_support_check,
)
from attribeam.report.messages import CommandParser, Messages, print_lines
from attribeam.schemas import RowFault, SpanEvidence, Support
from attribeam.schemas.errors import AttribeamError, DataError, ExitCode, RunError, UsageError
from attribeam.schemas.written_files import file_sha256

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor


def flagged_spans(
    answers: Sequence[SupportAnswer], attributor: Attributor
) -> tuple[tuple[FlaggedSpan, ...], tuple[FailedRow, ...]]:
    """What the audit says about every labelled span, answer by answer, and the answers that it refused."""
    spans: list[FlaggedSpan] = []
    failed: list[FailedRow] = []
    audited = 0
    for index, outcome in audited_records([answer.record for answer in answers], attributor):
        answer = answers[index]
        if isinstance(outcome, RowFault):
            failed.append(FailedRow(answer.record.source.source_row, str(outcome.reason), str(outcome)))
        else:
            spans += _spans_of(answer, outcome, row=audited)
            audited += 1
    return tuple(spans), tuple(failed)


def check_support(
    answers: Sequence[SupportAnswer], attributor: Attributor, *, data: Path, draws: int, seed: int
) -> SupportCheckReport:
    """The figures of ``answers``, which were loaded from ``data``.

    Raises:
        DataError: if no answer could be audited.
    """
    spans, failed = flagged_spans(answers, attributor)
    if not spans:
        reasons = sorted({one.reason for one in failed})
        raise DataError(f"data file {data} should have answers that can be audited, has none: {reasons}")
    return SupportCheckReport(
        method=attributor.method.name,
        data_file=data.name,
        data_sha256=file_sha256(data),
        rows=len(answers) - len(failed),
        failed_rows=failed,
        unsupported_flagged=_called(spans, supported=False, flags=(Support.UNSUPPORTED, Support.WEAK)),
        supported_called_supported=_called(spans, supported=True, flags=(Support.SUPPORTED,)),
        best_thresholds=best_thresholds(spans),
        figures=kind_figures(spans, draws=draws, seed=seed),
        confidence=CONFIDENCE,
        bootstrap_draws=draws,
        bootstrap_seed=seed,
        provenance=attributor.provenance(),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    try:
        _run(_parse_arguments(arguments))
    except AttribeamError as error:
        Messages("attribeam.lab.evaluation.support_check").say(str(error))
        return error.exit_code
    return ExitCode.DONE


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = CommandParser(prog="python -m attribeam.lab.evaluation.support_check", description=__doc__)
    parser.add_argument(
        "--rows", type=Path, default=SHIPPED_ROWS, metavar="FILE", help="labelled rows (default: those of the package)"
    )
    parser.add_argument("--model", default="bundled", help="bundled, a hub id or a directory (default: bundled)")
    parser.add_argument("--parser", default="bundled", help="bundled, a spaCy pipeline or a directory")
    parser.add_argument("--method", choices=UNIONS, default=ATTN_UNION_DEP)
    parser.add_argument(
        "--verdict", default=BUNDLED_VERDICT_NAME, help="bundled, mass or a directory (default: bundled)"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:1 (default: auto)")
    parser.add_argument("--threads", type=positive_integer, help="CPU threads of torch")
    parser.add_argument(
        "--bootstrap-draws", type=positive_integer, default=2000, help="number of resamples (default: 2000)"
    )
    parser.add_argument("--seed", type=whole_number, default=0, help="seed of the resamples (default: 0)")
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="also write the figures to this file")
    return parser.parse_args(arguments)


def _run(args: argparse.Namespace) -> None:
    if args.output is not None and (args.output.is_dir() or not args.output.parent.is_dir()):
        raise UsageError(f"--output should be a file in an existing directory, was: {args.output}")
    answers = load_support_rows(args.rows)
    report = check_support(answers, _attributor(args), data=args.rows, draws=args.bootstrap_draws, seed=args.seed)
    print_lines(*support_check_table(report).split("\n"))
    if args.output is not None:
        _write(args.output, report)


def _attributor(args: argparse.Namespace) -> Attributor:
    from attribeam.attribution.attributor import Attributor

    try:
        return Attributor.from_pretrained(
            args.model,
            parser=args.parser,
            spans="given",
            threads=args.threads,
            method=args.method,
            verdict=args.verdict,
            device=args.device,
        )
    except (OSError, ValueError) as error:
        raise RunError(f"model or parser could not be loaded: {error}") from error


def _write(output: Path, report: SupportCheckReport) -> None:
    try:
        write_support_check(output, report)
    except OSError as error:
        raise RunError(f"--output {output} could not be written: {error}") from error
    print_lines(f"written to {output}")


def _spans_of(answer: SupportAnswer, found: Sequence[SpanEvidence], *, row: int) -> Iterator[FlaggedSpan]:
    truth_of = answer.truth_of
    for evidence in found:
        yield FlaggedSpan(
            row=row,
            truth=truth_of[evidence.chars],
            evidence_mass=evidence.measured_mass,
            support=evidence.support,
            has_unmatched_values=bool(evidence.unmatched_values),
        )


def _called(spans: Sequence[FlaggedSpan], *, supported: bool, flags: Sequence[Support]) -> float | None:
    """Percentage of supported (or unsupported) spans that have one of ``flags``; None if there is no such span."""
    own = [span for span in spans if span.truth.supported is supported]
    return 100 * sum(span.support in flags for span in own) / len(own) if own else None


if __name__ == "__main__":
    sys.exit(main())

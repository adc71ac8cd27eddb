"""``attribeam evaluate --measure faithfulness``: what a span loses without the passage that a method names."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqdm import tqdm

from attribeam.evaluation.measures.bootstrap import CONFIDENCE
from attribeam.evaluation.measures.faithfulness_targets import AnswerChoice, SpanChoice, check_targets
from attribeam.evaluation.report import (
    data_digest,
    failure_remarks,
    interval_cell,
    skip_remarks,
    text_table,
    write_figures,
)
from attribeam.report.messages import one_line, print_lines
from attribeam.schemas.errors import DataError, UsageError
from attribeam.schemas.labelled_answer import LabelledDataset, SkippedRow

if TYPE_CHECKING:
    from attribeam.attribution.methods.answer_context import LoadedModels
    from attribeam.evaluation.lab_methods import LabMethod
    from attribeam.evaluation.measures.faithfulness import DropScore, DropTally

_HEADER = ("method", "log-probability drop", "95% interval", "no passage")


@dataclass(frozen=True, slots=True)
class FaithfulnessReport:
    """The figures of one run and what they depend on; ``random`` averages over ``random_draws`` draws."""

    dataset: str
    data_file: str
    data_sha256: str
    answers: str
    spans: str
    skipped_rows: tuple[SkippedRow, ...]
    rows: tuple[DropScore, ...]
    random_draws: int
    confidence: float
    bootstrap_draws: int
    bootstrap_seed: int
    limit: int | None
    provenance: Mapping[str, str]


def add_faithfulness_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of log-probability drops."""
    parser.add_argument(
        "--spans",
        type=SpanChoice,
        choices=list(SpanChoice),
        default=SpanChoice.LABELLED,
        help="for faithfulness: use the labelled spans or the answer's context-sensitive tokens (default: labelled)",
    )
    parser.add_argument(
        "--answers",
        type=AnswerChoice,
        choices=list(AnswerChoice),
        default=AnswerChoice.DATA,
        help="for faithfulness: use the data's answers or, with --spans cti, the language model's own (default: data)",
    )


def check_faithfulness_arguments(args: argparse.Namespace, *, asked_for: bool) -> None:
    """Refuse options that have no meaning; ``asked_for`` says whether faithfulness is measured.

    Raises:
        UsageError: if labelled spans are asked of generated answers, or spans without labels for another measure.
    """
    if not asked_for and (args.spans is not SpanChoice.LABELLED or args.answers is not AnswerChoice.DATA):
        raise UsageError("--spans cti and --answers generated have no labels; add --measure faithfulness")
    try:
        check_targets(spans=args.spans, source=args.answers)
    except ValueError as error:
        raise UsageError(str(error)) from error


def evaluate_faithfulness(
    args: argparse.Namespace,
    dataset: LabelledDataset,
    methods: Sequence[LabMethod],
    models: LoadedModels,
    *,
    provenance: Mapping[str, str],
) -> None:
    """Measure the drops, print the table, and write the JSON if ``--output`` is given.

    Raises:
        DataError: if no answer is left.
    """
    from attribeam.evaluation.measures.faithfulness import TargetAnswers, run_drops

    if models.language is None:
        raise RuntimeError("log-probability drops need a language model, none was loaded")
    bar = tqdm(dataset.answers, desc="evaluate", unit="answer", disable=None)
    targets = TargetAnswers(bar, models.language, spans=args.spans, source=args.answers)
    tallies, refused = run_drops(targets, methods, models)
    if not tallies[0].spans:
        raise DataError(f"{args.data} should have answers that the language model accepts, has none")
    report = _report(args, tallies, (*dataset.skipped, *targets.skipped, *refused), provenance)
    print_lines(*faithfulness_table(report).split("\n"))
    write_figures(args.output, report)


def _report(
    args: argparse.Namespace,
    tallies: Sequence[DropTally],
    skipped_rows: tuple[SkippedRow, ...],
    provenance: Mapping[str, str],
) -> FaithfulnessReport:
    from attribeam.evaluation.measures.faithfulness import RANDOM_DRAWS, score_drops

    return FaithfulnessReport(
        dataset=args.dataset,
        data_file=args.data.name,
        data_sha256=data_digest(args.data, args.dataset),
        answers=args.answers,
        spans=args.spans,
        skipped_rows=skipped_rows,
        rows=score_drops(tallies, draws=args.bootstrap_draws, seed=args.seed),
        random_draws=RANDOM_DRAWS,
        confidence=CONFIDENCE,
        bootstrap_draws=args.bootstrap_draws,
        bootstrap_seed=args.seed,
        limit=args.limit,
        provenance=provenance,
    )


def faithfulness_table(report: FaithfulnessReport) -> str:
    """The figures in nats, one line per method, followed by what was skipped and what failed."""
    first = report.rows[0]
    title = (
        f"{report.dataset} ({report.data_file}): {first.spans} {report.spans} spans of {first.rows} answers "
        f"({report.answers})"
    )
    remarks = skip_remarks(report.skipped_rows)
    for row in report.rows:
        failures = failure_remarks(row.failed_rows, consequence="count as a drop of 0")
        remarks += [f"{row.method}: {remark}" for remark in failures]
    return "\n".join([one_line(title), text_table(_HEADER, [_cells(row) for row in report.rows]), *remarks])


def _cells(row: DropScore) -> tuple[str, ...]:
    interval = interval_cell(row.interval, digits=2)
    return (row.method, f"{row.log_probability_drop:.2f}", interval, str(row.spans_without_passage))

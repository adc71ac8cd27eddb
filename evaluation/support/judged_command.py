"""``attribeam evaluate --measure support``: do an audit's flags find what a person found unsupported?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import load_models
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP
from attribeam.attribution.verdict.judge import probe_of
from attribeam.evaluation.comparison import FailedRow
from attribeam.evaluation.datasets.dataset_file import data_files
from attribeam.evaluation.datasets.loaders import JUDGED_LOADERS, MARKS, SUPPORTED_DATASETS, read_dataset
from attribeam.evaluation.datasets.marked_spans import load_marks
from attribeam.evaluation.measures.bootstrap import CONFIDENCE
from attribeam.evaluation.model_arguments import method_settings, model_choice
from attribeam.evaluation.report import skip_remarks, write_figures
from attribeam.evaluation.support.judged_answers import (
    AuditedAnswer,
    audited_answer,
    audited_records,
    group_figures,
)
from attribeam.evaluation.support.judged_parts import judged_parts
from attribeam.evaluation.support.judged_report import JudgedReport, MethodFigures, judged_tables
from attribeam.evaluation.support.scorer_tables import GroupComparison, compare_scorers
from attribeam.evaluation.support.scorers import BASELINES, AuditScorer, Scorer, ShareScorer, baseline_scorers
from attribeam.evaluation.support.supported_spans import (
    SupportedReport,
    load_supported,
    supported_figures,
    supported_table,
)
from attribeam.logs.arguments import log_options
from attribeam.logs.columns import LogOptions
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.messages import print_lines
from attribeam.schemas import RowFault, SpanEvidence
from attribeam.schemas.errors import DataError, UsageError
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset
from attribeam.schemas.written_files import file_sha256

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor

SPLIT = "test"
GENERATOR = "generator"
GROUPINGS = ("label-group", GENERATOR)
"""What ``--by`` takes: the part of the data set that an answer belongs to, or what gave the answer."""


_METHODS = (ATTN_UNION_DEP, ATTN_UNION)
_Found = tuple[SpanEvidence, ...]


def evaluate_support(args: argparse.Namespace) -> None:
    """Audit the answers, print the tables, and write the JSON if ``--output`` is given.

    Raises:
        UsageError: if a method raises no flags.
        DataError: if no answer could be audited, or a model cannot be loaded.
        DataError: if the data is not in its format.
    """
    if args.dataset in SUPPORTED_DATASETS:
        _evaluate_supported(args)
        return
    methods, dataset = _methods(args.method), _load(args)
    report = JudgedReport(
        dataset=args.dataset,
        data_sha256=_digests(args),
        split=SPLIT if any(answer.split == SPLIT for answer in dataset.answers) else None,
        skipped_rows=dataset.skipped,
        methods=tuple(_method_figures(attributor, dataset, args) for attributor in _attributors(methods, args)),
        baselines=() if methods else _baselines(dataset, args),
        confidence=CONFIDENCE,
        bootstrap_draws=args.bootstrap_draws,
        bootstrap_seed=args.seed,
        limit=args.limit,
    )
    print_lines(*judged_tables(report).split("\n"))
    write_figures(args.output, report)


def audited_answers(
    answers: Sequence[JudgedAnswer], attributor: Attributor
) -> tuple[tuple[AuditedAnswer, ...], tuple[FailedRow, ...]]:
    """The audited answers compared with their labels, and the rows that the audit refused."""
    audited, failed = _audited(answers, attributor)
    return tuple(audited_answer(answer, found) for answer, found in audited), failed


def _audited(
    answers: Sequence[JudgedAnswer], attributor: Attributor
) -> tuple[list[tuple[JudgedAnswer, _Found]], tuple[FailedRow, ...]]:
    """The answers with the audit's evidence, and the rows that the audit refused."""
    done: list[tuple[JudgedAnswer, _Found]] = []
    failed: list[FailedRow] = []
    for index, outcome in audited_records([answer.record for answer in answers], attributor):
        if isinstance(outcome, RowFault):
            row = answers[index].record.source.source_row
            failed.append(FailedRow(row, str(outcome.reason), str(outcome)))
        else:
            done.append((answers[index], outcome))
    return done, tuple(failed)


def _methods(names: Sequence[str] | None) -> list[str]:
    """The methods to audit by; none if only baselines are named, which are compared in any case."""
    others = [name for name in names or () if name not in [*_METHODS, *BASELINES]]
    if others:
        expected = f"--method should be {' or '.join(_METHODS)}, or {' or '.join(BASELINES)} for no audit"
        raise UsageError(f"only an audit raises flags; {expected}, was: {', '.join(others)}")
    return [name for name in dict.fromkeys(names or _METHODS[:1]) if name in _METHODS]


def _load(args: argparse.Namespace) -> JudgedDataset:
    dataset = _judged_dataset(args).of_split(SPLIT)
    if not dataset.answers:
        reasons = ", ".join(skip_remarks(dataset.skipped)) or "the file has no rows"
        raise DataError(f"data {args.data} should have answers with labels of support, has none: {reasons}")
    if args.by == GENERATOR:
        answers = tuple(replace(answer, group=answer.record.generator) for answer in dataset.answers)
        dataset = replace(dataset, answers=answers)
    return dataset if args.limit is None else dataset.first(args.limit)


def _judged_dataset(args: argparse.Namespace) -> JudgedDataset:
    if args.dataset != MARKS:
        return read_dataset(JUDGED_LOADERS, args.dataset, args.data, log_options(args))
    if log_options(args) != LogOptions():
        raise UsageError("--columns and --log-format are those of the audit with --dataset marks; leave them out")
    return load_marks(args.data, AuditDirectory.open(args.audit))


def _method_figures(attributor: Attributor, dataset: JudgedDataset, args: argparse.Namespace) -> MethodFigures:
    audited, failed = _audited(dataset.answers, attributor)
    if not audited:
        reasons = sorted({one.reason for one in failed})
        raise DataError(f"data {args.data} should have answers that can be audited, has none: {reasons}")
    method = attributor.method.name
    answers = [audited_answer(answer, found) for answer, found in audited]
    return MethodFigures(
        method=method,
        groups=group_figures(answers, draws=args.bootstrap_draws, seed=args.seed),
        comparison=_comparison(method, audited, args),
        failed_rows=failed,
        provenance=attributor.provenance(),
    )


def _comparison(
    method: str,
    audited: Sequence[tuple[JudgedAnswer, _Found]],
    args: argparse.Namespace,
) -> tuple[GroupComparison, ...]:
    parts = [judged_parts(answer, found) for answer, found in audited]
    audit = AuditScorer(method, [found for _, found in audited])
    shares = [ShareScorer(method)] if audit.has_scores else []
    scorers: list[Scorer] = [audit, *shares, *baseline_scorers()]
    return compare_scorers(parts, scorers, draws=args.bootstrap_draws, seed=args.seed)


def _baselines(dataset: JudgedDataset, args: argparse.Namespace) -> tuple[GroupComparison, ...]:
    parts = [judged_parts(answer, ()) for answer in dataset.answers]
    return compare_scorers(parts, baseline_scorers(), draws=args.bootstrap_draws, seed=args.seed)


def _attributors(methods: Sequence[str], args: argparse.Namespace) -> list[Attributor]:
    """One attributor per method, all with the same loaded models."""
    if not methods:
        return []
    from attribeam.attribution.attributor import Attributor

    settings = method_settings(args)
    probed = probe_of(settings.union_options(methods[0])) is not None
    for name in () if probed else ("language_model", "language_model_dtype", "language_model_quantization"):
        if getattr(args, name) is not None:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} says nothing to --measure support without a --verdict that has a probe")
    needs = frozenset({Need.PARSER, Need.ATTENTION} | ({Need.DECODER_STATES} if probed else set()))
    models = load_models(model_choice(args), needs)
    parser, attention = models.parser, models.attention
    if parser is None or attention is None:
        raise RuntimeError("the audit needs a parser and an attention model, one was not loaded")
    return [
        Attributor(
            parser=parser,
            model=attention.with_method(settings.union_options(method)),
            spans=DEFAULT_SPAN_KINDS,
            decoder=models.decoder,
        )
        for method in methods
    ]


def _evaluate_supported(args: argparse.Namespace) -> None:
    if args.by is not None:
        raise UsageError(f"--by is for judged answers, not for {args.dataset}; leave it out")
    methods, dataset = _methods(args.method), load_supported(args.dataset, args.data, limit=args.limit)
    if not methods:
        raise UsageError(f"a baseline flags no spans of {args.dataset}; --method should be {' or '.join(_METHODS)}")
    figures = []
    for attributor in _attributors(methods, args):
        audited, failed = _audited(dataset.answers, attributor)
        if not audited:
            raise DataError(f"data {args.data} should have answers that can be audited, has none")
        of_spans = [found for _, found in audited]
        figures.append(
            supported_figures(
                attributor.method.name,
                of_spans,
                failed,
                draws=args.bootstrap_draws,
                seed=args.seed,
                provenance=attributor.provenance(),
            )
        )
    report = SupportedReport(
        dataset=args.dataset,
        data_sha256=_digests(args),
        skipped_rows=dataset.skipped,
        methods=tuple(figures),
        confidence=CONFIDENCE,
        bootstrap_draws=args.bootstrap_draws,
        bootstrap_seed=args.seed,
        limit=args.limit,
    )
    print_lines(*supported_table(report).split("\n"))
    write_figures(args.output, report)


def _digests(args: argparse.Namespace) -> dict[str, str]:
    return {file.name: file_sha256(file) for file in data_files(args.data, args.dataset)}

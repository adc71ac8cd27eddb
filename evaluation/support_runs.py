"""``attribeam evaluate --measure support``: do an audit's flags find what a person found unsupported?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.attributor import Attributor
from attribeam.attribution.methods.method import Need, required
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP
from attribeam.attribution.verdict.judge import probe_of
from attribeam.evaluation.datasets.dataset_file import JudgedAnswer, JudgedDataset, data_files
from attribeam.evaluation.datasets.loaders import JUDGED_LOADERS, LOADERS, MARKS, SUPPORTED_DATASETS, read_dataset
from attribeam.evaluation.datasets.marked_spans import load_marks
from attribeam.evaluation.measures.bootstrap import CONFIDENCE, Estimate, RowBootstrap
from attribeam.evaluation.measures.judged_answers import (
    audited_answer,
    audited_records,
    group_figures,
    group_tables,
    judged_parts,
)
from attribeam.evaluation.measures.scorers import (
    BASELINES,
    GroupComparison,
    audit_scorers,
    compare_scorers,
    comparison_tables,
)
from attribeam.evaluation.report import (
    FailedRow,
    Figures,
    failure_remarks,
    interval_cell,
    skip_remarks,
    text_table,
    verdict_in_use,
)
from attribeam.evaluation.runs import LANGUAGE_OPTIONS, load_dataset, load_once, method_settings, model_choice
from attribeam.logs.columns import LogOptions
from attribeam.logs.reader import log_options
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas import RowFault, SpanEvidence, Support
from attribeam.schemas.errors import DataError, UsageError
from attribeam.schemas.written_files import file_sha256

SPLIT = "test"
GENERATOR = "generator"
GROUPINGS = ("label-group", GENERATOR)
"""What ``--by`` takes: the part of the data set that an answer belongs to, or what gave the answer."""
_METHODS = (ATTN_UNION_DEP, ATTN_UNION)


def evaluate_support(args: argparse.Namespace) -> Figures:
    """Audit the answers and compare the flags with their labels.

    Raises:
        UsageError: if a method raises no flags.
        DataError: if no answer could be audited, the data is not in its format, or a model cannot be loaded.
    """
    if args.dataset in SUPPORTED_DATASETS:
        return _evaluate_supported(args)
    methods, dataset = _methods(args.method), _load(args)
    texts, found = [], []
    for attributor in _attributors(methods, args):
        figures, text = _method_figures(attributor, dataset, args)
        found.append(figures)
        texts.append(text)
    baselines: tuple[GroupComparison, ...] = ()
    if not methods:
        parts = [judged_parts(answer, ()) for answer in dataset.answers]
        baselines = compare_scorers(parts, [*BASELINES.values()], draws=args.bootstrap_draws, seed=args.seed)
        texts += comparison_tables(args.dataset, baselines)
    report = _description(args, dataset.skipped) | {
        "split": SPLIT if any(answer.split == SPLIT for answer in dataset.answers) else None,
        "methods": found,
        "baselines": baselines,
    }
    return Figures(report, "\n".join([*texts, *skip_remarks(dataset.skipped)]))


def _description(args: argparse.Namespace, skipped: object) -> dict[str, Any]:
    return {
        "dataset": args.dataset,
        "data_sha256": {file.name: file_sha256(file) for file in data_files(args.data, args.dataset)},
        "skipped_rows": skipped,
        "confidence": CONFIDENCE,
        "bootstrap_draws": args.bootstrap_draws,
        "bootstrap_seed": args.seed,
        "limit": args.limit,
    }


_Audited = tuple[list[tuple[JudgedAnswer, tuple[SpanEvidence, ...]]], list[FailedRow]]
"""The answers with the audit's evidence, and the rows that the audit refused."""


def _audited(dataset: JudgedDataset, attributor: Attributor, args: argparse.Namespace) -> _Audited:
    answers: list[tuple[JudgedAnswer, tuple[SpanEvidence, ...]]] = []
    failed: list[FailedRow] = []
    for index, outcome in audited_records([answer.record for answer in dataset.answers], attributor):
        answer = dataset.answers[index]
        if isinstance(outcome, RowFault):
            failed.append(FailedRow.of(answer.record, outcome))
        else:
            answers.append((answer, outcome))
    if not answers:
        reasons = sorted({one.reason for one in failed})
        raise DataError(f"data {args.data} should have answers that can be audited, has none: {reasons}")
    return answers, failed


def _methods(names: Sequence[str] | None) -> list[str]:
    """The methods to audit by; none if only baselines are named, which are compared in any case."""
    others = [name for name in names or () if name not in [*_METHODS, *BASELINES]]
    if others:
        expected = f"--method should be {' or '.join(_METHODS)}, or {' or '.join(BASELINES)} for no audit"
        raise UsageError(f"only an audit raises flags; {expected}, was: {', '.join(others)}")
    return [name for name in dict.fromkeys(names or _METHODS[:1]) if name in _METHODS]


def _load(args: argparse.Namespace) -> JudgedDataset:
    if args.dataset != MARKS:
        whole = read_dataset(JUDGED_LOADERS, args.dataset, args.data, log_options(args))
    elif log_options(args) != LogOptions():
        raise UsageError("--columns and --log-format are those of the audit with --dataset marks; leave them out")
    else:
        whole = load_marks(args.data, AuditDirectory.open(args.audit))
    dataset = whole.of_split(SPLIT)
    if not dataset.answers:
        reasons = ", ".join(skip_remarks(dataset.skipped)) or "the file has no rows"
        raise DataError(f"data {args.data} should have answers with labels of support, has none: {reasons}")
    if args.by == GENERATOR:
        answers = tuple(replace(answer, group=answer.record.generator) for answer in dataset.answers)
        dataset = replace(dataset, answers=answers)
    return dataset if args.limit is None else dataset.first(args.limit)


def _method_figures(
    attributor: Attributor, dataset: JudgedDataset, args: argparse.Namespace
) -> tuple[Mapping[str, Any], str]:
    audited, failed = _audited(dataset, attributor, args)
    method, provenance = attributor.method.name, attributor.provenance()
    draws, seed = args.bootstrap_draws, args.seed
    answers = [audited_answer(answer, evidence) for answer, evidence in audited]
    groups = group_figures(answers, draws=draws, seed=seed)
    parts = [judged_parts(answer, evidence) for answer, evidence in audited]
    comparison = compare_scorers(parts, [*audit_scorers(method, parts), *BASELINES.values()], draws=draws, seed=seed)
    lines = [
        _headline(args.dataset, method, comparison[0]),
        *group_tables(args.dataset, method, groups),
        verdict_in_use(provenance),
        *comparison_tables(args.dataset, comparison),
        *failure_remarks(failed, consequence="are left out"),
    ]
    return {
        "method": method,
        "groups": groups,
        "comparison": comparison,
        "failed_rows": failed,
        "provenance": provenance,
    }, "\n".join(lines)


def _headline(dataset: str, method: str, whole: GroupComparison) -> str:
    """How good the flags of answers are, before all tables."""
    told = f"{dataset}, {method}: {whole.marked_answers} of {whole.answers} answers are unsupported"
    if (verdict := whole.scorers[0].verdict) is None:
        return told
    named = {"F1": verdict.f1, "precision": verdict.precision, "recall": verdict.recall}
    shares = (named | {"clean answers flagged": verdict.false_alarms}).items()
    cells = [f"{name} {one.value:.1f}% ({interval_cell(one.interval)})" for name, one in shares if one is not None]
    return f"{told}; flags: {', '.join(cells)}"


def _attributors(methods: Sequence[str], args: argparse.Namespace) -> list[Attributor]:
    """One attributor per method, all with the same loaded models."""
    if not methods:
        return []
    settings = method_settings(args)
    probed = probe_of(settings.union_options(methods[0])) is not None
    for name in LANGUAGE_OPTIONS:
        if getattr(args, name) is not None and not probed and args.suite is None:
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} says nothing to --measure support without a --verdict that has a probe")
    models = load_once(model_choice(args), frozenset({Need.PARSER, Need.ATTENTION}), verdict=probed)
    parser, attention = required(models.parser, "parser"), required(models.attention, "attention model")
    return [
        Attributor(
            parser=parser,
            models=replace(models, attention=attention.with_method(settings.union_options(method))),
            spans=DEFAULT_SPAN_KINDS,
        )
        for method in methods
    ]


def _evaluate_supported(args: argparse.Namespace) -> Figures:
    """Flags on spans that people took from their sources, which are supported by construction: every one is false."""
    if args.by is not None:
        raise UsageError(f"--by is for judged answers, not for {args.dataset}; leave it out")
    methods = _methods(args.method)
    if not methods:
        raise UsageError(f"a baseline flags no spans of {args.dataset}; --method should be {' or '.join(_METHODS)}")
    labelled = load_dataset(args, LOADERS)
    dataset = JudgedDataset(
        tuple(JudgedAnswer(one.record, (), one.spans) for one in labelled.answers), labelled.skipped
    )
    found, texts = [], []
    for attributor in _attributors(methods, args):
        audited, failed = _audited(dataset, attributor, args)
        figures, lines = _supported_figures([evidence for _, evidence in audited], args)
        name, provenance = attributor.method.name, attributor.provenance()
        texts.append(f"{args.dataset}, {name}: {figures['spans']} spans of {figures['answers']} answers, all supported")
        texts += [*lines, verdict_in_use(provenance), *failure_remarks(failed, consequence="are left out")]
        found.append({"method": name, **figures, "failed_rows": failed, "provenance": provenance})
    report = _description(args, dataset.skipped) | {"methods": found}
    return Figures(report, "\n".join([*texts, *skip_remarks(dataset.skipped)]))


def _supported_figures(
    found: Sequence[Sequence[SpanEvidence]], args: argparse.Namespace
) -> tuple[dict[str, Any], list[str]]:
    """How many spans have each level, and how many answers have an unsupported span; as data, and as lines."""
    sizes = [len(spans) for spans in found]
    of_spans = RowBootstrap(sizes, draws=args.bootstrap_draws, seed=args.seed)
    of_answers = RowBootstrap([1] * len(found), draws=args.bootstrap_draws, seed=args.seed)
    levels, lines = [], []
    for support in Support:
        counts = [sum(span.support is support for span in spans) for spans in found]
        if sum(counts) or support is Support.UNSUPPORTED:
            share = Estimate(100 * sum(counts) / sum(sizes), of_spans.interval(counts))
            levels.append({"support": str(support), "spans": sum(counts), "share": share})
            lines.append((str(support), str(sum(counts)), f"{share.value:.1f}", interval_cell(share.interval)))
    flagged = [float(any(span.support is Support.UNSUPPORTED for span in spans)) for spans in found]
    answers = Estimate(100 * sum(flagged) / len(flagged), of_answers.interval(flagged))
    table = text_table(("labelled spans called", "spans", "%", "95% interval"), lines)
    called = f"answers with a span called unsupported: {answers.value:.1f}% ({interval_cell(answers.interval)})"
    figures = {"answers": len(found), "spans": sum(sizes), "levels": levels, "flagged_answers": answers}
    return figures, [table, called]

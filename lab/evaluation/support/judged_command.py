"""``attribeam evaluate --measure support``: do an audit's flags find what a person found unsupported?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attribeam.attribution.answers.target_spans import DEFAULT_SPAN_KINDS
from attribeam.attribution.methods.method import Need
from attribeam.attribution.methods.models import load_models
from attribeam.attribution.options import ATTN_UNION, ATTN_UNION_DEP
from attribeam.lab.evaluation.comparison import FailedRow
from attribeam.lab.evaluation.datasets.loaders import JUDGED_LOADERS, read_dataset
from attribeam.lab.evaluation.measures.bootstrap import CONFIDENCE, Auroc, F1Figures
from attribeam.lab.evaluation.model_arguments import method_settings, model_choice
from attribeam.lab.evaluation.report import (
    failure_remarks,
    file_digest,
    interval_cell,
    skip_remarks,
    text_table,
    write_figures,
)
from attribeam.lab.evaluation.support.judged_answers import (
    AuditedAnswer,
    GroupFigures,
    LevelFigures,
    audited_answer,
    audited_records,
    group_figures,
)
from attribeam.logs.arguments import log_options
from attribeam.schemas import RowFault
from attribeam.schemas.errors import RunError, UsageError
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset, SkippedRow

if TYPE_CHECKING:
    from attribeam.attribution.attributor import Attributor

SPLIT = "test"
_METHODS = (ATTN_UNION_DEP, ATTN_UNION)
_HEADER = ("called", "of", "precision %", "recall %", "F1 %", "95% interval")
_AUROC_HEADER = ("AUROC", "mass", "95% interval", "flag", "95% interval")


@dataclass(frozen=True, slots=True)
class MethodFigures:
    """The figures of one method with the thresholds in use; ``failed_rows`` are not part of them."""

    method: str
    supported_threshold: float
    weak_threshold: float
    groups: tuple[GroupFigures, ...]
    failed_rows: tuple[FailedRow, ...]
    provenance: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JudgedReport:
    """The figures of one run and what they depend on."""

    dataset: str
    data_sha256: Mapping[str, str]
    split: str | None
    skipped_rows: tuple[SkippedRow, ...]
    methods: tuple[MethodFigures, ...]
    confidence: float
    bootstrap_draws: int
    bootstrap_seed: int
    limit: int | None


def evaluate_support(args: argparse.Namespace) -> None:
    """Audit the answers, print the tables, and write the JSON if ``--output`` is given.

    Raises:
        UsageError: if a method raises no flags.
        RunError: if no answer could be audited, or a model cannot be loaded.
        DataError: if the data is not in its format.
    """
    methods, dataset = _methods(args.method), _load(args)
    report = JudgedReport(
        dataset=args.dataset,
        data_sha256=_digests(args.data),
        split=SPLIT if any(answer.split == SPLIT for answer in dataset.answers) else None,
        skipped_rows=dataset.skipped,
        methods=tuple(_method_figures(attributor, dataset, args) for attributor in _attributors(methods, args)),
        confidence=CONFIDENCE,
        bootstrap_draws=args.bootstrap_draws,
        bootstrap_seed=args.seed,
        limit=args.limit,
    )
    print(judged_tables(report))
    write_figures(args.output, report)


def audited_answers(
    answers: Sequence[JudgedAnswer], attributor: Attributor
) -> tuple[tuple[AuditedAnswer, ...], tuple[FailedRow, ...]]:
    """The audited answers compared with their labels, and the rows that the audit refused."""
    done: list[AuditedAnswer] = []
    failed: list[FailedRow] = []
    for index, outcome in audited_records([answer.record for answer in answers], attributor):
        if isinstance(outcome, RowFault):
            row = answers[index].record.source.source_row
            failed.append(FailedRow(row, str(outcome.reason), str(outcome)))
        else:
            done.append(audited_answer(answers[index], outcome))
    return tuple(done), tuple(failed)


def judged_tables(report: JudgedReport) -> str:
    """The tables of all methods and groups, followed by what was skipped and failed."""
    parts = [part for method in report.methods for part in _method_tables(report.dataset, method)]
    return "\n".join([*parts, *skip_remarks(report.skipped_rows)])


def _methods(names: Sequence[str] | None) -> list[str]:
    others = [name for name in names or () if name not in [*_METHODS]]
    if others:
        expected = f"--method should be {' or '.join(_METHODS)}"
        raise UsageError(f"only an audit raises flags; {expected}, was: {', '.join(others)}")
    return list(dict.fromkeys(names or _METHODS[:1]))


def _load(args: argparse.Namespace) -> JudgedDataset:
    dataset = read_dataset(JUDGED_LOADERS, args.dataset, args.data, log_options(args)).of_split(SPLIT)
    if not dataset.answers:
        reasons = ", ".join(skip_remarks(dataset.skipped)) or "the file has no rows"
        raise RunError(f"data {args.data} should have answers with labels of support, has none: {reasons}")
    return dataset if args.limit is None else dataset.first(args.limit)


def _method_figures(attributor: Attributor, dataset: JudgedDataset, args: argparse.Namespace) -> MethodFigures:
    answers, failed = audited_answers(dataset.answers, attributor)
    if not answers:
        reasons = sorted({one.reason for one in failed})
        raise RunError(f"data {args.data} should have answers that can be audited, has none: {reasons}")
    settings = attributor.model.settings
    return MethodFigures(
        method=str(settings.method),
        supported_threshold=settings.supported_threshold,
        weak_threshold=settings.weak_threshold,
        groups=group_figures(answers, draws=args.bootstrap_draws, seed=args.seed),
        failed_rows=failed,
        provenance={"parser": attributor.parser.identity, **attributor.model.provenance()},
    )


def _attributors(methods: Sequence[str], args: argparse.Namespace) -> list[Attributor]:
    """One attributor per method, all with the same loaded models."""
    from attribeam.attribution.attributor import Attributor

    models = load_models(model_choice(args), frozenset({Need.PARSER, Need.ATTENTION}))
    parser, attention = models.parser, models.attention
    if parser is None or attention is None:
        raise RuntimeError("the audit needs a parser and an attention model, one was not loaded")
    settings = method_settings(args)
    return [
        Attributor(parser=parser, model=attention.with_method(settings.union_options(method)), spans=DEFAULT_SPAN_KINDS)
        for method in methods
    ]


def _digests(data: Path) -> dict[str, str]:
    files = sorted(data.glob("*.jsonl*")) if data.is_dir() else [data]
    return {file.name: file_digest(file) for file in files}


def _method_tables(dataset: str, method: MethodFigures) -> Iterator[str]:
    for group in method.groups:
        yield (
            f"{dataset}, {group.group}, {method.method}: {group.answers} answers, {group.marked_answers} of them with "
            "unsupported characters"
        )
        lines = [line for level in group.levels for line in _level_lines(level)]
        yield text_table(_HEADER, lines)
        yield text_table(
            _AUROC_HEADER,
            [
                _auroc_line("answers", group.answer_mass, group.answer_flag),
                _auroc_line("spans", group.span_mass, group.span_flag),
            ],
        )
        for kind in group.kinds:
            shares = ", ".join(f"{share:.1f}% {level}" for level, share in kind.recall.items())
            yield f"{kind.kind}: of {kind.characters} characters {shares}"
    yield f"thresholds in use: supported {method.supported_threshold}, weak {method.weak_threshold}"
    yield from failure_remarks(method.failed_rows, consequence="are left out")


def _level_lines(level: LevelFigures) -> Iterator[tuple[str, ...]]:
    if level.characters is not None:
        yield (level.level, "characters", *_f1_cells(level.characters))
    yield (level.level, "answers", *_f1_cells(level.answers))


def _f1_cells(figures: F1Figures) -> tuple[str, ...]:
    shares = [f"{share:.1f}" for share in (figures.precision, figures.recall, figures.f1)]
    return (*shares, interval_cell(figures.f1_interval))


def _auroc_line(name: str, mass: Auroc | None, flag: Auroc | None) -> tuple[str, ...]:
    cells = [
        cell
        for one in (mass, flag)
        for cell in (("", "") if one is None else (f"{one.value:.3f}", interval_cell(one.interval, digits=3)))
    ]
    return (name, *cells)

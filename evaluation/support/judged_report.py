"""The report of ``attribeam evaluate --measure support`` on judged answers, and its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from attribeam.evaluation.comparison import FailedRow
from attribeam.evaluation.measures.bootstrap import Auroc, F1Figures
from attribeam.evaluation.report import failure_remarks, interval_cell, skip_remarks, text_table, verdict_in_use
from attribeam.evaluation.support.judged_answers import GroupFigures, LevelFigures
from attribeam.evaluation.support.scorer_tables import GroupComparison, comparison_tables
from attribeam.schemas.labelled_answer import SkippedRow

_HEADER = ("called", "of", "precision %", "recall %", "F1 %", "95% interval")
_AUROC_HEADER = ("AUROC", "mass", "95% interval", "flag", "95% interval")


@dataclass(frozen=True, slots=True)
class MethodFigures:
    """The figures of one method; ``failed_rows`` are not part of them, and ``provenance`` names the verdict in use.

    ``comparison`` has the method's own scores beside those of the baselines, on the same answers.
    """

    method: str
    groups: tuple[GroupFigures, ...]
    comparison: tuple[GroupComparison, ...]
    failed_rows: tuple[FailedRow, ...]
    provenance: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JudgedReport:
    """The figures of one run and what they depend on; ``baselines`` are those of a run without an audit."""

    dataset: str
    data_sha256: Mapping[str, str]
    split: str | None
    skipped_rows: tuple[SkippedRow, ...]
    methods: tuple[MethodFigures, ...]
    baselines: tuple[GroupComparison, ...]
    confidence: float
    bootstrap_draws: int
    bootstrap_seed: int
    limit: int | None


def judged_tables(report: JudgedReport) -> str:
    """The tables of all methods and groups, followed by what was skipped and failed."""
    parts = [part for method in report.methods for part in _method_tables(report.dataset, method)]
    parts += comparison_tables(report.dataset, report.baselines)
    return "\n".join([*parts, *skip_remarks(report.skipped_rows)])


def _method_tables(dataset: str, method: MethodFigures) -> Iterator[str]:
    for group in method.groups:
        has_marks = all(level.characters is not None for level in group.levels)
        yield (
            f"{dataset}, {group.group}, {method.method}: {group.answers} answers, {group.marked_answers} of them "
            + ("with unsupported characters" if has_marks else "unsupported")
        )
        yield text_table(_HEADER, [line for level in group.levels for line in _level_lines(level)])
        yield text_table(
            _AUROC_HEADER,
            [
                _auroc_line(name, mass, flag)
                for name, mass, flag in (
                    ("answers", group.answer_mass, group.answer_flag),
                    ("spans", group.span_mass, group.span_flag),
                )
                if mass is not None or flag is not None
            ],
        )
        for kind in group.kinds:
            shares = ", ".join(f"{share:.1f}% {level}" for level, share in kind.recall.items())
            yield f"{kind.kind}: of {kind.characters} characters {shares}"
    yield verdict_in_use(method.provenance)
    yield from comparison_tables(dataset, method.comparison)
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

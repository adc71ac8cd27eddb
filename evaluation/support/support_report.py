"""What a check of the support flag leaves behind: a JSON file for scripts, and a table for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from evaluation.comparison import FailedRow
from evaluation.measures.auroc import Auroc
from evaluation.reports.json_file import write_json
from evaluation.reports.text_table import interval_cell, text_table
from evaluation.support.support_figures import BestThresholds, KindFigures

_HEADER = ("kind", "spans", "AUROC mass", "95% interval", "AUROC flag", "95% interval", "flagged %", "supported %")


@dataclass(frozen=True, slots=True)
class SupportReport:
    """The figures of one check and what they depend on.

    Attributes:
        method, supported_threshold, weak_threshold: as they were in force.
        data_file, data_sha256: the rows' file.
        rows: answers that were audited; ``failed_rows`` were not, and are no part of the figures.
        unsupported_flagged: percent of the unsupported spans that are called unsupported or weak.
        supported_called_supported: percent of the supported spans that are called supported.
        best_thresholds: what the rows suggest.
        figures: of all spans and of each kind.
        provenance: model, parser, settings and versions.
    """

    method: str
    supported_threshold: float
    weak_threshold: float
    data_file: str
    data_sha256: str
    rows: int
    failed_rows: tuple[FailedRow, ...]
    unsupported_flagged: float | None
    supported_called_supported: float | None
    best_thresholds: BestThresholds | None
    figures: tuple[KindFigures, ...]
    confidence: float
    bootstrap_draws: int
    bootstrap_seed: int
    provenance: Mapping[str, str]


def write_support_report(path: Path, report: SupportReport) -> None:
    """One JSON object; the file is replaced as a whole.

    Raises:
        OSError: if it cannot be written.
    """
    write_json(path, asdict(report))


def support_table(report: SupportReport) -> str:
    """The figures, one line a kind, and the shares and thresholds below."""
    table = text_table(_HEADER, [_cells(figures) for figures in report.figures])
    spans = report.figures[0].spans
    title = f"{report.data_file}: {spans} spans of {report.rows} answers, {report.method}"
    return "\n".join([title, table, *_remarks(report)])


def _cells(figures: KindFigures) -> tuple[str, ...]:
    return (
        figures.kind,
        str(figures.spans),
        *_auroc_cells(figures.evidence_mass),
        *_auroc_cells(figures.flag),
        f"{figures.flagged:.1f}",
        f"{figures.called_supported:.1f}",
    )


def _auroc_cells(auroc: Auroc | None) -> tuple[str, str]:
    if auroc is None:
        return "", ""
    return f"{auroc.value:.3f}", interval_cell(auroc.interval, digits=3)


def _remarks(report: SupportReport) -> list[str]:
    remarks = [f"thresholds in force: supported {report.supported_threshold}, weak {report.weak_threshold}"]
    if report.best_thresholds is not None:
        best = report.best_thresholds
        remarks.append(f"thresholds that these rows suggest: supported {best.supported}, weak {best.weak}")
    if report.unsupported_flagged is not None:
        remarks.append(f"unsupported spans called unsupported or weak: {report.unsupported_flagged:.1f}%")
    if report.supported_called_supported is not None:
        remarks.append(f"supported spans called supported: {report.supported_called_supported:.1f}%")
    remarks += [f"row {failed.row} failed and is left out: {failed.reason}" for failed in report.failed_rows]
    return remarks

"""Flags on spans that people took from their sources, which are supported by construction: every one is false."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attribeam.evaluation.comparison import FailedRow
from attribeam.evaluation.datasets.loaders import LOADERS
from attribeam.evaluation.measures.bootstrap import RowBootstrap
from attribeam.evaluation.measures.verdicts import Share
from attribeam.evaluation.report import failure_remarks, interval_cell, skip_remarks, text_table, verdict_in_use
from attribeam.schemas import SpanEvidence, Support
from attribeam.schemas.errors import DataError
from attribeam.schemas.labelled_answer import JudgedAnswer, JudgedDataset, SkippedRow

_HEADER = ("labelled spans called", "spans", "%", "95% interval")


@dataclass(frozen=True, slots=True)
class SupportLevelShare:
    """How many labelled spans have one value of ``Support``, in numbers and in percent."""

    support: str
    spans: int
    share: Share


@dataclass(frozen=True, slots=True)
class SupportedFigures:
    """What one method's audit calls spans that are supported; ``failed_rows`` are not part of it.

    Attributes:
        method: its name.
        answers, spans: how many were audited.
        levels: one for each value of ``Support`` that occurs, and for unsupported in any case.
        flagged_answers: answers with a span that is called unsupported.
        provenance: model, parser, verdict, settings and versions.
    """

    method: str
    answers: int
    spans: int
    levels: tuple[SupportLevelShare, ...]
    flagged_answers: Share
    failed_rows: tuple[FailedRow, ...]
    provenance: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SupportedReport:
    """The figures of one run and what they depend on."""

    dataset: str
    data_sha256: Mapping[str, str]
    skipped_rows: tuple[SkippedRow, ...]
    methods: tuple[SupportedFigures, ...]
    confidence: float
    bootstrap_draws: int
    bootstrap_seed: int
    limit: int | None


def load_supported(name: str, path: Path, *, limit: int | None) -> JudgedDataset:
    """The answers of a data set in which people labelled spans with their sources; only these spans are judged.

    Raises:
        DataError: if the file cannot be read or is not in its format.
        DataError: if it has no labelled answers.
    """
    labelled = LOADERS[name](path)
    answers = tuple(JudgedAnswer(one.record, (), one.spans) for one in labelled.answers)
    if not answers:
        reasons = ", ".join(skip_remarks(labelled.skipped)) or "the file has no rows"
        raise DataError(f"data file {path} should have labelled answers, has none: {reasons}")
    dataset = JudgedDataset(answers, labelled.skipped)
    return dataset if limit is None else dataset.first(limit)


def supported_figures(
    method: str,
    found: Sequence[Sequence[SpanEvidence]],
    failed: tuple[FailedRow, ...],
    *,
    draws: int,
    seed: int,
    provenance: Mapping[str, str],
) -> SupportedFigures:
    """The figures of audited answers, each with the evidence of its labelled spans.

    Raises:
        ValueError: if there is no answer.
    """
    of_spans = RowBootstrap([len(spans) for spans in found], draws=draws, seed=seed)
    of_answers = RowBootstrap([1] * len(found), draws=draws, seed=seed)
    total = sum(len(spans) for spans in found)
    levels = []
    for support in Support:
        counts = [sum(span.support is support for span in spans) for spans in found]
        if sum(counts) or support is Support.UNSUPPORTED:
            share = Share(100 * sum(counts) / total, of_spans.interval(counts))
            levels.append(SupportLevelShare(str(support), sum(counts), share))
    flagged = [float(any(span.support is Support.UNSUPPORTED for span in spans)) for spans in found]
    return SupportedFigures(
        method=method,
        answers=len(found),
        spans=total,
        levels=tuple(levels),
        flagged_answers=Share(100 * sum(flagged) / len(flagged), of_answers.interval(flagged)),
        failed_rows=failed,
        provenance=provenance,
    )


def supported_table(report: SupportedReport) -> str:
    """One table for each method, followed by what was skipped and failed."""
    parts = []
    for method in report.methods:
        parts.append(
            f"{report.dataset}, {method.method}: {method.spans} spans of {method.answers} answers, all supported"
        )
        lines = [(one.support, str(one.spans), *_cells(one.share)) for one in method.levels]
        parts.append(text_table(_HEADER, lines))
        share, interval = _cells(method.flagged_answers)
        parts += [f"answers with a span called unsupported: {share}% ({interval})", verdict_in_use(method.provenance)]
        parts += failure_remarks(method.failed_rows, consequence="are left out")
    return "\n".join([*parts, *skip_remarks(report.skipped_rows)])


def _cells(share: Share) -> tuple[str, str]:
    return f"{share.value:.1f}", interval_cell(share.interval)

"""Rows with support labels, and how well the support flag separates them.

Answers whose spans are labelled as supported by the passages or not, and in which way.

Figures for how well the support flag separates supported spans from unsupported ones, and their report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from attribeam.lab.evaluation.comparison import FailedRow
from attribeam.lab.evaluation.datasets.dataset_file import DataRow, read_rows
from attribeam.lab.evaluation.datasets.marked_spans import passage_of, span_chars
from attribeam.lab.evaluation.measures.bootstrap import Auroc, RankedItems, row_draws
from attribeam.lab.evaluation.report import interval_cell, text_table, verdict_in_use, write_json
from attribeam.lab.evaluation.support.judged_answers import flag_order
from attribeam.report.messages import one_line
from attribeam.schemas import CharRange, QARecord, RowSource, Support

SHIPPED_ROWS = Path(__file__).with_name("support_rows.jsonl")
"""The rows that were written for this project."""

EVERYDAY_ROWS = Path(__file__).with_name("everyday_rows.jsonl")
"""More of them: short, freely worded answers over help pages, policies, leaflets and the like."""


class SpanTruth(StrEnum):
    """The kinds of labelled spans; the passages support the first two and not the others."""

    SUPPORTED = "supported"
    PARAPHRASE = "paraphrase"
    WRONG_NUMBER = "wrong number"
    WRONG_NAME = "wrong name"
    WRONG_DATE = "wrong date"
    INVENTED_CLAUSE = "invented clause"
    TRUE_BUT_ABSENT = "true but absent"
    CONTRADICTED = "contradicted"

    @property
    def supported(self) -> bool:
        """Whether the passages say it, in the same or in other words."""
        return self in (SpanTruth.SUPPORTED, SpanTruth.PARAPHRASE)


@dataclass(frozen=True, slots=True)
class SupportAnswer:
    """One answer; ``truths`` holds the kind of each of its target spans, of which there is at least one."""

    record: QARecord
    truths: tuple[SpanTruth, ...]

    @property
    def truth_of(self) -> dict[CharRange, SpanTruth]:
        """The kind of each target span, by its range."""
        return dict(zip(self.record.target_spans or (), self.truths, strict=True))


def load_support_rows(path: Path) -> tuple[SupportAnswer, ...]:
    """The answers of a ``.jsonl`` or ``.jsonl.xz`` file, in order.

    A row has ``record_id``, ``question``, ``answer``, ``passages`` (with ``passage_id``, ``text`` and ``title``, which
    may be null) and ``spans`` (with ``text``, ``occurrence``, ``supported`` and ``kind``). A span lies where its
    ``text`` occurs in the answer; ``occurrence``, counted from 1, says which place is meant if there are several.

    Raises:
        DataError: if the file cannot be read or a row is faulty; the message names row and field, not the text.
    """
    return tuple(_answer(row, path) for row in read_rows(path))


def _answer(row: DataRow, path: Path) -> SupportAnswer:
    answer = row.text("answer")
    spans = row.objects("spans")
    passages = row.objects("passages")
    if not spans or not passages:
        raise row.error("spans" if passages else "passages", "should have at least one item, was empty")
    chars = [span_chars(span, answer) for span in spans]
    if len(set(chars)) < len(chars):
        raise row.error("spans", f"should have {len(chars)} different ranges, some are equal")
    record = QARecord(
        record_id=row.text("record_id"),
        question=row.text("question"),
        passages=tuple(passage_of(passage) for passage in passages),
        answer=answer,
        source=RowSource(path.name, row.row),
        target_spans=tuple(chars),
    )
    return SupportAnswer(record, tuple(_truth(span) for span in spans))


def _truth(span: DataRow) -> SpanTruth:
    kind = span.text("kind")
    if kind not in [*SpanTruth]:
        raise span.error("kind", f"should be one of {[*map(str, SpanTruth)]}, was: {kind!r}")
    truth = SpanTruth(kind)
    if span.boolean("supported") is not truth.supported:
        raise span.error("supported", f"should be {str(truth.supported).lower()} for kind {kind!r}, was the opposite")
    return truth


ALL_KINDS = "all"
MISSED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class FlaggedSpan:
    """What an audit says about one labelled span; ``row`` is the answer's index among the audited answers."""

    row: int
    truth: SpanTruth
    evidence_mass: float
    support: Support
    has_unmatched_values: bool

    @property
    def flag(self) -> float:
        """A number that orders spans by support level, and by evidence mass within a level."""
        return flag_order(self.support, self.evidence_mass)


@dataclass(frozen=True, slots=True)
class KindFigures:
    """The figures of the spans of one kind, or of all spans.

    Attributes:
        kind: a ``SpanTruth``, or "all".
        evidence_mass, flag: AUROC of the two numbers. An unsupported kind is compared with all supported spans, and a
            supported kind with all unsupported spans; None if one side is missing.
        flagged: percentage of spans called unsupported or weak.
        called_supported: percentage of spans called supported.
        unmatched: percentage of spans with unmatched values.
    """

    kind: str
    spans: int
    evidence_mass: Auroc | None
    flag: Auroc | None
    flagged: float
    called_supported: float
    unmatched: float


@dataclass(frozen=True, slots=True)
class BestThresholds:
    """The two thresholds of evidence mass that these spans suggest.

    ``supported`` maximises the share of supported spans called supported minus the share of unsupported spans called
    supported (Youden's index); spans with unmatched values are never called supported. If several values do, it is
    their mean. 95% of the supported spans reach ``weak``, which never exceeds ``supported``.
    """

    supported: float
    weak: float


def kind_figures(spans: Sequence[FlaggedSpan], *, draws: int, seed: int) -> tuple[KindFigures, ...]:
    """The figures of all spans, then of each kind that occurs, over the same resamples of rows.

    Raises:
        ValueError: if there is no span.
    """
    counts = row_draws(1 + max((span.row for span in spans), default=-1), draws=draws, seed=seed)
    kinds = [kind for kind in SpanTruth if any(span.truth is kind for span in spans)]
    return (_figures(ALL_KINDS, spans, spans, counts), *(_of_kind(kind, spans, counts) for kind in kinds))


def best_thresholds(spans: Sequence[FlaggedSpan]) -> BestThresholds | None:
    """The thresholds that separate the spans best; None if there are no supported or no unsupported spans."""
    right = np.array([span.truth.supported for span in spans], dtype=np.bool_)
    if right.all() or not right.any():
        return None
    masses = np.array([span.evidence_mass for span in spans])
    open_masses = np.where([span.has_unmatched_values for span in spans], -1.0, masses)
    lines = np.linspace(0, 1, 1001)
    gain = _share_from(open_masses[right], lines) - _share_from(open_masses[~right], lines)
    supported = float(lines[gain >= gain.max() - 1e-9].mean())
    weak = float(np.quantile(masses[right], MISSED_SHARE))
    return BestThresholds(supported=round(supported, 3), weak=round(min(weak, supported), 3))


def _of_kind(kind: SpanTruth, spans: Sequence[FlaggedSpan], counts: npt.NDArray[np.int64]) -> KindFigures:
    own = [span for span in spans if span.truth is kind]
    others = [span for span in spans if span.truth.supported is not kind.supported]
    return _figures(kind, own, [*own, *others], counts)


def _figures(
    kind: str, own: Sequence[FlaggedSpan], compared: Sequence[FlaggedSpan], counts: npt.NDArray[np.int64]
) -> KindFigures:
    supported = 100 * sum(span.support is Support.SUPPORTED for span in own) / len(own)
    flagged = 100 * sum(span.support in (Support.UNSUPPORTED, Support.WEAK) for span in own) / len(own)
    return KindFigures(
        kind=str(kind),
        spans=len(own),
        evidence_mass=_auroc([span.evidence_mass for span in compared], compared, counts),
        flag=_auroc([span.flag for span in compared], compared, counts),
        flagged=flagged,
        called_supported=supported,
        unmatched=100 * sum(span.has_unmatched_values for span in own) / len(own),
    )


def _auroc(numbers: Sequence[float], spans: Sequence[FlaggedSpan], counts: npt.NDArray[np.int64]) -> Auroc | None:
    right = [span.truth.supported for span in spans]
    if all(right) or not any(right):
        return None
    return RankedItems(numbers=numbers, right=right, rows=[span.row for span in spans]).auroc(counts)


def _share_from(masses: npt.NDArray[np.float64], lines: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The share of ``masses`` that reaches each of ``lines``, in the shape of ``lines``."""
    return 1 - np.searchsorted(np.sort(masses), lines, side="left") / len(masses)


_HEADER = ("kind", "spans", "AUROC mass", "95% interval", "AUROC flag", "95% interval", "flagged %", "supported %")


@dataclass(frozen=True, slots=True)
class SupportCheckReport:
    """The figures of one check and what they depend on.

    Attributes:
        method: the name of the audit's method.
        data_file, data_sha256: the file of the rows.
        rows: number of audited answers; ``failed_rows`` could not be audited and are not part of the figures.
        unsupported_flagged: percentage of the unsupported spans that are called unsupported or weak.
        supported_called_supported: percentage of the supported spans that are called supported.
        best_thresholds: the thresholds that the rows suggest.
        figures: the figures of all spans and of each kind.
        provenance: model, parser, verdict, settings and versions.
    """

    method: str
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


def write_support_check(path: Path, report: SupportCheckReport) -> None:
    """Write one JSON object; the file is replaced atomically.

    Raises:
        OSError: if it cannot be written.
    """
    write_json(path, asdict(report))


def support_check_table(report: SupportCheckReport) -> str:
    """The figures, one line per kind, followed by shares and thresholds."""
    table = text_table(_HEADER, [_cells(figures) for figures in report.figures])
    spans = report.figures[0].spans
    title = f"{report.data_file}: {spans} spans of {report.rows} answers, {report.method}"
    return "\n".join([one_line(title), table, *_remarks(report)])


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


def _remarks(report: SupportCheckReport) -> list[str]:
    remarks = [verdict_in_use(report.provenance)]
    if report.best_thresholds is not None:
        best = report.best_thresholds
        remarks.append(f"thresholds of mass that these rows suggest: supported {best.supported}, weak {best.weak}")
    if report.unsupported_flagged is not None:
        remarks.append(f"unsupported spans called unsupported or weak: {report.unsupported_flagged:.1f}%")
    if report.supported_called_supported is not None:
        remarks.append(f"supported spans called supported: {report.supported_called_supported:.1f}%")
    remarks += [f"row {failed.row} failed and is left out: {failed.reason}" for failed in report.failed_rows]
    return remarks

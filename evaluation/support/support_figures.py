"""How well the support flag tells supported spans from unsupported ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evaluation.measures.auroc import Auroc, RankedItems
from evaluation.measures.bootstrap import row_draws
from evaluation.support.support_labels import flag_order
from evaluation.support.support_rows import SpanTruth
from schemas import Support

ALL_KINDS = "all"
MISSED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class FlaggedSpan:
    """What an audit says of one labelled span; ``row`` is the answer's place among those that were audited."""

    row: int
    truth: SpanTruth
    evidence_mass: float
    support: Support
    has_unmatched_values: bool

    @property
    def flag(self) -> float:
        """Orders spans by support level, and within a level by evidence mass."""
        return flag_order(self.support, self.evidence_mass)


@dataclass(frozen=True, slots=True)
class KindFigures:
    """The figures of the spans of one kind, or of all.

    Attributes:
        kind: a ``SpanTruth``, or "all".
        evidence_mass, flag: AUROC of the two numbers, of the spans of an unsupported kind against all supported ones,
            of a supported kind against all unsupported ones; None where one side is missing.
        flagged: percent of the spans that are called unsupported or weak.
        called_supported: percent that are called supported.
        unmatched: percent with unmatched values.
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
    """The two lines in evidence mass that these spans suggest.

    ``supported`` maximises the share of supported spans that are called supported less the share of unsupported ones
    (Youden's index), where a span with unmatched values is never called so; the middle where several lines do. Of the
    supported spans 95% have at least ``weak``, which is never above ``supported``.
    """

    supported: float
    weak: float


def kind_figures(spans: Sequence[FlaggedSpan], *, draws: int, seed: int) -> tuple[KindFigures, ...]:
    """The figures of all spans, then of each kind that occurs; all over the same resamples of rows.

    Raises:
        ValueError: if there is no span.
    """
    counts = row_draws(1 + max((span.row for span in spans), default=-1), draws=draws, seed=seed)
    kinds = [kind for kind in SpanTruth if any(span.truth is kind for span in spans)]
    return (_figures(ALL_KINDS, spans, spans, counts), *(_of_kind(kind, spans, counts) for kind in kinds))


def best_thresholds(spans: Sequence[FlaggedSpan]) -> BestThresholds | None:
    """The thresholds that separate best; None without supported or without unsupported spans."""
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
    return KindFigures(
        kind=str(kind),
        spans=len(own),
        evidence_mass=_auroc([span.evidence_mass for span in compared], compared, counts),
        flag=_auroc([span.flag for span in compared], compared, counts),
        flagged=100 - supported,
        called_supported=supported,
        unmatched=100 * sum(span.has_unmatched_values for span in own) / len(own),
    )


def _auroc(numbers: Sequence[float], spans: Sequence[FlaggedSpan], counts: npt.NDArray[np.int64]) -> Auroc | None:
    right = [span.truth.supported for span in spans]
    if all(right) or not any(right):
        return None
    return RankedItems(numbers=numbers, right=right, rows=[span.row for span in spans]).auroc(counts)


def _share_from(masses: npt.NDArray[np.float64], lines: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[lines] the share of ``masses`` that is at least as large as each line."""
    return 1 - np.searchsorted(np.sort(masses), lines, side="left") / len(masses)

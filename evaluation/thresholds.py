"""Fits the thresholds of a verdict, of evidence mass or of a verifier to what people marked in an audit.

A verifier's scores may be blended with the bundled verdict's. Each threshold is judged on answers that it was not
fitted on.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from attribeam.attribution.option_declaration import BUNDLED_VERDICT_NAME, VERDICT_FILE
from attribeam.attribution.verdict import verdict_model
from attribeam.attribution.verdict.verified import Blend
from attribeam.attribution.verdict.verified import log_odds as log_odds_of_each
from attribeam.evaluation.measures import Interval, best_threshold, percentile_interval, row_draws, source_folds
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audited_answer import AuditedAnswer, audited_answers
from attribeam.report.labelling import Mark, Marks, marks_by_answer
from attribeam.schemas import SpanEvidence
from attribeam.schemas.errors import UsageError

FEWEST = 20
"""The fewest items of each kind that a threshold is fitted to."""
SUPPORTED_PRECISION = 0.95
"""The least share of supported claims among those that are called so."""
DIGEST_LETTERS = 16
_Numbers = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class MarkedItems:
    """Marked claims, or marked answers; an array has one entry for each.

    ``suspicion`` is the answer's risk, or one minus a claim's support score or mass; ``lacking`` says whether people
    found that it lacks support; ``answers`` are the numbers of their answers.
    """

    suspicion: _Numbers
    lacking: _Flags
    answers: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.suspicion)


@dataclass(frozen=True, slots=True)
class MarkedAudit:
    """Answers by ``answer_risk``, claims by ``support_score`` and by ``evidence_mass``; ``lost`` marks are of none."""

    answers: MarkedItems
    scored: MarkedItems
    massed: MarkedItems
    lost: int


_Item = tuple[float | None, bool, int]
"""The support of a claim or an answer, None if it has none; whether it lacks support; and its answer's number."""


def marked_audit(audit: AuditDirectory, marks: Marks) -> MarkedAudit:
    """Find the marked claims and answers in the evidence.

    A mark on a name or number within a claim counts for the claim where it lacks support. An answer without a mark of
    its own lacks support if one of its claims does, and is supported if all its claims are marked as supported. Raises
    ``RunError`` if a file of the audit cannot be read.
    """
    audited = [*audited_answers(audit.evidence_of(sorted({mark.record_id for mark in marks.marks})))]
    by_answer = marks_by_answer(marks.marks, ((answer.record_id, answer.source) for answer in audited))
    answers: list[_Item] = []
    scored: list[_Item] = []
    massed: list[_Item] = []
    matched = 0
    for number, answer in enumerate(audited):
        own = by_answer.get(answer.source, [])
        placed = [(mark, span) for mark in own if (span := _marked_span(answer, mark)) is not None]
        matched += len(placed) + sum(mark.chars is None for mark in own)
        claims: dict[int, bool] = {}  # whether each marked one lacks support
        for mark, span in placed:
            if span.is_claim:
                claims[span.span_index] = claims.get(span.span_index, False) or not mark.supported
            elif span.claim_index is not None and not mark.supported:
                claims[span.claim_index] = True
        for span in answer.spans:
            if (lacking := claims.get(span.span_index)) is not None:
                scored.append((span.support_score, lacking, number))
                massed.append((span.evidence_mass, lacking, number))
        every = {span.span_index for span in answer.spans if span.is_claim}
        whole = next((not mark.supported for mark in own if mark.chars is None), None)
        if whole is None and (any(claims.values()) or (every and every <= set(claims))):
            whole = any(claims.values())
        if whole is not None:
            risk = answer.spans[0].answer_risk
            answers.append((None if risk is None else 1 - risk, whole, number))
    return MarkedAudit(_items(answers), _items(scored), _items(massed), len(marks.marks) - matched)


def _items(items: Sequence[_Item]) -> MarkedItems:
    rows = [(1 - support, lacking, answer) for support, lacking, answer in items if support is not None]
    suspicion, lacking, answers = zip(*rows, strict=True) if rows else ((), (), ())
    return MarkedItems(np.array(suspicion, np.float64), np.array(lacking, np.bool_), np.array(answers, np.intp))


def _marked_span(answer: AuditedAnswer, mark: Mark) -> SpanEvidence | None:
    """The span of a mark's range, if it has the words that were marked; of several the claim."""
    spans = (span for span in answer.spans if span.chars == mark.chars and mark.may_be_of(span.text))
    return min(spans, key=lambda span: not span.is_claim, default=None)


def missing(items: MarkedItems, item_name: str, false_alarm_rate: float | None) -> list[str]:
    """What is too few to fit a threshold to: items that lack support, or supported ones.

    A false-alarm rate is measured on supported items: where there are n, the smallest share but 0 is 1 / n.
    """
    supported = FEWEST if not false_alarm_rate else max(FEWEST, math.ceil(1 / false_alarm_rate))
    lacking = int(items.lacking.sum())
    kinds = (("lack support", FEWEST, lacking), ("are supported", supported, len(items) - lacking))
    return [
        f"{needed} {item_name} that {kind} are needed, {marked} are marked, {needed - marked} more to go"
        for kind, needed, marked in kinds
        if marked < needed
    ]


@dataclass(frozen=True, slots=True)
class CallFigures:
    precision: float
    recall: float
    false_alarms: float
    f1: float


def call_figures(called: _Flags, lacking: _Flags, weights: _Numbers | None = None) -> CallFigures:
    """The figures of some calls; ``weights`` say how often each item counts, by default once."""
    weights = np.ones(len(called)) if weights is None else weights
    both, calls, marked = (float(weights[flags].sum()) for flags in (called & lacking, called, lacking))
    clean = float(weights.sum()) - marked
    return CallFigures(
        precision=both / calls if calls else 0.0,
        recall=both / marked if marked else 0.0,
        false_alarms=(calls - both) / clean if clean else 0.0,
        f1=2 * both / (calls + marked) if calls + marked else 0.0,
    )


def choose_threshold(suspicion: _Numbers, lacking: _Flags, false_alarm_rate: float | None) -> float:
    """The suspicion from which on items are called: the best by F1, or the lowest within a share of false alarms.

    Items with equal suspicions are called together. -inf calls all of them.
    """
    if false_alarm_rate is None:
        return best_threshold(suspicion, lacking)
    supported = np.sort(suspicion[~lacking])[::-1]
    allowed = math.floor(false_alarm_rate * len(supported))
    if allowed >= len(supported):
        return -np.inf
    limit = float(supported[allowed])
    above = suspicion[suspicion > limit]
    return (limit + float(above.min())) / 2 if len(above) else limit + 1e-6  # audits record suspicions with 32 bits


@dataclass(frozen=True, slots=True)
class FittedThreshold:
    """A threshold of suspicion, from which on items are called; intervals are over resamples of the answers.

    ``figures`` are on items of other answers than each threshold was fitted on (five folds).
    """

    threshold: float
    threshold_interval: Interval
    figures: CallFigures
    f1_interval: Interval
    false_alarm_interval: Interval


def fit_threshold(items: MarkedItems, false_alarm_rate: float | None, *, seed: int) -> FittedThreshold:
    """Fit on all items; measure on folds of answers."""
    suspicion, lacking = items.suspicion, items.lacking
    called, folds = np.zeros(len(items), np.bool_), source_folds(items.answers.tolist(), seed=seed)
    for fold in np.unique(folds):
        inside = folds == fold
        called[inside] = suspicion[inside] >= choose_threshold(suspicion[~inside], lacking[~inside], false_alarm_rate)
    answers = np.unique(items.answers, return_inverse=True)[1]
    counts = row_draws(int(answers.max()) + 1, draws=400, seed=seed)[:, answers]
    drawn = [(np.repeat(suspicion, draw), np.repeat(lacking, draw)) for draw in counts]
    thresholds = [choose_threshold(*draw, false_alarm_rate) for draw in drawn if draw[1].any() and not draw[1].all()]
    finite = np.array([value for value in thresholds if math.isfinite(value)] or [0.0])
    scored = [call_figures(called, lacking, draw.astype(np.float64)) for draw in counts]
    return FittedThreshold(
        threshold=choose_threshold(suspicion, lacking, false_alarm_rate),
        threshold_interval=percentile_interval(finite),
        figures=call_figures(called, lacking),
        f1_interval=percentile_interval(np.array([call.f1 for call in scored])),
        false_alarm_interval=percentile_interval(np.array([call.false_alarms for call in scored])),
    )


@dataclass(frozen=True, slots=True)
class FittedPart:
    """One threshold as the verdict counts it, before and after; ``old`` and ``before`` are None where there was none.

    ``before`` is what the old one gave on the same ``count`` marked items.
    """

    name: str
    old: float | None
    new: float
    interval: Interval
    fit: FittedThreshold
    before: CallFigures | None
    count: int


def support_part(name: str, items: MarkedItems, old: float | None, rate: float | None, seed: int) -> FittedPart:
    fit = fit_threshold(items, rate, seed=seed)
    low, high = fit.threshold_interval.low, fit.threshold_interval.high
    interval = Interval(clipped(1 - high), clipped(1 - low))
    before = None if old is None else call_figures(1 - items.suspicion < old, items.lacking)
    return FittedPart(name, old, clipped(1 - fit.threshold), interval, fit, before, len(items))


def clipped(threshold: float) -> float:
    """A finite threshold from 0 to 1."""
    return round(float(np.clip(threshold, 0.0, 1.0)), 4)


def verdict_of(audit: AuditDirectory) -> str:
    method = audit.manifest.options.get("method")
    return str(method.get("verdict", BUNDLED_VERDICT_NAME)) if isinstance(method, Mapping) else BUNDLED_VERDICT_NAME


def base_verdict(audit: AuditDirectory) -> tuple[Path, verdict_model.VerdictModel]:
    """The fitted verdict that judged the audit.

    Raises ``UsageError`` if it was judged by evidence mass, or the verdict is not there as it was; ``ModelLoadError``
    if the verdict cannot be read.
    """
    directory = verdict_model.verdict_directory(verdict_of(audit))
    model = verdict_model.load_verdict_model(directory)
    used, current = audit.manifest.models.get("verdict_model"), model.digest[:DIGEST_LETTERS]
    if used != current:
        raise UsageError(
            f"--audit {audit.root} was judged by the verdict {used}, but {directory} holds {current}; audit again, and "
            "mark claims on the new page"
        )
    return directory, model


def write_verdict(
    output: Path, base: Path, thresholds: verdict_model.VerdictThresholds, items: MarkedItems, *, measured_on: str
) -> None:
    """Write the base verdict with other thresholds, and what thresholds of risk give on the marked items.

    Raises ``OSError`` if it cannot be written.
    """
    output.mkdir(parents=True, exist_ok=True)
    for file in sorted(base.iterdir()):
        if file.is_file() and file.name != VERDICT_FILE and file.suffix != ".md":
            shutil.copyfile(file, output / file.name)
    verdict = json.loads((base / VERDICT_FILE).read_text(encoding="utf-8"))
    points = operating_points(items.suspicion, items.lacking)
    verdict |= {
        "thresholds": asdict(thresholds),
        "operating_points": points,
        "short_operating_points": points,
        "measured_on": measured_on,
    }
    (output / VERDICT_FILE).write_text(json.dumps(verdict, separators=(",", ":")) + "\n", encoding="utf-8")


def operating_points(risks: _Numbers, marked: _Flags) -> list[dict[str, float]]:
    """What thresholds over the whole range of the risks give, ascending, as ``OperatingPoint`` reads it."""
    levels = np.unique(np.round(np.quantile(risks, np.linspace(0, 1, 41)[1:-1]), 4))
    figures = [(float(level), call_figures(risks >= level, marked)) for level in levels]
    points = [verdict_model.OperatingPoint(level, of.precision, of.recall, of.false_alarms) for level, of in figures]
    return [{name: round(value, 4) for name, value in asdict(point).items()} for point in points]


def fit_scores(
    items: MarkedItems, score_name: str, old: float | None, *, false_alarm_rate: float | None, seed: int
) -> tuple[float, FittedPart]:
    """Thresholds of evidence mass or of a verifier's score: the one of supported claims, and the lower one."""
    part = support_part(f"claims: unsupported below {score_name}", items, old, false_alarm_rate, seed)
    order = np.argsort(items.suspicion, kind="stable")
    right = np.cumsum(~items.lacking[order]) / np.arange(1, len(order) + 1)
    suspicion = items.suspicion[order]
    whole = np.append(suspicion[1:] != suspicion[:-1], True)  # equal ones are called together
    enough = np.flatnonzero((right >= SUPPORTED_PRECISION) & whole)
    lowest = clipped(1 - float(suspicion[enough[-1]])) if len(enough) else 1.0
    return max(part.new, lowest), part


def blended(verifier: MarkedItems, bundled: MarkedItems | None, *, seed: int) -> tuple[MarkedItems, Blend]:
    """The items with out-of-fold blended suspicions, and the blend of all of them; without ``bundled``, as they are."""
    if bundled is None:
        return verifier, Blend()
    if (
        len(verifier) != len(bundled)
        or (verifier.answers != bundled.answers).any()
        or (verifier.lacking != bundled.lacking).any()
    ):
        raise UsageError(
            "--blend should have the same marked answers and claims as --audit, "
            f"has {len(bundled)} of {len(verifier)}; "
            "audit the same logs with the same options, but for --verdict"
        )
    folds = source_folds(verifier.answers.tolist(), seed=seed)
    suspicion = np.empty_like(verifier.suspicion)
    for fold in np.unique(folds):
        rest = folds != fold
        blend = _fit_blend(verifier.suspicion[rest], bundled.suspicion[rest], verifier.lacking[rest])
        suspicion[~rest] = blend.of(verifier.suspicion[~rest], bundled.suspicion[~rest])
    return replace(verifier, suspicion=suspicion), _fit_blend(verifier.suspicion, bundled.suspicion, verifier.lacking)


def _fit_blend(verifier_suspicion: _Numbers, bundled_suspicion: _Numbers, lacking: _Flags) -> Blend:
    """A logistic regression by Newton's method, with an L2 penalty on its two weights."""
    inputs = np.column_stack(
        [np.ones_like(verifier_suspicion), log_odds_of_each(verifier_suspicion), log_odds_of_each(bundled_suspicion)]
    )
    penalty = np.diag([1e-3, 1.0, 1.0])
    weights = np.zeros(3)
    for _ in range(50):
        shares = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (shares - lacking) + penalty @ weights
        curvature = (inputs * (shares * (1 - shares))[:, None]).T @ inputs + penalty
        weights = weights - np.linalg.solve(curvature, gradient)
    bias, verifier, of_bundled = np.round(weights, 6).tolist()
    return Blend(bias=bias, verifier=verifier, bundled=of_bundled)

"""Fits the thresholds of verdicts to marks, and writes a directory that ``attribeam audit --verdict`` reads.

Of a fitted verdict, of evidence mass, or of a verifier, whose scores may be blended with the bundled verdict's by a
regression on two scores. Each threshold is judged on answers that it was not fitted on.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from attribeam.attribution.option_declaration import BUNDLED_VERDICT_NAME, MASS_FILE, VERDICT_FILE, VERIFIER_FILE
from attribeam.attribution.verdict.verdict_model import (
    OperatingPoint,
    VerdictModel,
    VerdictThresholds,
    load_verdict_model,
    log_odds,
    verdict_directory,
)
from attribeam.attribution.verdict.verified import Blend, MassThresholds, VerifierForm
from attribeam.attribution.verdict.verified import log_odds as log_odds_of_each
from attribeam.evaluation.calibration.marked_items import MarkedAudit, MarkedItems
from attribeam.evaluation.measures.bootstrap import (
    Interval,
    best_threshold,
    percentile_interval,
    row_draws,
    source_folds,
)
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas.errors import UsageError

FEWEST = 20
"""The fewest items of each kind that a threshold is fitted to."""
SUPPORTED_PRECISION = 0.95
"""The least share of supported claims among those that are called so."""

_DRAWS = 400
_DIGITS = 4
_DIGEST_LETTERS = 16
_STEP = 1e-6
"""What is added to a suspicion that is not to be called; audits record them with 32 bits."""
_PENALTY, _STEPS = 1.0, 50
_Numbers = npt.NDArray[np.float64]
_Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Need:
    """How many marked items of a kind there should be, and how many there are."""

    what: str
    needed: int
    found: int

    @property
    def more(self) -> int:
        """How many are to be marked yet."""
        return max(0, self.needed - self.found)


def needs(items: MarkedItems, what: str, false_alarm_rate: float | None) -> tuple[Need, Need]:
    """What fitting a threshold needs: items that lack support, and supported ones.

    A false-alarm rate is measured on supported items: where there are n, the smallest share but 0 is 1 / n.
    """
    supported = FEWEST if not false_alarm_rate else max(FEWEST, math.ceil(1 / false_alarm_rate))
    lacking = int(items.lacking.sum())
    return (
        Need(f"{what} that lack support", FEWEST, lacking),
        Need(f"{what} that are supported", supported, len(items) - lacking),
    )


@dataclass(frozen=True, slots=True)
class CallFigures:
    """What calling items gives, as shares; ``missing`` shares of no items are 0."""

    precision: float
    recall: float
    false_alarms: float
    f1: float


def call_figures(called: _Flags, lacking: _Flags, weights: _Numbers | None = None) -> CallFigures:
    """The figures of some calls; ``weights`` say how often each item counts, by default once."""
    weights = np.ones(len(called)) if weights is None else weights
    both, calls, marked = (float(weights[one].sum()) for one in (called & lacking, called, lacking))
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
    return (limit + float(above.min())) / 2 if len(above) else limit + _STEP


@dataclass(frozen=True, slots=True)
class FittedThreshold:
    """A threshold of suspicion, and what it does.

    Attributes:
        threshold: items are called from this suspicion on.
        threshold_interval: over resamples of the answers, each with a threshold of its own.
        figures: on items of other answers than each threshold was fitted on (five folds).
        f1_interval, false_alarm_interval: of these figures, over resamples of the answers.
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
    counts = row_draws(int(answers.max()) + 1, draws=_DRAWS, seed=seed)[:, answers]
    drawn = [(np.repeat(suspicion, draw), np.repeat(lacking, draw)) for draw in counts]
    thresholds = [choose_threshold(*one, false_alarm_rate) for one in drawn if one[1].any() and not one[1].all()]
    finite = np.array([one for one in thresholds if math.isfinite(one)] or [0.0])
    scored = [call_figures(called, lacking, draw.astype(np.float64)) for draw in counts]
    return FittedThreshold(
        threshold=choose_threshold(suspicion, lacking, false_alarm_rate),
        threshold_interval=percentile_interval(finite),
        figures=call_figures(called, lacking),
        f1_interval=percentile_interval(np.array([one.f1 for one in scored])),
        false_alarm_interval=percentile_interval(np.array([one.false_alarms for one in scored])),
    )


@dataclass(frozen=True, slots=True)
class FittedPart:
    """One threshold before and after: what it is called, its fit, and what the old one gave on the same marks.

    Attributes:
        old, new: the threshold as the verdict counts it; ``old`` and ``before`` are None where there was none.
        interval: of ``new``, over resamples of the answers.
        count: number of marked items.
    """

    name: str
    old: float | None
    new: float
    interval: Interval
    fit: FittedThreshold
    before: CallFigures | None
    count: int


def _support_part(name: str, items: MarkedItems, old: float | None, rate: float | None, seed: int) -> FittedPart:
    """A threshold of support: items below it are called."""
    fit = fit_threshold(items, rate, seed=seed)
    low, high = fit.threshold_interval.low, fit.threshold_interval.high
    interval = Interval(_clipped(1 - high), _clipped(1 - low))
    before = None if old is None else call_figures(1 - items.suspicion < old, items.lacking)
    return FittedPart(name, old, _clipped(1 - fit.threshold), interval, fit, before, len(items))


def _clipped(threshold: float) -> float:
    """A finite threshold from 0 to 1."""
    return round(float(np.clip(threshold, 0.0, 1.0)), _DIGITS)


def verdict_of(audit: AuditDirectory) -> str:
    """What the audit's ``--verdict`` was."""
    method = audit.manifest.options.get("method")
    return str(method.get("verdict", BUNDLED_VERDICT_NAME)) if isinstance(method, Mapping) else BUNDLED_VERDICT_NAME


def base_verdict(audit: AuditDirectory) -> tuple[Path, VerdictModel]:
    """The fitted verdict that judged the audit.

    Raises:
        UsageError: if it was judged by evidence mass, or the verdict is not there as it was.
        ModelLoadError: if the verdict cannot be read.
    """
    directory = verdict_directory(verdict_of(audit))
    model = load_verdict_model(directory)
    used, there = audit.manifest.models.get("verdict_model"), model.digest[:_DIGEST_LETTERS]
    if used != there:
        raise UsageError(
            f"--audit {audit.root} was judged by the verdict {used}, but {directory} holds {there}; audit again, and "
            "mark claims on the new page"
        )
    return directory, model


def fit_verdict(
    items: MarkedItems, what: str, old: VerdictThresholds, *, false_alarm_rate: float | None, seed: int
) -> tuple[VerdictThresholds, FittedPart]:
    """The thresholds of support, fitted to answers (whose risk is that of their worst claim) or to claims.

    ``balanced`` is fitted, all others keep their distance to it in log odds; those of words stay.
    """
    part = _support_part(f"{what}: unsupported below score", items, old.balanced, false_alarm_rate, seed)
    by = log_odds(part.new) - log_odds(old.balanced)
    moved = {
        name: _clipped(1 / (1 + math.exp(-log_odds(getattr(old, name)) - by)))
        for name in ("lenient", "strict", "supported")
    }
    return replace(old, balanced=part.new, **moved), part


def write_verdict(
    output: Path, base: Path, thresholds: VerdictThresholds, items: MarkedItems, *, measured_on: str
) -> None:
    """Write the base verdict with other thresholds, and what thresholds of risk give on the marked items.

    Raises:
        OSError: if it cannot be written. The functions below raise it likewise.
    """
    output.mkdir(parents=True, exist_ok=True)
    for file in sorted(base.iterdir()):
        if file.is_file() and file.name != VERDICT_FILE and file.suffix != ".md":
            shutil.copyfile(file, output / file.name)
    found = json.loads((base / VERDICT_FILE).read_text(encoding="utf-8"))
    points = operating_points(items.suspicion, items.lacking)
    found |= {
        "thresholds": asdict(thresholds),
        "operating_points": points,
        "short_operating_points": points,
        "measured_on": measured_on,
    }
    (output / VERDICT_FILE).write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")


_POINTS = 40


def operating_points(risks: _Numbers, marked: _Flags) -> list[dict[str, float]]:
    """What thresholds over the whole range of the risks give, ascending, as ``OperatingPoint`` reads it."""
    levels = np.unique(np.round(np.quantile(risks, np.linspace(0, 1, _POINTS + 1)[1:-1]), 4))
    points = [
        OperatingPoint(
            answer_risk=float(level),
            precision=_mean(marked[risks >= level]),
            recall=_mean(risks[marked] >= level),
            false_alarms=_mean(risks[~marked] >= level),
        )
        for level in levels
    ]
    return [{name: round(value, 4) for name, value in asdict(point).items()} for point in points]


def _mean(items: _Flags) -> float:
    return float(items.mean()) if len(items) else 0.0


def fit_scores(
    items: MarkedItems, what: str, old: float | None, *, false_alarm_rate: float | None, seed: int
) -> tuple[float, FittedPart]:
    """Thresholds of evidence mass or of a verifier's score: the one of supported claims, and the lower one.

    ``old`` is the audit's lower one, and ``what`` says of what they are.
    """
    part = _support_part(f"claims: unsupported below {what}", items, old, false_alarm_rate, seed)
    order = np.argsort(items.suspicion, kind="stable")
    right = np.cumsum(~items.lacking[order]) / np.arange(1, len(order) + 1)
    suspicion = items.suspicion[order]
    whole = np.append(suspicion[1:] != suspicion[:-1], True)  # equal ones are called together
    enough = np.flatnonzero((right >= SUPPORTED_PRECISION) & whole)
    lowest = _clipped(1 - float(suspicion[enough[-1]])) if len(enough) else 1.0
    return max(part.new, lowest), part


def write_mass(output: Path, audit: AuditDirectory, supported: float, weak: float, *, measured_on: str) -> None:
    """Write thresholds of evidence mass for the audit's model and method."""
    models = audit.manifest.models
    output.mkdir(parents=True, exist_ok=True)
    found = MassThresholds(
        supported_threshold=supported,
        weak_threshold=weak,
        model=models.get("model", ""),
        method=models.get("method", ""),
        layer=models.get("layer", ""),
        measured_on=measured_on,
    )
    (output / MASS_FILE).write_text(found.to_json(), encoding="utf-8")


def is_of_verifier(audit: AuditDirectory) -> bool:
    """Whether a verifier judged the audit.

    Raises:
        UsageError: if its scores are no verifier's own: it was calibrated, or asked within a band only.
    """
    models = audit.manifest.models
    if "verifier" not in models:
        return False
    for name, what in {"verdict_calibration": "a calibrated verifier", "verdict_band": "a verifier in a band"}.items():
        if name in models:
            raise UsageError(
                f"--audit {audit.root} was judged by {what}; audit again with --verdict {models['verifier']} alone, "
                "and calibrate that; the marks stay usable"
            )
    return True


def bundled_digest(blend: AuditDirectory) -> str:
    """The digest of the bundled verdict that judged the audit which is blended in.

    Raises:
        UsageError: if another verdict did, or the bundled one is not as it was.
    """
    if verdict_of(blend) != BUNDLED_VERDICT_NAME:
        raise UsageError(
            f"--blend {blend.root} should be an audit by the bundled verdict, was judged by {verdict_of(blend)}"
        )
    return base_verdict(blend)[1].digest[:_DIGEST_LETTERS]


def fit_verifier(
    audit: AuditDirectory,
    marked: MarkedAudit,
    bundled: tuple[MarkedAudit, str] | None,
    *,
    false_alarm_rate: float | None,
    measured_on: str,
    seed: int,
) -> tuple[VerifierForm, tuple[FittedPart, ...]]:
    """The verifier with its thresholds; ``bundled`` are the same marks in an audit by the bundled verdict, its digest.

    Thresholds are fitted on blended scores of answers that each blend was not fitted on.

    Raises:
        UsageError: if the two audits do not have the same marked answers and claims.
    """
    answers, of_answers = _blended(marked.answers, bundled and bundled[0].answers, seed=seed)
    claims, of_claims = _blended(marked.scored, bundled and bundled[0].scored, seed=seed)
    fit = fit_threshold(answers, false_alarm_rate, seed=seed)
    risk = _clipped(fit.threshold)
    of_risk = FittedPart("answers: risk from", None, risk, fit.threshold_interval, fit, None, len(answers))
    supported, of_score = fit_scores(claims, "score", None, false_alarm_rate=false_alarm_rate, seed=seed)
    models = audit.manifest.models
    name = models["verifier"]
    form = VerifierForm(
        verifier=str(Path(name).absolute()) if Path(name).is_dir() else name,
        identity={"verifier_revision": models["verifier_revision"]} if "verifier_revision" in models else {},
        bundled=bundled[1] if bundled else "",
        claims=of_claims.model_copy(update={"bias": -of_claims.bias}),  # of support, where suspicion was fitted
        answers=of_answers,
        answer_risk=risk,
        unsupported=of_score.new,
        supported=supported,
        measured_on=measured_on,
    )
    return form, (of_risk, of_score)


def write_verifier(output: Path, found: VerifierForm) -> None:
    """Write a verifier with its thresholds."""
    output.mkdir(parents=True, exist_ok=True)
    (output / VERIFIER_FILE).write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")


def _blended(own: MarkedItems, bundled: MarkedItems | None, *, seed: int) -> tuple[MarkedItems, Blend]:
    """The items with out-of-fold blended suspicions, and the blend of all of them; without ``bundled``, as they are."""
    if bundled is None:
        return own, Blend()
    if len(own) != len(bundled) or (own.answers != bundled.answers).any() or (own.lacking != bundled.lacking).any():
        raise UsageError(
            f"--blend should have the same marked answers and claims as --audit, has {len(bundled)} of {len(own)}; "
            "audit the same logs with the same options, but for --verdict"
        )
    folds = source_folds(own.answers.tolist(), seed=seed)
    suspicion = np.empty_like(own.suspicion)
    for fold in np.unique(folds):
        rest = folds != fold
        blend = _fit_blend(own.suspicion[rest], bundled.suspicion[rest], own.lacking[rest])
        suspicion[~rest] = blend.of(own.suspicion[~rest], bundled.suspicion[~rest])
    return replace(own, suspicion=suspicion), _fit_blend(own.suspicion, bundled.suspicion, own.lacking)


def _fit_blend(own: _Numbers, bundled: _Numbers, lacking: _Flags) -> Blend:
    """A logistic regression by Newton's method, with an L2 penalty on its two weights."""
    inputs = np.column_stack([np.ones_like(own), log_odds_of_each(own), log_odds_of_each(bundled)])
    penalty = _PENALTY * np.diag([1e-3, 1.0, 1.0])
    weights = np.zeros(3)
    for _ in range(_STEPS):
        shares = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (shares - lacking) + penalty @ weights
        curvature = (inputs * (shares * (1 - shares))[:, None]).T @ inputs + penalty
        weights = weights - np.linalg.solve(curvature, gradient)
    bias, verifier, of_bundled = np.round(weights, 6).tolist()
    return Blend(bias=bias, verifier=verifier, bundled=of_bundled)

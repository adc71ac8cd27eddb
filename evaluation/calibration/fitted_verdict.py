"""Fits the thresholds of the verdict to marks, and writes a directory that ``attribeam audit --verdict`` reads."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from attribeam.attribution.option_types import BUNDLED_VERDICT_NAME, MASS_FILE, VERDICT_FILE
from attribeam.attribution.verdict.mass_thresholds import MassThresholds
from attribeam.attribution.verdict.verdict_model import (
    VerdictModel,
    VerdictThresholds,
    load_verdict_model,
    log_odds,
    verdict_directory,
)
from attribeam.evaluation.calibration.marked_items import MarkedItems
from attribeam.evaluation.calibration.threshold_fit import (
    CallFigures,
    FittedThreshold,
    call_figures,
    chooser,
    fit_threshold,
    operating_points,
)
from attribeam.evaluation.measures.bootstrap import Interval
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas.errors import UsageError

SUPPORTED_PRECISION = 0.95
"""The least share of supported claims among those that are called so."""

_DIGITS = 4
DIGEST_LETTERS = 16


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


def base_verdict(audit: AuditDirectory) -> tuple[Path, VerdictModel]:
    """The fitted verdict that judged the audit.

    Raises:
        UsageError: if it was judged by evidence mass, or the verdict is not there as it was.
        ModelLoadError: if the verdict cannot be read.
    """
    directory = verdict_directory(verdict_of(audit))
    model = load_verdict_model(directory)
    used = audit.manifest.models.get("verdict_model")
    if used != model.digest[:DIGEST_LETTERS]:
        raise UsageError(
            f"--audit {audit.root} was judged by the verdict {used}, but {directory} holds "
            f"{model.digest[:DIGEST_LETTERS]}; audit again, and mark claims on the new page"
        )
    return directory, model


def verdict_of(audit: AuditDirectory) -> str:
    """What the audit's ``--verdict`` was."""
    method = audit.manifest.options.get("method")
    return str(method.get("verdict", BUNDLED_VERDICT_NAME)) if isinstance(method, Mapping) else BUNDLED_VERDICT_NAME


def fit_verdict(
    items: MarkedItems, what: str, old: VerdictThresholds, *, false_alarm_rate: float | None, seed: int
) -> tuple[VerdictThresholds, FittedPart]:
    """The thresholds of support, fitted to answers (whose risk is that of their worst claim) or to claims.

    ``balanced`` is fitted, all others keep their distance to it in log odds; those of words stay.
    """
    fit = fit_threshold(items, chooser(false_alarm_rate), seed=seed)
    balanced = _clipped(1 - fit.threshold)
    by = log_odds(balanced) - log_odds(old.balanced)
    moved = {
        name: _clipped(1 / (1 + math.exp(-log_odds(getattr(old, name)) - by)))
        for name in ("lenient", "strict", "supported")
    }
    part = FittedPart(
        f"{what}: unsupported below score",
        old.balanced,
        balanced,
        _of_support(fit.threshold_interval),
        fit,
        call_figures(1 - items.suspicion < old.balanced, items.lacking),
        len(items),
    )
    return replace(old, balanced=balanced, **moved), part


def fit_scores(
    items: MarkedItems, old: tuple[float, float] | None, *, false_alarm_rate: float | None, seed: int
) -> tuple[float, float, FittedPart]:
    """(supported, weak) thresholds of evidence mass or of a score, and how well the lower one does."""
    fit = fit_threshold(items, chooser(false_alarm_rate), seed=seed)
    weak = _clipped(1 - fit.threshold)
    supported = max(weak, _supported_from(items))
    before = None if old is None else call_figures(1 - items.suspicion < old[1], items.lacking)
    part = FittedPart(
        "claims: unsupported below mass",
        None if old is None else old[1],
        weak,
        _of_support(fit.threshold_interval),
        fit,
        before,
        len(items),
    )
    return supported, weak, part


def _of_support(interval: Interval) -> Interval:
    """An interval of suspicion as one of support."""
    return Interval(_clipped(1 - interval.high), _clipped(1 - interval.low))


def _supported_from(items: MarkedItems) -> float:
    """The lowest support from which on enough claims are supported; 1 where there is none."""
    order = np.argsort(items.suspicion, kind="stable")
    right = np.cumsum(~items.lacking[order]) / np.arange(1, len(order) + 1)
    suspicion = items.suspicion[order]
    whole = np.append(suspicion[1:] != suspicion[:-1], True)  # equal ones are called together
    enough = np.flatnonzero((right >= SUPPORTED_PRECISION) & whole)
    return _clipped(1 - float(suspicion[enough[-1]])) if len(enough) else 1.0


def _clipped(threshold: float) -> float:
    """A finite threshold from 0 to 1."""
    return round(float(np.clip(threshold, 0.0, 1.0)), _DIGITS)


def write_verdict(
    output: Path, base: Path, thresholds: VerdictThresholds, items: MarkedItems, *, measured_on: str
) -> None:
    """Write the base verdict with other thresholds, and what thresholds of risk give on the marked items.

    Raises:
        OSError: if it cannot be written.
    """
    output.mkdir(parents=True, exist_ok=True)
    for file in _tables(base):
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


def _tables(base: Path) -> Iterator[Path]:
    """What else a verdict's directory holds, but its card."""
    for file in sorted(base.iterdir()):
        if file.is_file() and file.name != VERDICT_FILE and file.suffix != ".md":
            yield file


def write_mass(output: Path, audit: AuditDirectory, supported: float, weak: float, *, measured_on: str) -> None:
    """Write thresholds of evidence mass for the audit's model and method.

    Raises:
        OSError: if they cannot be written.
    """
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

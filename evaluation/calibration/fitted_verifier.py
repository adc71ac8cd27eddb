"""Fits a verifier's thresholds to marks, and its blend with the bundled verdict: a regression on two scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from attribeam.attribution.option_types import BUNDLED_VERDICT_NAME, VERIFIER_FILE
from attribeam.attribution.verdict.verified import Blend, VerifierForm, log_odds
from attribeam.evaluation.calibration.fitted_verdict import (
    DIGEST_LETTERS,
    FittedPart,
    base_verdict,
    fit_scores,
    verdict_of,
)
from attribeam.evaluation.calibration.marked_items import MarkedAudit, MarkedItems
from attribeam.evaluation.calibration.threshold_fit import chooser, fit_threshold
from attribeam.evaluation.measures.bootstrap import source_folds
from attribeam.report.audit_directory import AuditDirectory
from attribeam.schemas.errors import UsageError

_PENALTY, _STEPS = 1.0, 50
_Numbers = npt.NDArray[np.float64]


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
    return base_verdict(blend)[1].digest[:DIGEST_LETTERS]


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
    fit = fit_threshold(answers, chooser(false_alarm_rate), seed=seed)
    risk = round(float(np.clip(fit.threshold, 0, 1)), 4)
    of_risk = FittedPart("answers: risk from", None, risk, fit.threshold_interval, fit, None, len(answers))
    supported, unsupported, of_score = fit_scores(claims, None, false_alarm_rate=false_alarm_rate, seed=seed)
    models = audit.manifest.models
    name = models["verifier"]
    return VerifierForm(
        verifier=str(Path(name).absolute()) if Path(name).is_dir() else name,
        identity={"verifier_revision": models["verifier_revision"]} if "verifier_revision" in models else {},
        bundled=bundled[1] if bundled else "",
        claims=of_claims.model_copy(update={"bias": -of_claims.bias}),  # of support, where suspicion was fitted
        answers=of_answers,
        answer_risk=risk,
        unsupported=unsupported,
        supported=supported,
        measured_on=measured_on,
    ), (of_risk, replace(of_score, name="claims: unsupported below score"))


def write_verifier(output: Path, found: VerifierForm) -> None:
    """Write a directory for ``--verdict``.

    Raises:
        OSError: if it cannot be written.
    """
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
        blend = _fit(own.suspicion[rest], bundled.suspicion[rest], own.lacking[rest])
        suspicion[~rest] = blend.of(own.suspicion[~rest], bundled.suspicion[~rest])
    return replace(own, suspicion=suspicion), _fit(own.suspicion, bundled.suspicion, own.lacking)


def _fit(own: _Numbers, bundled: _Numbers, lacking: npt.NDArray[np.bool_]) -> Blend:
    """A logistic regression by Newton's method, with an L2 penalty on its two weights."""
    inputs = np.column_stack([np.ones_like(own), log_odds(own), log_odds(bundled)])
    penalty = _PENALTY * np.diag([1e-3, 1.0, 1.0])
    weights = np.zeros(3)
    for _ in range(_STEPS):
        shares = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (shares - lacking) + penalty @ weights
        curvature = (inputs * (shares * (1 - shares))[:, None]).T @ inputs + penalty
        weights = weights - np.linalg.solve(curvature, gradient)
    bias, verifier, of_bundled = np.round(weights, 6).tolist()
    return Blend(bias=bias, verifier=verifier, bundled=of_bundled)

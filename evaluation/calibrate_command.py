"""Fit the thresholds of the verdict to one's own answers: to what people marked on the page of an audit.

Writes a directory for ``attribeam audit --verdict DIR``. With ``--verdict mass``, the two thresholds of evidence mass
are fitted instead, for the audit's model; so a model that has no thresholds gets some. So does a verifier, whose scores
may be blended with the bundled verdict's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from attribeam.attribution.option_declaration import (
    BUNDLED_VERDICT_NAME,
    MASS_FILE,
    MASS_VERDICT,
    VERIFIER_FILE,
    whole_number,
)
from attribeam.attribution.verdict.verdict_model import log_odds
from attribeam.attribution.verdict.verified import MassThresholds, VerifierForm
from attribeam.evaluation.thresholds import (
    DIGEST_LETTERS,
    CallFigures,
    FittedPart,
    MarkedAudit,
    MarkedItems,
    base_verdict,
    blended,
    clipped,
    fit_scores,
    fit_threshold,
    marked_audit,
    missing,
    support_part,
    verdict_of,
    write_verdict,
)
from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.audit_summary import audit_title
from attribeam.report.labelling import Marks, read_marks
from attribeam.report.messages import as_private_as, print_lines
from attribeam.schemas.errors import DataError, RunError, UsageError
from attribeam.schemas.files import file_sha256

FIGURES_FILE = "calibration.json"
_Parts = tuple[FittedPart, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--audit", type=Path, required=True, metavar="DIR", help="the audit on whose page the marks were made")
    add(
        "--marks", type=Path, required=True, nargs="+", metavar="FILE",
        help="marks that the page saved: CSV, JSONL or Parquet; of several reviewers if there are more files",
    )  # fmt: skip
    add("--output", type=Path, required=True, metavar="DIR", help="a new directory, for attribeam audit --verdict DIR")
    add(
        "--verdict", choices=("fitted", MASS_VERDICT),
        help="whose thresholds: of the fitted verdict, or of evidence mass (default: what judged the audit)",
    )  # fmt: skip
    add(
        "--false-alarm-rate", type=_share, metavar="SHARE",
        help="flag at most so many of the answers and claims that people found supported (default: the best F1)",
    )  # fmt: skip
    add(
        "--blend", type=Path, metavar="DIR",
        help="of an audit by a verifier: an audit of the same logs by the bundled verdict, whose scores are blended in",
    )  # fmt: skip
    add("--seed", type=whole_number, default=0, help="seed of folds and resamples (default: 0)")


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"should be a share from 0 to below 1, was: {text!r}")
    return share


def run(arguments: argparse.Namespace) -> None:
    """Fit, print what the thresholds give, and write them.

    Raises ``UsageError`` if the marks cannot be read or are too few, the output is not new, or the audit's verdict is
    not there any more; ``RunError`` if the audit cannot be read or the thresholds not be written.
    """
    output, rate = arguments.output, arguments.false_alarm_rate
    if os.path.lexists(output):  # audits may name the verdict in it, and are judged by its thresholds
        raise UsageError(f"--output should be a new directory, but {output} is there already; name another one")
    audit = AuditDirectory.open(arguments.audit)
    marks = _given_marks(arguments)
    marked = marked_audit(audit, marks)
    by_mass = (arguments.verdict or verdict_of(audit)) == MASS_VERDICT
    left_out = {
        "without a label": marks.silent,
        "disputed by reviewers": marks.disputed,
        "not in this audit": marked.lost,
    }
    rest = ", ".join(f"{count:,} {why}" for why, count in left_out.items() if count)
    words = f"{len(marks.marks):,} marks: {len(marked.answers):,} answers and {len(marked.massed):,} claims"
    print_lines(f"{words} ({rest} left out)" if rest else words)
    by_verifier = not by_mass and _is_of_verifier(audit)
    if arguments.blend is not None and not by_verifier:
        raise UsageError(f"--blend is for an audit by a verifier, --audit {audit.root} is none; leave it out")
    calibrated = _calibrate_mass if by_mass else _calibrate_verifier if by_verifier else _calibrate_verdict
    try:
        with as_private_as([audit.root]):
            parts = calibrated(arguments, audit, marked)
            figures = {
                "audit_configuration": audit.manifest.configuration,
                "marks_sha256": {file.name: file_sha256(file) for file in arguments.marks},
                "false_alarm_rate": rate,
                "seed": arguments.seed,
                "parts": [asdict(part) for part in parts],
            }
            (output / FIGURES_FILE).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"--output {output} cannot be written: {error}") from error
    print_lines(*_lines(parts, rate))
    print_lines(
        "The figures are those of answers like the marked ones, each judged by thresholds that were fitted on others. "
        "If you marked the riskiest first, mark a random sample too: the page has an order for it."
    )
    decoder = None if by_mass or by_verifier else audit.manifest.models.get("language_model")
    needed = f" --language-model {decoder}" if decoder and base_verdict(audit)[1].probe is not None else ""
    print_lines(f"written to {output}; use it: attribeam audit --verdict {output}{needed}")


def _given_marks(arguments: argparse.Namespace) -> Marks:
    try:
        return read_marks(arguments.marks)
    except DataError as error:
        raise UsageError(f"--marks: {error}") from error


def _calibrate_verdict(arguments: argparse.Namespace, audit: AuditDirectory, marked: MarkedAudit) -> _Parts:
    """``balanced`` is fitted to answers or claims, all others keep their distance to it; those of words stay."""
    if verdict_of(audit) == MASS_VERDICT:
        raise UsageError(
            f"--audit {audit.root} was judged by evidence mass, so its claims have no support scores; leave --verdict "
            "out, or audit again with --verdict bundled"
        )
    rate = arguments.false_alarm_rate
    items, what = marked.answers, "answers"
    if missing(items, what, rate) and not missing(marked.scored, "claims", rate):
        items, what = marked.scored, "claims"
    _check_enough(missing(items, what, rate))
    base, model = base_verdict(audit)
    old = model.thresholds
    part = support_part(f"{what}: unsupported below score", items, old.balanced, rate, arguments.seed)
    by = log_odds(part.new) - log_odds(old.balanced)
    moved = {
        name: clipped(1 / (1 + math.exp(-log_odds(getattr(old, name)) - by)))
        for name in ("lenient", "strict", "supported")
    }
    thresholds = replace(old, balanced=part.new, **moved)
    write_verdict(arguments.output, base, thresholds, items, measured_on=_measured_on(audit, items, what))
    return (part,)


def _is_of_verifier(audit: AuditDirectory) -> bool:
    """Whether a verifier judged the audit, whose scores must be its own."""
    models = audit.manifest.models
    for name, what in {"verdict_calibration": "a calibrated verifier", "verdict_band": "a verifier in a band"}.items():
        if "verifier" in models and name in models:
            raise UsageError(
                f"--audit {audit.root} was judged by {what}; audit again with --verdict {models['verifier']} alone, "
                "and calibrate that; the marks stay usable"
            )
    return "verifier" in models


def _calibrate_verifier(arguments: argparse.Namespace, audit: AuditDirectory, marked: MarkedAudit) -> _Parts:
    """Thresholds are fitted on scores of answers that each blend was not fitted on."""
    rate, seed, models = arguments.false_alarm_rate, arguments.seed, audit.manifest.models
    _check_enough([*missing(marked.answers, "answers", rate), *missing(marked.scored, "claims", rate)])
    digest = ""
    bundled: tuple[MarkedItems, MarkedItems] | tuple[None, None] = (None, None)
    if arguments.blend is not None:
        blend = AuditDirectory.open(arguments.blend)
        others = marked_audit(blend, _given_marks(arguments))
        if verdict_of(blend) != BUNDLED_VERDICT_NAME:
            raise UsageError(
                f"--blend {blend.root} should be an audit by the bundled verdict, was judged by {verdict_of(blend)}"
            )
        digest, bundled = base_verdict(blend)[1].digest[:DIGEST_LETTERS], (others.answers, others.scored)
    answers, of_answers = blended(marked.answers, bundled[0], seed=seed)
    claims, of_claims = blended(marked.scored, bundled[1], seed=seed)
    fit = fit_threshold(answers, rate, seed=seed)
    risk = clipped(fit.threshold)
    of_risk = FittedPart("answers: risk from", None, risk, fit.threshold_interval, fit, None, len(answers))
    supported, of_score = fit_scores(claims, "score", None, false_alarm_rate=rate, seed=seed)
    name = models["verifier"]
    form = VerifierForm(
        verifier=str(Path(name).absolute()) if Path(name).is_dir() else name,
        identity={"verifier_revision": models["verifier_revision"]} if "verifier_revision" in models else {},
        bundled=digest,
        claims=of_claims.model_copy(update={"bias": -of_claims.bias}),  # of support, where suspicion was fitted
        answers=of_answers,
        answer_risk=risk,
        unsupported=of_score.new,
        supported=supported,
        measured_on=_measured_on(audit, marked.answers, "answers"),
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / VERIFIER_FILE).write_text(form.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return of_risk, of_score


def _calibrate_mass(arguments: argparse.Namespace, audit: AuditDirectory, marked: MarkedAudit) -> _Parts:
    items, rate, models = marked.massed, arguments.false_alarm_rate, audit.manifest.models
    _check_enough(missing(items, "claims with an evidence mass", rate))
    old = None if "weak_threshold" not in models else float(models["weak_threshold"])
    supported, part = fit_scores(items, "mass", old, false_alarm_rate=rate, seed=arguments.seed)
    thresholds = MassThresholds(
        supported_threshold=supported,
        weak_threshold=part.new,
        model=models.get("model", ""),
        method=models.get("method", ""),
        layer=models.get("layer", ""),
        measured_on=_measured_on(audit, items, "claims"),
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / MASS_FILE).write_text(thresholds.to_json(), encoding="utf-8")
    print_lines(f"thresholds of evidence mass: supported from {supported:g}, unsupported below {part.new:g}")
    return (part,)


def _check_enough(lacks: Sequence[str]) -> None:
    if lacks:
        raise UsageError(
            f"--marks has too few to fit thresholds to: {'; '.join(lacks)}; mark more of them on the page (its order "
            "“random” draws a sample), or give --marks several files"
        )


def _measured_on(audit: AuditDirectory, items: MarkedItems, kind: str) -> str:
    return f"{len(items):,} marked {kind} of {audit_title(audit)}, which its thresholds were fitted to"


def _lines(parts: Sequence[FittedPart], rate: float | None) -> Iterator[str]:
    """What each threshold is and gives; a warning if it is worse on answers that it was not fitted to.

    A given rate may cost F1 for fewer alarms.
    """
    for part in parts:
        was = "" if part.old is None else f", was {part.old:g}"
        between = f"95% interval {part.interval.low:.2f} to {part.interval.high:.2f}"
        yield f"{part.name} {part.new:g} ({between}){was}; {part.count:,} marked"
        scores, alarms, now, old = part.fit.f1_interval, part.fit.false_alarm_interval, part.fit.figures, part.before
        yield (
            f"  new  {_figures(now)}; "
            f"95% intervals: F1 {100 * scores.low:.0f} to {100 * scores.high:.0f}, "
            f"false alarms {100 * alarms.low:.0f} to {100 * alarms.high:.0f}"
        )
        if old is None:
            continue
        yield f"  old  {_figures(old)}"
        if now.f1 < old.f1 and (rate is None or now.false_alarms >= old.false_alarms):
            yield (
                f"warning: {part.name}: the new threshold is worse than the old one on marks that it was not fitted "
                f"to: F1 {100 * now.f1:.1f}, was {100 * old.f1:.1f}; keep the old verdict, or mark more answers"
            )


def _figures(of: CallFigures) -> str:
    shares = {"F1": of.f1, "precision": of.precision, "recall": of.recall, "false alarms": of.false_alarms}
    return ", ".join(f"{name} {100 * share:.0f}" for name, share in shares.items())

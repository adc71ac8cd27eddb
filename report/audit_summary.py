"""Sums up an audit: the figures at the top of the page, and the facts about how it was made.

How often a verdict is right is known only where it was measured: the models in the manifest then have figures, and say
what they were measured on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from attribeam.report.audit_directory import AuditDirectory
from attribeam.report.overview import AgreementTally
from attribeam.schemas import VERDICTS, AnswerKind, Support
from attribeam.schemas.run_manifest import AuditCounts

MEASURED_ON = "verdict_measured_on"
"""What the figures of a verdict were measured on, to follow "measured on"."""
_MEANINGS = {
    Support.SUPPORTED: "The passages say what the claim says.",
    Support.WEAK: "The passages may say it; have a look.",
    Support.UNSUPPORTED: "The passages do not say it, or say something else.",
}
_PART_NAME = re.compile(r"(part|data|file|chunk|shard)([-_.]?\d+[-_.]|\.)|\d{1,6}\.", re.IGNORECASE)
"""What writers call the files of a data set, which says nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change since the earlier audit; ``verdict`` is "better", "worse" or "neutral"."""

    text: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure as shown; ``name`` is a stable key, ``meaning`` says in plain words what is counted."""

    name: str
    label: str
    value: str
    note: str
    change: Change | None = None
    meaning: str = ""


def comparison_remark(audit: AuditDirectory, previous: AuditDirectory) -> str | None:
    """Why a change since the earlier audit need not be one of the audited system; None where only time went by."""
    remarks = []
    contents, earlier = ({file.sha256 for file in side.manifest.inputs} for side in (audit, previous))
    if not contents & earlier:
        first = previous.manifest.inputs[0].path if previous.manifest.inputs else "none"
        remarks.append(f"read other logs, none of which this one read (the first is {first})")
    elif contents != earlier:
        remarks.append(f"read other logs too, it shares {len(contents & earlier)} of this one's {len(contents)} files")
    if previous.incomplete:
        remarks.append(f"is not complete (its status is {previous.manifest.status})")
    if audit.manifest.configuration != previous.manifest.configuration:
        remarks.append("was made with other options, models or versions")
    if not remarks:
        return None
    return f"The earlier audit {' and '.join(remarks)}: a change may come from there, and not from the audited system."


def top_figures(audit: AuditDirectory, previous: AuditDirectory | None) -> tuple[Figure, ...]:
    """Rows, claims, shares by support, refusals and what is not judged where there are any, dead letters, duration.

    A change since an audit with other options, models or versions is neither better nor worse.
    """
    counts, before = audit.counts, None if previous is None else previous.counts
    figures = (*_compared_figures(counts, before), *_run_figures(audit, before))
    if previous is None or previous.manifest.configuration == audit.manifest.configuration:
        return figures
    return tuple(replace(item, change=item.change and replace(item.change, verdict="neutral")) for item in figures)


def citation_figures(citations: AgreementTally) -> Iterator[Figure]:
    """How many claims with a citation have their evidence there, where answers cite at all."""
    if citations.told:
        share = _percent(citations.agreeing, citations.told)
        meaning = "Claims that cite a passage in which their evidence lies, among the claims that cite one."
        note = f"of {citations.told:,} claim{'s' * (citations.told != 1)} with one"
        yield Figure("citations", "Citations agree", share, note, meaning=meaning)


def _compared_figures(counts: AuditCounts, before: AuditCounts | None) -> Iterator[Figure]:
    """Rows, claims, shares by support, and what is counted apart from the verdicts where there is any of it."""
    rows, claims = counts.rows, counts.claim_count
    change = _growth(rows, before.rows if before else 0)
    yield Figure("rows", "Rows", f"{rows:,}", f"{counts.audited:,} audited", change)
    note = f"{claims / counts.audited:.1f} an answer" if counts.audited else "no answer was audited"
    meaning = "Statements of the answers. Headings, questions and words about the answer itself are none."
    change = _growth(claims, before.claim_count if before else 0)
    yield Figure("claims", "Claims", f"{claims:,}", note, change, meaning)
    for support in VERDICTS:
        own, name = counts.claims.get(support, 0), str(support)
        earlier = None if before is None else (before.claims.get(support, 0), before.claim_count)
        change = _points((own, claims), earlier, more_is_better=support is Support.SUPPORTED)
        note = f"{own:,} claim{'s' * (own != 1)}"
        yield Figure(name, name.capitalize(), _percent(own, claims), note, change, _MEANINGS[support])
    if uncalibrated := counts.claims.get(Support.NOT_CALIBRATED, 0):
        yield Figure("not_calibrated", "Not calibrated", f"{uncalibrated:,}", "claims without a verdict")
    if refusals := counts.answers.get(AnswerKind.REFUSAL, 0):
        note = f"{_percent(refusals, counts.audited)} of the answers"
        yield Figure("refusals", "Refusals", f"{refusals:,}", note, meaning="Answers that decline to answer.")
    if counts.not_judged_count:
        reasons = ", ".join(sorted(counts.not_judged, key=lambda kind: -counts.not_judged[kind]))
        meaning = "Spans in another language, in code or in a table, which cannot be judged."
        yield Figure("not_judged", "Not judged", f"{counts.not_judged_count:,}", f"spans: {reasons}", meaning=meaning)


def _run_figures(audit: AuditDirectory, before: AuditCounts | None) -> Iterator[Figure]:
    manifest, dead, rows = audit.manifest, audit.counts.dead_lettered, audit.counts.rows
    earlier = None if before is None else (before.dead_lettered, before.rows)
    change = _points((dead, rows), earlier, more_is_better=False)
    reasons = {letter.reason for letter in audit.counts.dead_letters}
    note = f"{dead:,} of {rows:,} rows" + (f": {reasons.pop()}" if len(reasons) == 1 else "")
    meaning = "Rows of the log that could not be audited; each comes with its reason."
    yield Figure("dead_letters", "Dead letters", _percent(dead, rows), note, change, meaning)
    note = "nothing was left to do"
    if manifest.rows_per_second:
        note = f"{manifest.rows_per_second:,.1f} rows/s after {_duration_text(manifest.load_seconds)} of loading"
    yield Figure("duration", "Duration", _duration_text(manifest.seconds), note)


def _duration_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _growth(now: int, before: int) -> Change | None:
    if not before:
        return None
    return Change("no change" if now == before else f"{_signed((now - before) / before * 100)}%", "neutral")


def _points(now: tuple[int, int], before: tuple[int, int] | None, *, more_is_better: bool) -> Change | None:
    """The change of a share, a part and its whole, in percentage points."""
    if before is None or not now[1] or not before[1]:
        return None
    points = round((now[0] / now[1] - before[0] / before[1]) * 100, 1)
    if points == 0:
        return Change("no change", "neutral")
    return Change(f"{_signed(points)} points", "better" if (points > 0) == more_is_better else "worse")


def _signed(number: float) -> str:
    return f"{number:+,.1f}".replace("-", "−")


def audit_facts(audit: AuditDirectory) -> dict[str, list[tuple[str, str]]]:
    """How the audit was made, by heading: every setting and source in the manifest that has a value."""
    manifest = audit.manifest
    names = ("status", "started_at", "runner", "attribeam_version", "schema_version", "configuration")
    run = [(_words(name), str(getattr(manifest, name))) for name in names]
    if manifest.counts.tokens is not None:
        run.append(("tokens", f"{manifest.counts.tokens:,}"))
    inputs = []
    for file in manifest.inputs:
        inputs.append((file.path, f"{file.row_count:,} rows, {file.size_bytes:,} bytes, sha256 {file.sha256[:16]}…"))
        inputs.extend((f"{file.path}: how it was read", str(note)) for note in file.notes)
    return {
        "Run": run,
        "Models": [(_words(name), value) for name, value in manifest.models.items()],
        "Options": [*_option_facts(manifest.options)],
        "Inputs": inputs,
        "Versions": [*manifest.versions.items()],
    }


def _option_facts(options: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _option_facts(value, f"{prefix}{_words(name)}: ")
        elif value not in (None, [], ()):
            yield f"{prefix}{_words(name)}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _words(name: str) -> str:
    return name.replace("_", " ")


def audit_title(audit: AuditDirectory) -> str:
    """The name of the audited file, or of its folder (such as ``date=2026-11-19``) where that tells more.

    Several files are called by their folder; those of several folders are counted.
    """
    paths = [PurePath(file.path) for file in audit.manifest.inputs]
    folders = {path.parent for path in paths}
    if len(paths) == 1 and not _PART_NAME.match(paths[0].name):
        return paths[0].name
    if len(folders) == 1 and (name := folders.pop().name):
        return name
    return f"{len(paths):,} log files" if len(paths) > 1 else paths[0].name


def model_line(audit: AuditDirectory) -> str:
    """Model, layer, method and thresholds on one line."""
    models = audit.manifest.models
    parts = (
        f"model {models['model']}" if "model" in models else "",
        f"layer {models['layer']} of {models.get('layer_count', '?')}" if "layer" in models else "",
        models.get("method", ""),
        fitted_verdict(models),
        f"supported from {models['supported_threshold']}" if "supported_threshold" in models else "",
        f"unsupported below {models['weak_threshold']}" if "weak_threshold" in models else "",
    )
    return " · ".join(filter(None, parts))


def fitted_verdict(models: Mapping[str, str]) -> str:
    """A fitted verdict other than the package's own, and the risk from which it flags answers; else empty."""
    if models.get("verdict", "bundled") == "bundled" or "verdict_model" not in models:
        return ""
    return f"verdict {models['verdict']}, risk from {models.get('answer_risk_threshold', '?')}"


def audit_key(audit: AuditDirectory) -> str:
    """The audit's content as 16 hexadecimal digits; every report of the audit has the same."""
    manifest = audit.manifest
    content = [manifest.configuration, *(file.sha256 for file in manifest.inputs)]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()[:16]


def verdict_accuracy(models: Mapping[str, str]) -> str:
    """What a verdict is worth, with its measured figures where ``models`` has them.

    These are the share of the flagged answers that have an unsupported claim (precision), of the answers with one that
    are flagged (recall), and of those without that are flagged all the same (false alarms); and the same of short ones.
    """
    said = []
    if both := _shares(models, "precision", "recall"):
        measured = f" (measured on {models[MEASURED_ON]})" if MEASURED_ON in models else ""
        said.append(
            f"Of the answers that the verdict flags, {both[0]} do have an unsupported claim; of those that have one, "
            f"it flags {both[1]}{measured}."
        )
    if alarms := _shares(models, "false_alarms"):
        said.append(f"Of the answers that people found nothing wrong with, it flags {alarms[0]}.")
    if short := _shares(models, "short_precision", "short_recall", "short_false_alarms"):
        said.append(f"With short answers, of up to three claims, these are {short[0]}, {short[1]} and {short[2]}.")
    return " ".join([*said, "A verdict is a measurement and no proof: it says where to look first."])


def _shares(models: Mapping[str, str], *names: str) -> list[str]:
    """The verdict's shares of these names in per cent; none where one is missing."""
    shares = [models.get(f"verdict_{name}") for name in names]
    return [] if None in shares else [f"{float(share or 0):.0%}" for share in shares]
